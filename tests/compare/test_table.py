"""The table as text and as markdown. The whole of one is kept in tests/golden/table.txt."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import replace

import pytest

from ablate.compare.judged import Judged
from ablate.compare.table.full_table import every_test
from ablate.store.study_record import ArmRecord
from tests.support.golden import golden
from tests.support.tables import written

SEEDS = (0.0, 0.012, -0.009, 0.004, -0.006)
ARMS = {
    "base": 0.0,
    "(20,0,0,0)": -0.002,
    "(15,0,0,5)": -0.013,
    "(15,5,0,0)": -0.055,
    "(15,5,0,0) β=0.001": 0.021,
}


def study_of(by_hand, **fields):
    """Paired noise that looks like noise and is the same on every machine."""
    draws = random.Random(4)
    losses = {
        name: [round(4.1 + effect + seed + draws.uniform(-0.006, 0.006), 4) for seed in SEEDS]
        for name, effect in ARMS.items()
    }
    study = by_hand(losses)
    study.record_fields = {"floor": {"valid": 3.93, "test": 3.88}, **fields}
    return study


def with_holes(by_hand):
    study = study_of(by_hand)
    study.end("(20,0,0,0)-1", "diverged")
    study.end("(15,0,0,5)-3", "failed", reason="out of memory")
    del study.journals["(15,5,0,0) β=0.001-4"]
    members = tuple(f"(15,5,0,0)-{i}" for i in range(5))
    study.plan("together", "(15,5,0,0)", 0, stage="ensemble", parents=members)
    study.end("together", "completed", metrics={"valid_nll": 4.04, "test_nll": 4.0})
    return study


def shown(study, **options) -> str:
    return written(Judged(study.record, study.journals), **options)


def golden_text(by_hand) -> str:
    whole, holed = study_of(by_hand), with_holes(by_hand)
    texts = (
        shown(whole, short=True),
        shown(whole, short=True, width=130),
        shown(holed, short=True),
        shown(holed, short=True, width=72, unicode=False),
        shown(holed, short=True, form="markdown"),
        shown(holed),
    )
    return ("\n\n" + "=" * 100 + "\n\n").join(texts) + "\n"


@pytest.mark.golden
def test_the_table_is_the_golden_one(by_hand):
    text = golden_text(by_hand)
    assert text == golden("table.txt", text)


@pytest.mark.parametrize("width", [64, 100])
@pytest.mark.parametrize("unicode", [True, False])
def test_it_fits_the_width(by_hand, width, unicode):
    study = with_holes(by_hand)
    for short in (True, False):
        text = shown(study, width=width, unicode=unicode, short=short)
        assert max(len(line) for line in text.splitlines()) <= width
        assert unicode or text.isascii()


def test_the_drawing_gives_way_first_and_then_the_parameters(by_hand):
    study = study_of(by_hand)
    wide, narrow = (shown(study, width=width, short=True) for width in (100, 76))
    assert "━" in wide and "params" in wide
    assert "━" not in narrow and "params" in narrow
    narrowest = shown(study, width=64, short=True)
    assert "params " not in narrowest and "verdict" in narrowest and "test" in narrowest


def test_ten_arms_take_25_lines(by_hand):
    """With lost seeds, arms that still improve, a paper, and a note of the study's own."""
    losses = {"base": [4.1 + seed for seed in SEEDS]}
    draws = random.Random(5)
    for number in range(9):
        change = draws.choice((0.0, 0.02, -0.05))
        losses[f"arm {number}"] = [
            round(4.1 + change + seed + draws.uniform(-0.01, 0.01), 4) for seed in SEEDS
        ]
    study = by_hand(losses)
    arms = tuple(
        ArmRecord(name=name, published={"test": 60.0 + n}) for n, name in enumerate(losses)
    )
    notes = (
        "Settings were chosen by the base arm alone, on seed 1, before any other was trained.",
    )
    study.record_fields = {"arms": arms, "notes": notes, "changed": "seeds=5"}
    study.end("arm 3-1", "diverged")
    text = shown(study, width=100, short=True)
    assert "Lost: arm 3 1 of 5 (1 diverged)." in text and "The paper" in text
    assert len(text.splitlines()) <= 25, text


def test_tokens_are_those_of_one_seed(by_hand):
    """An arm of all seeds together is built on all of them."""
    study = by_hand({"base": [4.0] * 3, "together": [3.9] * 3})
    summary = Judged(study.record, study.journals)
    base, other = summary.arms
    vars(summary)["arms"] = (replace(base, tokens=5), replace(other, tokens=15, together=True))
    assert "trained on 5 tokens a seed" in written(summary)


def test_a_table_of_nothing(by_hand):
    text = shown(by_hand({"base": (None,) * 3, "doc": (None,) * 3}))
    assert "base: 0 of 3 (3 to run)" in text
    assert "nothing to compare with" in text
    assert shown(by_hand({}))


def test_names_cannot_break_the_table(by_hand):
    study = by_hand({"base": (4.1,), "a|b *c*\x1b[31m\nd": (4.2,), "長い名前": (4.2,)})
    text = shown(study, width=60)
    assert "\x1b" not in text
    rows = shown(study, form="markdown").splitlines()
    columns = {row.replace("\\|", "").count("|") for row in rows if row.startswith("|")}
    assert len(columns) == 1


def with_another(by_hand, **fields):
    """`c` is compared with `b`."""
    losses = {"base": (4.3, 4.31, 4.32), "b": (4.1, 4.13, 4.12), "c": (4.0, 4.01, 4.04)}
    study = by_hand(losses, record_fields=fields)
    study.arm_fields = {"b": {"against": "base"}, "c": {"against": "b"}}
    return study


def test_an_arm_that_is_compared_with_another_than_the_base_arm_says_so(by_hand):
    study = with_another(by_hand)
    text = shown(study)
    assert "Δ base" not in text and "Δ, test" in text
    assert "Compared with another arm than the base arm: 'c' with 'b'." in text
    rows = csv.DictReader(io.StringIO(shown(study, form="csv")))
    against = {row["arm"]: row["against"] for row in rows if row["split"] == "test"}
    assert against == {"base": "", "b": "base", "c": "b"}
    table = every_test(Judged(study.record, study.journals))
    assert table and [row[0] for row in table.rows] == ["b", "c, less b"]
    path = shown(with_another(by_hand, design="path"))
    assert "Δ row above, test" in path and "another arm" not in path


def test_a_withheld_verdict_names_the_arm_that_it_is_compared_with(by_hand):
    study = with_another(by_hand)
    study.end("b-0", "diverged")
    text = " ".join(shown(study).split())
    assert "No verdict on c: the seeds b lost to divergence, early stopping or errors may" in text
    study.losses = {**study.losses, "d": ()}
    study.arm_fields["d"] = {"against": "b"}
    for index in range(3):
        study.plan(f"b-{index}", "d", index)
    assert "No verdict on d: its settings are those of b, and so are its trials." in " ".join(
        shown(study).split()
    )
    del study.journals["base-1"]
    assert "some of its trials or the base arm's are still to run" in " ".join(shown(study).split())
