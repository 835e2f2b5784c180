"""A table that does not contradict itself: its interval excludes 0 where its word decides."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ablate.compare.formats import text
from ablate.compare.judged import Judged
from ablate.compare.table.columns import percent
from ablate.compare.table.study_table import study_table
from ablate.store.study_record import InterimLook
from tests.support.studies_by_hand import ByHand

DECIDED = ("better", "worse")
LOOKS = {  # planned looks, and those that were made
    "one": ((), ()),
    "planned": ((4, 8), (4, 8)),
    "unplanned": ((8,), (4, 6, 8)),
}


def study_of(draws: random.Random, looks: str, text: float) -> Judged:
    """Up to six arms of any effect and spread; some lose seeds, some are not finished. `text`: how
    far losses on blocks of the text are from their mean."""
    seeds = [draws.gauss(4.1, 0.02) for _ in range(8)]
    losses = {"base": seeds}
    for number in range(draws.randint(1, 6)):
        effect, spread = draws.choice((0, 0.01, 0.03)), draws.choice((0.0, 0.004, 0.02))
        losses[f"arm {number}"] = [s - effect + draws.gauss(0, spread) for s in seeds]
    margin = draws.choice((None, 0.01))
    planned, made = LOOKS[looks]
    fields = {
        "margin": margin,
        "looks": planned,
        "made": tuple(InterimLook(num=num) for num in made),
    }
    deviations = {
        name: [[draws.gauss(0, text) for _ in range(20)] for _ in seeds] for name in losses if text
    }
    study = ByHand(losses, record_fields=fields, deviations=deviations)
    for name in losses:
        if draws.random() < 0.15:
            study.end(f"{name}-{draws.randrange(8)}", draws.choice(("diverged", "failed")))
        if draws.random() < 0.1:
            del study.journals[f"{name}-7"]
    return Judged(study.record, study.journals)


@pytest.mark.parametrize("text_noise", [0.0, 0.01])
@pytest.mark.parametrize("looks", LOOKS)
def test_the_interval_excludes_0_exactly_where_the_word_decides(looks, text_noise):
    draws, seen = random.Random(52), Counter()
    for _ in range(60):
        judged = study_of(draws, looks, text_noise)
        assert (judged.blocks is not None) == (text_noise > 0)
        tested = [arm.comparison for arm in judged.arms if arm.comparison]
        for one in tested:
            if one.reason.endswith("to run"):
                continue  # it holds at any time, and the word is still to come
            decides = one.verdict in DECIDED
            if not one.contains_0:
                assert decides, (one.verdict, one.interval)
            elif decides:  # the gain of Holm's later steps
                assert one.p_holm > one.difference.p
                assert one.difference.p > judged.alpha / judged.num_comparisons
            seen[str(one.verdict), one.contains_0] += 1
    assert {("better", False), ("undecided", True)} <= {*seen}
    assert looks == "unplanned" or seen["same", True]
    assert ("undecided", False) not in seen and ("same", False) not in seen


def test_the_row_says_which_level_its_interval_has():
    losses = {"base": [4.1, 4.12, 4.09, 4.11], "a": [4.0, 4.03, 3.98, 4.0]}
    more = {f"b{n}": [4.1 + n / 100, 4.13, 4.08, 4.1] for n in range(2)}
    one, three = (ByHand(each) for each in (losses, {**losses, **more}))
    alone, among = (Judged(study.record, study.journals) for study in (one, three))
    assert "[95%]" in text.write(study_table(alone))
    assert "[98.3%]" in text.write(study_table(among))
    narrow, wide = (judged.arm("a").comparison.interval for judged in (alone, among))
    assert wide[0] < narrow[0] and narrow[1] < wide[1]


def test_a_row_that_holm_decides_after_others_is_named():
    """Its interval contains 0 beside a verdict, and the table says why."""
    base = [4.1, 4.12, 4.09, 4.11, 4.13]
    clear = [nats - 0.1 - n / 1000 for n, nats in enumerate(base)]
    close = [nats - d for nats, d in zip(base, (0.055, 0.012, 0.05, 0.004, 0.04), strict=True)]
    study = ByHand({"base": base, "clear": clear, "close": close})
    judged = Judged(study.record, study.journals)
    comparison = judged.arm("close").comparison
    assert 0.025 < comparison.difference.p < 0.05
    assert comparison.verdict == "better" and comparison.contains_0
    shown = " ".join(text.write(study_table(judged)).split())
    assert "the interval of close contains 0, as other rows were decided first" in shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.95, "95%"), (1 - 0.05 / 3, "98.3%"), (0.9995, "99.95%"), (1 - 0.05 / 6, "99.2%")],
)
def test_a_level_has_the_digits_that_it_takes(share, shown):
    assert percent(share) == shown
