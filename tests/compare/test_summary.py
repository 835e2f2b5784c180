"""What enters a cell, what is compared, and when a verdict is withheld."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest

from ablate.compare.judged import Judged
from ablate.store.attempt import Attempt
from ablate.store.study_record import SearchRecord

BASE = (4.10, 4.12, 4.09, 4.11, 4.13)
LOWER = tuple(nats - 0.05 - 0.001 * i for i, nats in enumerate(BASE))
NOISY = (4.13, 4.08, 4.12, 4.09, 4.12)


def summary_of(study, **options):
    return Judged(study.record, {**study.journals}, **options)  # as they are now


def test_a_whole_table(by_hand):
    study = by_hand({"base": BASE, "doc": LOWER, "noise": NOISY})
    study.record_fields = {"floor": {"valid": 3.95, "test": 3.9}}
    summary = summary_of(study)
    base, doc, noise = (summary.arm(name) for name in ("base", "doc", "noise"))
    ppl = np.exp(BASE)
    assert summary.split == "test"
    assert summary.whole
    assert base.cells["test"].mean == pytest.approx(ppl.mean())
    assert base.cells["test"].spread == pytest.approx(ppl.std(ddof=1))
    assert base.cells["valid"].mean == pytest.approx(np.exp(np.add(BASE, 0.05)).mean())
    assert base.cells["test"].above_floor == pytest.approx(np.mean(BASE) - 3.9)
    assert base.cells["test"].floor_ratio == pytest.approx(ppl.mean() / math.exp(3.9))
    assert base.comparison is None
    assert doc.num_parameters == 1_234_567
    assert doc.comparison.verdict == "better"
    assert doc.comparison.delta == pytest.approx(100 * math.expm1(-0.052))
    assert doc.comparison.interval[0] < doc.comparison.delta < doc.comparison.interval[1] < 0
    assert noise.comparison.verdict == "undecided"
    assert noise.comparison.p_holm >= noise.comparison.difference.p
    assert [arm.best for arm in summary.arms] == [False, True, False]


def test_nothing_done(by_hand):
    summary = summary_of(by_hand({"base": (None,) * 3, "doc": (None,) * 3}))
    assert [arm.counts.missing for arm in summary.arms] == [3, 3]
    assert all(arm.cells == {} and arm.comparison is None for arm in summary.arms)
    assert summary.split == "valid"
    assert not summary.whole
    assert any("no result" in note for note in summary.notes)


def test_a_diverged_trial_is_counted_and_never_averaged_in(by_hand):
    study = by_hand({"base": BASE, "doc": LOWER})
    study.end("doc-2", "diverged", metrics={"valid_nll": 99.0, "test_nll": 99.0})
    doc = summary_of(study).arm("doc")
    assert (doc.counts.completed, doc.counts.diverged, doc.counts.planned) == (4, 1, 5)
    left = [LOWER[i] for i in (0, 1, 3, 4)]
    assert doc.cells["test"].mean == pytest.approx(np.exp(left).mean())
    assert doc.comparison.difference.num_pairs == 4


OWN = (  # reasons of failures as journals have them
    None,
    "ValueError: Input contains NaN.",
    "AssertionError: ",
    "RuntimeError: CUDA error: device-side assert triggered",
    "RuntimeError: out of memory, says a reviewer",
    "SystemExit: 1",
    "train.py:7: the command ended with status 1",
    "train.py:7: the command was killed by SIGSEGV",
    "runner own: advance() ended an epoch without its number. Given: nothing.",
)
MACHINES = (
    "out of memory: a smaller batch_size or window, or fewer workers, needs less.",
    "4 workers died without finishing another epoch; the last: the worker process died: killed",
    "the worker process (pid 7 on 10.0.0.1) died: it was killed, from outside",
    "its journal is missing from the store",
    "process 2 of 4 (pid 7) was killed by SIGKILL: the trial lost a part of its rows.",
    "train.py:7: the command was killed by SIGKILL\n$ python train.py",
)


@pytest.mark.parametrize(
    ("status", "why"), [("diverged", None), ("pruned", None), *(("failed", why) for why in OWN)]
)
def test_an_arm_that_lost_its_bad_seeds_is_not_called_lower(by_hand, status, why):
    study = by_hand({"base": BASE, "doc": LOWER})
    study.end("doc-2", status, reason=why)
    doc = summary_of(study).arm("doc")
    assert doc.comparison.difference.p < 0.05
    assert (doc.comparison.verdict, doc.comparison.reason) == ("undecided", "lost seeds")
    assert not doc.best


def test_but_it_may_be_called_higher(by_hand):
    study = by_hand({"base": LOWER, "doc": BASE})
    study.end("doc-2", "diverged")
    assert summary_of(study).arm("doc").comparison.verdict == "worse"


def test_a_base_arm_that_lost_seeds_makes_no_arm_higher(by_hand):
    study = by_hand({"base": LOWER, "doc": BASE})
    study.end("base-2", "diverged")
    comparison = summary_of(study).arm("doc").comparison
    assert (comparison.verdict, comparison.reason) == ("undecided", "other arm lost seeds")


@pytest.mark.parametrize("why", MACHINES)
def test_a_failure_of_the_machine_only_costs_a_pair(by_hand, why):
    study = by_hand({"base": BASE, "doc": LOWER})
    study.end("doc-2", "failed", reason=why)
    doc = summary_of(study).arm("doc")
    assert (doc.counts.failed, doc.counts.raised) == (1, 0)
    assert doc.comparison.verdict == "better"


@pytest.mark.parametrize(
    ("why", "verdict"), [("ValueError: NaN", "undecided"), ("out of memory: less", "better")]
)
def test_what_failed_because_its_parent_failed_shares_its_parents_fate(by_hand, why, verdict):
    study = by_hand({"base": BASE, "doc": LOWER})
    study.plan("doc-2-train", "doc", 2, stage="start")
    study.end("doc-2-train", "failed", reason=why)
    study.trials[7] = dataclasses.replace(study.trials[7], parents=("doc-2-train",))
    study.end("doc-2", "failed", reason="the trial doc-2-train that it builds on is failed")
    assert summary_of(study).arm("doc").comparison.verdict == verdict


def test_what_failed_because_its_parent_diverged_has_diverged(by_hand):
    study = by_hand({"base": BASE, "doc": LOWER})
    study.plan("doc-2-train", "doc", 2, stage="start")
    study.end("doc-2-train", "diverged")
    study.trials[7] = dataclasses.replace(study.trials[7], parents=("doc-2-train",))
    study.end("doc-2", "failed", reason="the trial doc-2-train that it builds on is diverged")
    doc = summary_of(study).arm("doc")
    assert (doc.counts.diverged, doc.counts.failed) == (1, 0)
    assert doc.comparison.verdict == "undecided"


def test_a_loss_that_is_no_number_has_diverged(by_hand):
    study = by_hand({"base": BASE, "doc": LOWER})
    study.end("doc-0", "completed", metrics={"valid_nll": 4.0, "test_nll": "nan"})
    doc = summary_of(study).arm("doc")
    assert (doc.counts.completed, doc.counts.diverged) == (4, 1)


def test_no_verdict_while_trials_are_still_to_run(by_hand):
    study = by_hand({"base": BASE, "doc": (*LOWER[:4], None), "noise": NOISY})
    summary = summary_of(study)
    doc, noise = (summary.arm(name).comparison for name in ("doc", "noise"))
    assert (doc.verdict, doc.reason, doc.pairs_needed) == ("undecided", "1 to run", None)
    assert (doc.difference.p, noise.difference.p is None) == (None, False)
    assert not any(arm.best for arm in summary.arms)


def test_an_arm_that_is_the_base_trial_for_trial(by_hand):
    study = by_hand({"base": BASE, "again": ()})
    for index in range(5):
        study.plan(f"base-{index}", "again", index)
    again = summary_of(study).arm("again")
    assert again.counts.completed == 5
    assert again.comparison.reason == "same trials"
    assert again.comparison.difference.mean == 0
    assert not again.best


def test_trials_of_other_stages_enter_no_cell_but_count_as_cost(by_hand):
    study = by_hand({"base": BASE[:3], "doc": LOWER[:3]})
    for index in range(3):
        study.plan(f"start-{index}", "doc", index, stage="before", final=False)
        study.end(f"start-{index}", "completed", metrics={"valid_nll": 9.0, "test_nll": 9.0})
        place = study.trials[3 + index]
        study.trials[3 + index] = dataclasses.replace(place, parents=(f"start-{index}",))
    search = SearchRecord(arm="doc", repeat=0, num_trials=1, trials=("tried",))
    study.record_fields = {"searches": (search,)}
    study.end("tried", "pruned")
    doc = summary_of(study).arm("doc")
    assert doc.cells["test"].mean == pytest.approx(np.exp(LOWER[:3]).mean())
    assert doc.counts.planned == 3
    assert (doc.tokens, doc.seconds) == (4000, 31.5)


@pytest.mark.parametrize("final", [True, False])
def test_an_ensemble_has_its_own_row(by_hand, final):
    study = by_hand({"base": BASE, "doc": LOWER})
    members = tuple(f"doc-{i}" for i in range(5))
    study.plan("together", "doc", 0, stage="ensemble", final=final, parents=members)
    before = summary_of(study)
    study.end("together", "completed", metrics={"valid_nll": 4.0, "test_nll": 3.96})
    summary = summary_of(study)
    doc, doc_before = summary.arm("doc"), before.arm("doc")
    assert (doc.cells, doc.counts) == (doc_before.cells, doc_before.counts)
    assert doc.comparison == doc_before.comparison
    assert before.ensembles[0].status == "missing"
    (ensemble,) = summary.ensembles
    assert (ensemble.arm, ensemble.num_members, ensemble.status) == ("doc", 5, "completed")
    assert ensemble.cells["test"].mean == pytest.approx(math.exp(3.96))
    assert ensemble.cells["test"].spread is None


def test_a_result_below_the_floor_is_noted(by_hand):
    study = by_hand({"base": BASE})
    study.record_fields = {"floor": {"valid": 3.9, "test": 4.2}}
    assert any("below the best possible on test" in note for note in summary_of(study).notes)


def test_with_repeated_searches_a_pair_is_a_search(by_hand):
    """Seeds that confirm one search's winner share its luck, and are no fresh evidence."""
    luck = [0.0, 0.04, -0.05]
    wobble = (0.0, 0.001, -0.001)
    tuned = [BASE[0] - 0.01 + comparison + more for comparison in luck for more in wobble]
    base = [BASE[0] + more for _ in luck for more in wobble]
    study = by_hand({"base": base, "doc": tuned})
    searches = tuple(
        SearchRecord(arm=arm, repeat=repeat, num_trials=4)
        for repeat in range(3)
        for arm in ("base", "doc")
    )
    study.record_fields = {"searches": searches, "num_seeds": 3}
    doc = summary_of(study).arm("doc")
    assert doc.counts.planned == doc.counts.completed == 9
    assert doc.comparison.difference.num_pairs == 3
    assert doc.comparison.difference.deltas == pytest.approx([-0.01, 0.03, -0.06])


def test_a_searched_arm_is_not_whole_before_its_winner_is_confirmed(by_hand):
    study = by_hand({"base": BASE, "doc": ()})
    searches = (SearchRecord(arm="doc", repeat=0, num_trials=4, trials=("a", "b")),)
    study.record_fields = {"searches": searches}
    summary = summary_of(study)
    assert (summary.arm("doc").counts.planned, summary.arm("doc").counts.missing) == (5, 5)
    assert not summary.whole
    repeated = tuple(dataclasses.replace(searches[0], repeat=repeat) for repeat in range(3))
    study.record_fields = {"searches": repeated}
    counts = {arm.name: arm.counts for arm in summary_of(study).arms}
    assert (counts["doc"].planned, counts["base"].planned) == (15, 5)
    assert any("1 search" in note for note in summary.notes)


def test_a_difference_that_is_the_same_for_every_seed_has_no_verdict(by_hand):
    """Such as that of two models of counts: no test says how it would vary."""
    losses = {"base": [4.0, 4.25, 4.5], "less": [3.5, 3.75, 4.0], "same": [4.0, 4.25, 4.5]}
    study = by_hand({**losses, "apart": [4.0, 5.25, 6.5]})  # by 0, 1 and 2
    compared = {arm.name: arm.comparison for arm in Judged(study.record, study.journals).arms}
    reasons = {name: one.reason for name, one in compared.items() if one}
    assert reasons == {"less": "no spread", "same": "same results", "apart": ""}
    assert compared["less"].delta < 0 and compared["less"].favours_arm is None


def test_no_arm_is_best_by_a_difference_without_a_spread(by_hand):
    losses = {"base": BASE, "less": [nats - 0.5 for nats in BASE]}
    assert not any(arm.best for arm in summary_of(by_hand(losses)).arms)
    varied = {"base": BASE, "less": [nats - 0.5 - 0.01 * i for i, nats in enumerate(BASE)]}
    assert summary_of(by_hand(varied)).arm("less").best


def test_an_arm_that_is_never_tested_is_no_comparison(by_hand):
    """Its seeds together give one result, with an index of its own."""
    study = by_hand({"base": BASE, "doc": LOWER, "noise": NOISY, "all": ()})
    study.plan("all-5", "all", 5)
    study.end("all-5", "completed", metrics={"valid_nll": 4.0, "test_nll": 4.0})
    alone = by_hand({"base": BASE, "doc": LOWER, "noise": NOISY})
    assert summary_of(study).num_comparisons == 3
    study.arm_fields = {"all": {"together": True}}
    summary, without = summary_of(study), summary_of(alone)
    assert summary.num_comparisons == without.num_comparisons == 2
    assert summary.arm("all").comparison is None
    for arm in ("doc", "noise"):
        assert summary.arm(arm).comparison == without.arm(arm).comparison


def test_a_base_arm_of_which_all_seeds_are_lost_will_have_no_result(by_hand):
    study = by_hand({"base": BASE[:2], "doc": LOWER[:2]})
    for index in range(2):
        study.end(f"base-{index}", "diverged")
    assert any("has no result: nothing to compare" in note for note in summary_of(study).notes)
    del study.journals["base-1"]
    assert any("has no result yet" in note for note in summary_of(study).notes)


def test_an_heir_s_settings_cost_the_trials_of_all_before_it(by_hand):
    study = by_hand({"base": BASE, "heir": BASE, "heir's": BASE, "waits": BASE})
    of = {"base": ("", 4), "heir": ("base", 2), "heir's": ("heir", 3), "waits": ("base", 0)}
    study.record_fields["searches"] = tuple(
        SearchRecord(
            arm=arm,
            repeat=0,
            num_trials=num,
            trials=tuple(f"{arm}{i}" for i in range(num)),
            inherits=before or None,
            over=("Rate", "Size") if before else (),
        )
        for arm, (before, num) in of.items()
    )
    notes = [note for note in summary_of(study).notes if "inherited" in note]
    assert notes == [
        "heir inherited the best settings of base and searched only 'Rate', 'Size', in 2 trials of "
        "its own; 6 trials are behind its settings, 4 behind those of base.",
        "heir's inherited the best settings of heir and searched only 'Rate', 'Size', in 3 trials "
        "of its own; 9 trials are behind its settings, 6 behind those of heir.",
    ]


@pytest.mark.parametrize("value", [1e308, -1e308, 1e200])
def test_a_number_too_large_to_compute_with_has_diverged(by_hand, value):
    study = by_hand({"base": BASE, "large": [value] * 5, "doc": LOWER})
    summary = summary_of(study)
    large = summary.arm("large")
    assert (large.counts.completed, large.counts.diverged) == (0, 5) and not large.values
    assert summary.arm("doc").counts.completed == 5


def test_settings_without_effect_are_named_with_their_arms(by_hand):
    study = by_hand({"base": BASE, "doc": LOWER, "noise": NOISY})
    rate, latent = "regularizer.weight_drop.rate", "regularizer.dropout.latent"
    for trial in study.record.trials:
        idle = (rate, latent) if trial.arm == "doc" else (rate,)
        study.journals[trial.id].attempts.append(Attempt(without_effect=idle))
    (note,) = (text for text in summary_of(study).notes if "Without effect" in text)
    assert f"{rate} (every arm); {latent} (doc)." in note


@pytest.mark.parametrize(("fate", "reason"), [("diverged", "diverged"), ("failed", "failed")])
def test_a_model_that_was_lost_before_its_evaluation_was_searched_is_not_to_run(
    by_hand, fate, reason
):
    """The search over it is over without a winner, so what it would have given is never planned."""
    study = by_hand({"base": [4.0, 4.1, 4.2], "judged": [3.9, 4.0]})
    searches = []
    for index in range(3):
        study.plan(f"model-{index}", "judged", index, final=False)
        study.end(f"model-{index}", fate if index == 2 else "completed")
        chosen = None if index == 2 else f"judged-{index}"
        fields = {"seed_index": index, "ended": True, "chosen": chosen}
        searches.append(SearchRecord(arm="judged", repeat=0, num_trials=2, **fields))
    study.record_fields = {"searches": tuple(searches)}
    counts = Judged(study.record, study.journals).arm("judged").counts
    assert (counts.planned, counts.completed, counts.missing) == (3, 2, 0)
    assert getattr(counts, reason) == 1


def test_a_search_of_settings_without_a_winner_leaves_nothing_to_run(by_hand):
    study = by_hand({"base": [4.0, 4.1, 4.2], "tuned": []})
    study.end("tried", "diverged")
    search = SearchRecord(arm="tuned", repeat=0, num_trials=1, trials=("tried",), ended=True)
    study.record_fields = {"searches": (search,)}
    counts = Judged(study.record, study.journals).arm("tuned").counts
    assert (counts.planned, counts.diverged, counts.missing) == (3, 3, 0)
    running = replace(search, ended=False)
    study.record_fields = {"searches": (running,)}
    assert Judged(study.record, study.journals).arm("tuned").counts.missing == 3
