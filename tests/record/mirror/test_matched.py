"""What a change bought, against all pairs held against each other one by one."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re

import numpy as np
import pytest
from scipy import stats

from ablate.compare.across import changes, matched, matched_table
from ablate.config.metrics import Metric
from ablate.errors import ConfigError
from ablate.record.mirror.syncing import update_mirror
from ablate.store import study_record
from ablate.store.study_record import PlannedTrial, SearchRecord

BASE = {"head": "softmax", "backbone": "lstm", "backbone.units": 20, "training.valid_window": 200}


def some_trials(recorded):
    """Heads, units, seeds and corpora at random, some twice as likely as others, some not done."""
    draws = random.Random(3)
    journals = []
    space = itertools.product(("softmax", "mos"), (None, 15), (20, 30), range(1, 7), ("c0", "c1"))
    for number, (head, experts, units, seed, corpus) in enumerate(space):
        if (head == "softmax") == (experts is not None) or draws.random() < 0.2:
            continue
        config = {**BASE, "head": head, "backbone.units": units}
        config |= {"training.valid_window": draws.choice((100, 200))}
        config |= {} if experts is None else {"head.experts": experts}
        options = {"seed": seed, "corpus_digest": corpus, "nats": round(draws.gauss(4, 0.1), 6)}
        status = "pruned" if draws.random() < 0.1 else "completed"
        journals.append(recorded.trial(f"t{number}", config, status=status, **options))
    recorded.study("one", {"a": journals[::2]})
    recorded.study("two", {"b": journals[1::2]})
    return journals


def by_hand(journals, names):
    """The differences of softmax from mos, or of 20 from 30 units: those of each setting."""

    def split(config):
        named = {
            k: v for k, v in config.items() if any(k == n or k.startswith(f"{n}.") for n in names)
        }
        rest = {k: v for k, v in config.items() if k not in named and k != "training.valid_window"}
        return named, rest

    deltas: dict[str, list[float]] = {}  # by setting
    done = [j for j in journals if j.status == "completed"]
    for one, other in itertools.permutations(done, 2):
        (named, rest), (named_other, rest_other) = split(one.config), split(other.config)
        same = one.trial.seed == other.trial.seed
        same &= one.trial.corpus_digest == other.trial.corpus_digest and rest == rest_other
        if same and named != named_other and str(named) > str(named_other):
            losses = [j.outcome.metrics["valid_nll"] for j in (one, other)]
            setting = f"{sorted(rest.items())} {one.trial.corpus_digest}"
            deltas.setdefault(setting, []).append(losses[0] - losses[1])
    return [*deltas.values()]


@pytest.mark.parametrize("name", ["head", "backbone.units"])
def test_pairs_are_those_found_one_by_one(recorded, name):
    journals = some_trials(recorded)
    result = matched.exchange(update_mirror(recorded.workspace), [name])
    expected = by_hand(journals, [name])
    assert sum(map(len, expected)) > 5
    (change,) = result.changes
    assert change.difference is not None
    means = [sum(deltas) / len(deltas) for deltas in expected]
    deltas = change.difference.deltas
    assert sorted(map(abs, deltas)) == pytest.approx(sorted(map(abs, means)))
    assert change.num_pairs == sum(map(len, expected)) and change.num_settings == len(means) == 4
    assert abs(change.difference.mean) == pytest.approx(abs(sum(means)) / len(means))
    interval = stats.ttest_1samp(deltas, 0).confidence_interval(0.95)
    assert change.difference.interval == pytest.approx((interval.low, interval.high))
    assert change.studies == ["one", "two"]


def test_what_differs_in_two_things_is_no_pair_for_one(recorded):
    one = recorded.trial("t1", BASE)
    other = recorded.trial("t2", {**BASE, "head": "mos", "backbone.units": 30}, nats=3.5)
    recorded.study("one", {"a": [one], "b": [other]})
    mirror = update_mirror(recorded.workspace)
    assert matched.exchange(mirror, ["head"]).changes == ()
    assert "No two of 2" in matched_table.plain_text(matched.exchange(mirror, ["head"]))
    (change,) = matched.exchange(mirror, ["head", "backbone"]).changes
    assert change.difference is not None
    assert abs(change.difference.mean) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "differs",
    [
        {"seed": 2},
        {"corpus_digest": "c9"},
        {"reads_test": False},
        {"runner": "evaluation"},
    ],
)
def test_another_seed_corpus_or_runner_is_no_pair(recorded, differs):
    other = recorded.trial("t2", {**BASE, "head": "mos"}, **differs)
    recorded.study("one", {"a": [recorded.trial("t1", BASE)], "b": [other]})
    assert matched.exchange(update_mirror(recorded.workspace), ["head"]).changes == ()


def test_fine_tuned_trials_are_pairs_if_those_before_are(recorded):
    heads = {head: {**BASE, "head": head} for head in ("softmax", "mos")}
    first = {h: recorded.trial(f"{h}-1", c) for h, c in heads.items()}
    tuned = {
        h: recorded.trial(f"{h}-2", {**c, "training.epochs": 3}, parents=[f"{h}-1"])
        for h, c in heads.items()
    }
    wide = recorded.trial("wide-1", {**heads["mos"], "backbone.units": 99})
    stray = recorded.trial("stray", {**heads["mos"], "training.epochs": 3}, parents=["wide-1"])
    arms = {"a": [first["softmax"], tuned["softmax"]], "b": [first["mos"], tuned["mos"]]}
    recorded.study("one", {**arms, "c": [wide, stray]})
    result = matched.exchange(update_mirror(recorded.workspace), ["head"])
    assert sum(change.num_pairs for change in result.changes) == 2


def test_a_model_counts_once_however_often_it_is_measured_or_trained_on(recorded):
    trials = []
    for seed, head in itertools.product((1, 2, 3), ("softmax", "mos")):
        config, name = {**BASE, "head": head}, f"{head}-{seed}"
        tuned = {**config, "training.epochs": 3}
        trials += [
            recorded.trial(name, config, seed=seed),
            recorded.trial(f"{name}-tuned", tuned, seed=seed, parents=[name]),
            recorded.trial(
                f"{name}-m", config, seed=seed, parents=[f"{name}-tuned"], stage="measure"
            ),
        ]
    recorded.study("one", {"a": trials})
    result = matched.exchange(update_mirror(recorded.workspace), ["head"])
    assert result.num_trials == 12
    assert sum(change.num_pairs for change in result.changes) == 6
    assert sum(change.num_settings for change in result.changes) == 2


BY_KERNELS, BY_TORCH = ["kernels: g++ 12.2"], ["torch: ABLATE_NATIVE=off"]


@pytest.mark.parametrize(
    ("befores", "odd"),
    [
        ((BY_TORCH, BY_KERNELS, [*BY_TORCH, *BY_KERNELS]), ("1", "3")),
        ((BY_KERNELS, BY_KERNELS, BY_KERNELS), ()),
        ((["kernels: clang 19"], [], ["unknown"]), ()),  # neither, and not recorded
    ],
)
def test_pairs_of_kernels_and_torch_are_named(recorded, befores, odd):
    heads = {head: {**BASE, "head": head} for head in ("softmax", "mos")}
    ways = {"softmax": befores, "mos": (BY_KERNELS,) * 3}
    arms = {
        head: [
            recorded.trial(f"{head}-{seed}", config, seed=seed, computed_by=way, nats=4 + seed / 9)
            for seed, way in enumerate(ways[head], 1)
        ]
        for head, config in heads.items()
    }
    recorded.study("one", arms)
    result = matched.exchange(update_mirror(recorded.workspace), ["head"])
    (change,) = result.changes
    assert change.not_alike == [*odd]
    assert matched_table.table(result).rows[0][-2] == ", ".join(odd)
    printed = " ".join(matched_table.plain_text(result).split())
    assert ("seeds 1, 3). Kernels and torch round differently" in printed) == bool(odd)


def test_an_unknown_slot_names_the_nearest(recorded):
    recorded.study("one", {"a": [recorded.trial("t1", BASE)]})
    with pytest.raises(ConfigError, match=r"Did you mean 'backbone\.units'"):
        matched.exchange(update_mirror(recorded.workspace), ["backbone.unit"])


def balanced(weight: float, mode: str) -> dict:
    of = "regularizer.mixture_balance"
    return {**BASE, "head": "doc", f"{of}.weight": weight, f"{of}.mode": mode}


def test_a_technique_that_is_off_is_a_pair_for_its_only_strength(recorded):
    """Switched off, it leaves no trace: neither of its weight nor of the weight's formula."""
    off = [recorded.trial(f"off{s}", {**BASE, "head": "doc"}, seed=s, nats=4.0) for s in (1, 2)]
    on = [recorded.trial(f"on{s}", balanced(0.1, "code"), seed=s, nats=3.5) for s in (1, 2)]
    paper = [recorded.trial("paper", balanced(0.1, "paper"), seed=1, nats=3.0)]
    strong = [recorded.trial("strong", balanced(0.2, "paper"), seed=1, nats=2.0)]
    recorded.study("one", {"off": off, "on": on, "paper": paper, "strong": strong})
    result = matched.exchange(
        update_mirror(recorded.workspace), ["regularizer.mixture_balance.weight"]
    )
    deltas: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for c in result.changes:
        if c.difference:
            sides = matched_table.describe_change(c.before, c.after)
            deltas.setdefault(sides, []).append(c.difference.deltas)
    name = "regularizer.mixture_balance.weight"
    assert deltas == {
        # By either formula, which is another setting.
        ("not set", f"{name}=0.1"): [pytest.approx((-0.5, -0.5)), pytest.approx((-1.0,))],
        ("not set", f"{name}=0.2"): [pytest.approx((-2.0,))],
        (f"{name}=0.1", f"{name}=0.2"): [pytest.approx((-1.0,))],  # of the paper's formula
    }


def test_a_technique_with_another_strength_is_no_pair_with_none_at_all(recorded):
    of = "regularizer.variational_dropout"
    rates = {f"{of}.input": 0.4, f"{of}.hidden": 0.2, f"{of}.gate_masks": "shared"}
    alone = {**rates, f"{of}.hidden": 0.0}
    recorded.study(
        "one",
        {
            "off": [recorded.trial("t1", BASE)],
            "both": [recorded.trial("t2", {**BASE, **rates})],
            "input": [recorded.trial("t3", {**BASE, **alone})],
        },
    )
    result = matched.exchange(update_mirror(recorded.workspace), [f"{of}.input"])
    assert [c.num_pairs for c in result.changes] == [1]  # t1 and t3
    result = matched.exchange(update_mirror(recorded.workspace), [f"{of}.input", f"{of}.hidden"])
    assert len(result.changes) == 3


def test_pairs_with_a_diverged_trial_are_counted_and_named(recorded):
    heads = {head: {**BASE, "head": head} for head in ("softmax", "mos")}
    plain = [recorded.trial(f"p{seed}", heads["softmax"], seed=seed) for seed in (1, 2, 3)]
    mixed = [recorded.trial(f"m{seed}", heads["mos"], seed=seed, nats=3.5) for seed in (1, 2)]
    lost = recorded.trial("m3", heads["mos"], seed=3, status="diverged")
    recorded.study("one", {"plain": plain, "mixed": [*mixed, lost]})
    result = matched.exchange(update_mirror(recorded.workspace), ["head"])
    (change,) = result.changes
    assert change.num_pairs == 2
    assert change.lost == ["m3"]
    (row,) = matched_table.table(result).rows
    assert dict(zip(matched_table.table(result).headings, row, strict=True))["lost"] == "m3"
    text = " ".join(matched_table.plain_text(result).split())
    assert "as a trial was lost: 1 pair of m3." in text


@pytest.mark.parametrize(
    ("ended", "why", "said"),
    [
        ("diverged", "training loss became nan", "undecided"),
        ("failed", "ValueError: Input contains NaN.", "undecided"),
        ("failed", "study.py:3: the command ended with status 1", "undecided"),
        ("failed", "out of memory: a smaller batch_size needs less.", "better"),
        ("failed", "study.py:3: the command was killed by SIGKILL", "better"),
    ],
)
@pytest.mark.parametrize("lost", ["mos", "softmax"])
def test_no_verdict_favours_a_side_that_lost_trials(recorded, lost, ended, why, said):
    arms = {}
    for head, nats in (("softmax", 4.0), ("mos", 3.5)):
        values = {**BASE, "head": head}
        arms[head] = [
            recorded.trial(f"{head}{seed}", values, seed=seed, nats=nats + 0.001 * seed**2 * nats)
            for seed in range(1, 6)
        ]
        if head == lost:
            arms[head][-1] = recorded.trial(f"{head}5", values, seed=5, status=ended, reason=why)
    recorded.study("one", arms)
    result = matched.exchange(update_mirror(recorded.workspace), ["head"])
    (row,) = matched_table.table(result).rows
    cells = dict(zip(matched_table.table(result).headings, row, strict=True))
    favours = "better" if cells["after"] == "head=mos" else "worse"
    expected = favours if lost == "softmax" or said == "better" else "undecided"
    assert cells["verdict"] == expected
    assert cells["lost_pairs"] == (said == "undecided")


def test_a_study_that_has_trials_to_run_decides_nothing(recorded):
    """As its table: whoever reads now may stop now."""
    befores, afters = (
        [
            recorded.trial(f"{name}{seed}", config, seed=seed, nats=nats * (1 + 0.001 * seed))
            for seed in range(6)
        ]
        for name, config, nats in (("a", BASE, 4.0), ("b", {**BASE, "head": "mos"}, 3.0))
    )
    running = recorded.trial("b6", {**BASE, "head": "mos"}, seed=6, status=None)
    recorded.study("one", {"a": befores, "b": [*afters, running]})
    (change,) = matched.exchange(update_mirror(recorded.workspace), ["head"]).changes
    assert change.comparison.reason == "1 to run" and not change.comparison.verdict.decided
    recorded.study("one", {"a": befores, "b": afters})
    (change,) = matched.exchange(update_mirror(recorded.workspace), ["head"]).changes
    assert change.comparison.verdict.decided


RATES = {"valid_accuracy": 0.5, "test_accuracy": 0.5}
JUDGED = {"judged_by": Metric("accuracy", better="higher"), "corpus": "", "corpus_digest": ""}


def digits(recorded, name: str, seed: int, values: dict, beside: dict | None = None, **more):
    """A trial of a function, with what its config records besides its values."""
    journal = recorded.function(name, values, RATES, seed=seed, **more)
    journal.config.update(beside or {})
    return journal


def test_two_versions_of_a_task_are_no_pair_unless_the_version_is_named(recorded):
    arms = {
        f"{shift} {version}": [
            digits(recorded, f"{shift}{version}", 1, {"shift": shift}, beside)
            for beside in [{"task version": 2} if version == 2 else {}]
        ]
        for shift in (False, True)
        for version in (1, 2)
    }
    recorded.study("one", arms, **JUDGED)
    mirror = update_mirror(recorded.workspace)
    rows = matched.exchange(mirror, ["digits.shift"]).changes
    assert [row.num_pairs for row in rows] == [1, 1], "one of each version, and none of both"
    for name in ("task", "task version"):
        rows = matched.exchange(mirror, [name]).changes
        sides = {matched_table.describe_change(row.before, row.after) for row in rows}
        assert {*itertools.chain(*sides)} == {"not set", "task version=2"}
        assert [row.num_pairs for row in rows] == [1, 1]


def test_what_a_task_says_is_neutral_makes_no_difference(recorded):
    arms = {
        "plain": [digits(recorded, "a", 1, {"shift": False, "workers": 1})],
        "shifted": [
            digits(recorded, "b", 1, {"shift": True, "workers": 4}, neutral=["digits.workers"])
        ],
    }
    recorded.study("one", arms, **JUDGED)
    result = matched.exchange(update_mirror(recorded.workspace), ["digits.shift"])
    assert [change.num_pairs for change in result.changes] == [1]


def test_of_a_file_its_contents_count_and_its_path_does_not(recorded):
    def trial(name: str, path: str, contents: str, shift: bool):
        values = {"words": path, "shift": shift}
        return digits(recorded, name, 1, values, {"digits.words contents": contents})

    arms = {
        "a": [trial("a", "/here/w.txt", "1a", False)],
        "b": [trial("b", "/there/w.txt", "1a", True)],
        "c": [trial("c", "/here/w.txt", "2b", True)],
    }
    recorded.study("one", arms, **JUDGED)
    mirror = update_mirror(recorded.workspace)
    (change,) = matched.exchange(mirror, ["digits.shift"]).changes
    assert change.num_pairs == 1
    (change,) = matched.exchange(mirror, ["digits.words"]).changes
    assert {"digits.words contents=1a", "digits.words contents=2b"} <= {
        part
        for side in matched_table.describe_change(change.before, change.after)
        for part in side.split(", ")
    }


def test_pairs_across_an_edit_of_the_file_are_named(recorded):
    def trial(name: str, text: str, shift: bool, seed: int):
        return digits(recorded, name, seed, {"shift": shift}, sources={"digits.py": text})

    arms = {
        "a": [trial("a1", "1a", False, 1), trial("a2", "1a", False, 2)],
        "b": [trial("b1", "1a", True, 1), trial("b2", "2b", True, 2)],
    }
    recorded.study("one", arms, **JUDGED)
    result = matched.exchange(update_mirror(recorded.workspace), ["digits.shift"])
    assert [change.edited for change in result.changes] == [["digits.py"]]
    printed = " ".join(matched_table.plain_text(result).split())
    assert (
        "Pairs before and after an edit (" in printed and "true: digits.py). If the edit" in printed
    )
    assert "raise the version in its @register or @task" in printed
    assert matched_table.table(result).rows[0][-1] == "digits.py"


def test_the_rows_of_a_terminal(recorded, monkeypatch):
    """On c0, two settings of three seeds each, lower by 0.5 +- 0.01; on c1, one pair."""
    arms: dict[str, list] = {"softmax": [], "mos": []}
    for corpus, units, seed in [*itertools.product(["c0"], [20, 30], [1, 2, 3]), ("c1", 20, 1)]:
        for head, trials in arms.items():
            config = {**BASE, "head": head, "backbone.units": units, "corpus.name": corpus}
            gain = (0.49 + seed / 200) * (head == "softmax")
            name = f"{head}-{corpus}-{units}-{seed}"
            options = {"seed": seed, "corpus_digest": corpus, "nats": 4.5 - gain}
            trials.append(recorded.trial(name, config, **options))
    recorded.study("one", arms)
    result = matched.exchange(update_mirror(recorded.workspace), ["head"])
    lines = [" ".join(line.split()) for line in matched_table.plain_text(result).splitlines()]
    half = stats.t.ppf(1 - 0.05 / 3 / 2, 2) * stats.sem([0.495, 0.5, 0.505])
    low, high = (f"−{-100 * np.expm1(-0.5 + side * half):.1f}" for side in (-1, 1))
    row, other = (
        f"mos → softmax c0 −39.3% [{low}, {high}] 3 1 of mos-c0-{units}-1 better"
        for units in (20, 30)
    )
    assert row in lines and other in lines
    assert "mos → softmax c1 −39.0% 1 1 undecided (1 pair)" in lines
    first, *others = re.findall("^change .*", matched_table.plain_text(result, 60), re.MULTILINE)
    assert others and all("setting" in part for part in (first, *others)), "rows differ in this"
    assert "Δ" in first and any("verdict" in part for part in others)
    text = " ".join(lines)
    assert "14 completed trials; pairs differ only in head." in text
    assert "corrected over 3 rows. Two settings are two rows:" in text
    monkeypatch.setattr(matched_table, "SHOWN", 1)
    text = " ".join(matched_table.plain_text(result).split())
    assert row in text and " c1 " not in text
    assert "2 more rows: --format csv has them all." in text
    monkeypatch.setattr(matched_table, "SHOWN", 3)
    assert "more row" not in matched_table.plain_text(result)


def of_every_kind(recorded) -> None:
    """Two heads: two pairs of final trials, and one each of a search, a smoke scale, a stage."""
    heads = {head: {**BASE, "head": head} for head in ("softmax", "mos")}

    def trials(kind: str, **more):
        return {
            h: recorded.trial(f"{h}-{kind}", {**c, "x": kind}, **more) for h, c in heads.items()
        }

    first, tuned, alone = trials("1"), trials("2", parents=()), trials("3", seed=2)
    smoke, searched = trials("4"), trials("5", stage="search")
    recorded.study("quick", {h: [t] for h, t in smoke.items()}, scale="brief", smoke=True)
    planned = [
        PlannedTrial(
            id=journal.trial.id, arm=head, stage="train", seed=1, seed_index=0, final=is_final
        )
        for trials, is_final in ((first, False), (tuned, True), (alone, True))
        for head, journal in trials.items()
    ]
    searches = tuple(
        SearchRecord(arm=head, repeat=0, num_trials=1, trials=(journal.trial.id,))
        for head, journal in searched.items()
    )
    everything = {h: [first[h], tuned[h], alone[h], searched[h]] for h in heads}
    record = recorded.study("real", everything)
    record = dataclasses.replace(record, trials=tuple(planned), searches=searches)
    study_record.write(recorded.workspace.store, record)
    recorded.save(record)


def test_pairs_are_of_final_trials_alone_and_others_are_counted(recorded):
    of_every_kind(recorded)
    result = matched.exchange(update_mirror(recorded.workspace), ["head"])
    rows = [(row.num_pairs, row.num_settings, row.studies) for row in result.changes]
    assert rows == [(1, 1, ["real"])] * 2
    assert result.left_out == {"of smoke scales": 2, "of searches": 2, "of earlier stages": 2}
    text = " ".join(matched_table.plain_text(result).split())
    assert "4 completed trials; pairs differ only in head." in text
    assert (
        "Trials left out: 2 of earlier stages, 2 of searches, 2 of smoke scales. "
        "Pairs are of trials that count for a study's result." in text
    )
    searched = matched.exchange(update_mirror(recorded.workspace), ["head"], searches=True)
    assert sum(row.num_pairs for row in searched.changes) == 3
    assert "of searches" not in searched.left_out


def test_a_field_of_many_values_is_compared_for_the_most_common_ones(recorded, monkeypatch):
    monkeypatch.setattr(changes, "MOST_VALUES", 3)
    monkeypatch.setattr(matched_table, "MOST_VALUES", 3)
    trials = [
        recorded.trial(f"u{units}-{seed}", {**BASE, "backbone.units": units}, seed=seed)
        for units in range(10, 20)
        for seed in (1, 2, 3)
        if seed == 1 or units in (12, 15, 17)
    ]
    recorded.study("one", {"a": trials})
    result = matched.exchange(update_mirror(recorded.workspace), ["backbone.units"])
    assert [change.num_pairs for change in result.changes] == [3, 3, 3] and result.num_values == 10
    assert {value for c in result.changes for value in (c.before, c.after)} == {
        ((("backbone.units", units),),) for units in ("12", "15", "17")
    }
    text = " ".join(matched_table.plain_text(result).split())
    assert "10 values: only the 3 with the most trials are compared." in text
