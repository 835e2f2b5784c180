"""What is repeated: seeds or whole searches, and what a table may say of few of them."""

from __future__ import annotations

import csv
import io
import math

import pytest

from ablate.compare.judged import Judged
from ablate.compare.statistics.power import chances
from ablate.store.study_record import SearchRecord
from ablate.study.designs import factorial
from tests.support.tables import written

LUCK = (0.0, 0.011, -0.007, 0.004)  # of an arm's searches
WOBBLE = (0.0, 0.002, -0.001)  # of the seeds that confirm one
FEW = [1, 2]


def losses(num: int, effect: float, own: float = 0.3) -> list[float]:
    """Nats of `num` searches, each confirmed on three seeds."""
    return [4.0 + effect + own * luck + seed for luck in LUCK[:num] for seed in WOBBLE]


def searches_of(num: int, arms) -> tuple[SearchRecord, ...]:
    return tuple(
        SearchRecord(arm=arm, repeat=repeat, num_trials=4) for repeat in range(num) for arm in arms
    )


def tuned(by_hand, num: int, effect: float = -0.3, **fields):
    """Two arms, each tuned by `num` searches."""
    study = by_hand({"base": losses(num, 0.0), "better": losses(num, effect, own=-0.3)})
    searches = searches_of(num, study.losses)
    study.record_fields = {"searches": searches, "num_seeds": len(WOBBLE), **fields}
    return study


def tuned_factorial(by_hand, num: int):
    two = {"off": {}, "on": {}}
    design = factorial({"gate": two, "drop": two})
    sizes = {arm.name: -0.2 * i * i for i, arm in enumerate(design.arms)}
    nats = {name: losses(num, at, own=0.1 * i * i) for i, (name, at) in enumerate(sizes.items())}
    study = by_hand(nats, base_arm=design.arms[0].name)
    study.arm_fields = {arm.name: {"levels": dict(arm.levels)} for arm in design.arms}
    fields = {"design": design.kind, "searches": searches_of(num, nats), "num_seeds": len(WOBBLE)}
    study.record_fields = fields
    return study


def summary_of(study) -> Judged:
    return Judged(study.record, study.journals)


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("num", "header"),
    [
        (1, "1 search an arm, confirmed on 3 paired seeds"),
        (2, "2 searches an arm, each confirmed on 3 paired seeds"),
        (
            3,
            "3 searches an arm, each confirmed on 3 paired seeds (a pair is a search; "
            "over searches, for this test text)",
        ),
    ],
)
def test_the_header_names_searches_and_seeds(by_hand, num, header):
    assert header in in_one_line(written(summary_of(tuned(by_hand, num))))


def test_searches_are_counted_as_such_in_what_would_decide(by_hand):
    """The number of further searches that a test of searches needs, not three times that."""
    summary = summary_of(tuned(by_hand, 3, effect=-0.007))
    comparison = summary.arm("better").comparison
    assert comparison is not None and comparison.difference.num_pairs == 3
    chance = chances(comparison.difference.deltas, 0.05)
    assert chance[comparison.pairs_needed - 1] >= 0.8 > chance[comparison.pairs_needed - 2]
    text = in_one_line(written(summary))
    assert f"undecided +{comparison.pairs_needed}" in text
    assert "+n: more searches that decide it with a probability of 80%" in text
    assert "paired t-test over searches on nats of test" in text


def test_three_searches_may_be_decided(by_hand):
    summary = summary_of(tuned(by_hand, 3))
    better = summary.arm("better")
    assert better.comparison is not None and better.comparison.verdict == "better" and better.best
    assert "*" in written(summary) and "settings found" not in written(summary)


@pytest.mark.parametrize("num", FEW)
def test_fewer_give_no_verdict_and_mark_nothing(by_hand, num):
    """Though every seed says that one arm is better by a quarter."""
    summary = summary_of(tuned(by_hand, num))
    comparison = summary.arm("better").comparison
    assert comparison is not None
    counted = {1: "1 search", 2: "2 searches"}[num]
    assert (comparison.verdict, comparison.reason, comparison.pairs_needed) == (
        "no verdict",
        counted,
        None,
    )
    assert comparison.p_holm is comparison.difference.p is comparison.difference.p_sign_flip is None
    assert comparison.difference.num_pairs == num * len(WOBBLE)
    assert not any(arm.best for arm in summary.arms)
    note = next(note for note in summary.notes if note.startswith("No verdict"))
    assert counted in note and "repeats=3" in note and "of the settings found" in note


def test_csv_has_searches_and_seeds_apart(by_hand):
    for num, unit, of in ((1, "seed", "settings found"), (3, "search", "arms")):
        text = written(summary_of(tuned(by_hand, num)), "csv")
        row = list(csv.DictReader(io.StringIO(text)))[-1]
        assert (row["searches"], row["seeds"]) == (str(num), str(num * len(WOBBLE)))
        assert (row["paired_by"], row["interval_of"], row["pairs"]) == (unit, of, "3")
        assert (row["p"] == "", row["best"]) == ((True, "False") if num == 1 else (False, "True"))


def test_effects_are_paired_by_search_or_have_no_verdict(by_hand):
    few, enough = (summary_of(tuned_factorial(by_hand, num)) for num in (2, 3))
    assert few.effects is not None and enough.effects is not None
    assert {e.verdict for e in few.effects.effects} == {"no verdict"}
    assert {e.p_holm for e in few.effects.effects} == {None}
    assert few.effects.simple == few.effects.readings == ()
    assert "no verdict (2 searches)" in written(few)
    assert {e.difference.num_pairs for e in enough.effects.effects} == {3}
    assert {e.verdict for e in enough.effects.effects} == {"better"}
    assert "over 3 searches" in in_one_line(written(enough))


def beside_the_paper(by_hand, num: int) -> str:
    there = math.exp(4.0)
    study = by_hand({"base": losses(num, 0.0)})
    study.arm_fields = {"base": {"published": {"test": there}}}
    study.record_fields = {
        "searches": searches_of(num, ["base"]),
        "num_seeds": len(WOBBLE),
        "paper": "",
        "published_scale": True,
    }
    return summary_of(study).verdicts["base", "nll", "test"]


def test_a_search_is_the_unit_of_comparisons_with_published_numbers(by_hand):
    assert beside_the_paper(by_hand, 1) == "not comparable: tuned by 1 search"
    assert beside_the_paper(by_hand, 2) == "not comparable: tuned by 2 searches"
    assert beside_the_paper(by_hand, 3) in ("reproduced", "within seed noise")
