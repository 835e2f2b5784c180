"""What arms cost, and whether their training had settled: notes of a table, no tests."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from ablate.compare.formats import csv as as_csv
from ablate.compare.formats import text
from ablate.compare.judged import Judged
from ablate.compare.table import numbers
from ablate.compare.table.costs import cautions, cost_table
from ablate.compare.table.full_table import full_table as study_table
from ablate.store.attempt import Attempt
from ablate.store.epoch import Epoch

LOSSES = {"base": [4.0, 4.1, 4.2], "other": [3.9, 4.0, 4.1]}


def study_of(by_hand, *, more: float = 0.0, operations: tuple[float, float] | None = None):
    """`more` tokens, as a share, of the second arm in a stage that follows its training."""
    study = by_hand(LOSSES)
    for name, journal in study.journals.items():
        if operations is not None:
            each = operations[name.startswith("other")]
            journal.attempts.append(Attempt(operations=each))
        if more and name.startswith("other"):
            journal.epochs.append(Epoch(3, {"valid_nll": 4.4}, seconds=6.0, tokens=2000 * more))
    return study


def summary_of(study):
    return Judged(study.record, study.journals)


@pytest.mark.parametrize(
    ("more", "operations", "expected"),
    [
        (0.0, None, []),
        (0.09, None, []),
        (0.62, None, ["other 62% more tokens than base"]),
        (0.0, (100.0, 80.0), ["other 20% fewer operations than base"]),
        (0.5, (100.0, 100.0), ["other 50% more tokens, 50% more operations than base"]),
        (19.0, None, ["other 20 times the tokens than base"]),
    ],
)
def test_arms_that_differ_by_a_tenth_are_named(by_hand, more, operations, expected):
    found = [*cautions(summary_of(study_of(by_hand, more=more, operations=operations)))]
    assert found == [f"Trained at another cost: {each}." for each in expected]


def test_costs_are_of_a_seed_with_all_that_it_builds_on(by_hand):
    study = study_of(by_hand, operations=(100.0, 100.0))
    study.trials = [replace(t, final=t.arm == "base") for t in study.trials]
    for index in range(3):  # the second arm ends with a stage over its training
        study.plan(f"gate-{index}", "other", index, "gate", final=True, parents=(f"other-{index}",))
        study.end(f"gate-{index}", "completed", metrics={"valid_nll": 3.0, "test_nll": 3.0})
        study.journals[f"gate-{index}"].attempts.append(Attempt(operations=10.0))
    base, other = summary_of(study).arms
    assert (base.tokens, base.operations, base.seconds_a_seed) == (2000, 200_000, 4.5)
    assert (other.tokens, other.operations, other.seconds_a_seed) == (4000, 220_000, 9.0)
    rows = csv.DictReader(io.StringIO(as_csv.write(numbers.arms(summary_of(study), "k"))))
    row = next(row for row in rows if row["arm"] == "other")
    assert [float(row[n]) for n in ("tokens", "operations", "seconds_a_seed")] == [4000, 220_000, 9]
    assert "220k" in text.write(cost_table(summary_of(study)))


def notes_of(study) -> str:
    notes = [*study_table(summary_of(study)).cautions]
    return next((note for note in notes if note.startswith("Still improving")), "")


def test_last_epochs_that_move_as_much_as_a_quarter_of_the_difference_are_named(by_hand):
    """Every arm here improves by half a nat in its last epoch."""
    assert notes_of(by_hand(LOSSES)) == (
        "Still improving, in the last epoch: other −39.3%, base −39.3%; their difference is −9.5%."
    )
    for apart, named in ((3.9, True), (4.1, False)):
        far = {"base": [8.0, 8.1, 8.2], "other": [8.0 - apart, 8.1 - apart, 8.2 - apart]}
        assert bool(notes_of(by_hand(far))) == named


def test_one_of_a_pair_that_got_worse_is_said_to_have(by_hand):
    study = by_hand(LOSSES)
    for trial_id, journal in study.journals.items():
        if trial_id.startswith("other"):
            journal.epochs[-1] = Epoch(2, {"valid_nll": 5.05}, seconds=4.5, tokens=1000)
    assert "other +5.1% (worse), base −39.3%;" in notes_of(study)


def test_an_arm_that_keeps_its_best_epoch_has_settled_after_it(by_hand):
    """With a patience, the last epochs are those that were no better."""
    study = by_hand(LOSSES)
    for trial_id, journal in study.journals.items():
        if trial_id.startswith("other"):
            best = journal.metrics["valid_nll"]
            journal.epochs[-1] = Epoch(2, {"valid_nll": best}, seconds=4.5, tokens=1000)
            journal.epochs.append(Epoch(3, {"valid_nll": best + 0.5}, seconds=7.0, tokens=1000))
    assert "other +0.00%, base −39.3%;" in notes_of(study)
    assert "worse" not in notes_of(study)
