"""A/A: arms that differ in nothing but chance, through the whole pipeline, hundreds of times.

Plan, schedule, searches asked of Optuna, journals, winners confirmed on fresh seeds, the table:
everything is the real thing but the training, which is a draw (`stand_in.Noise`). A table that
calls such arms different is wrong; it may be so as often as it says, and no more.

Every study here has values of its own, hence trials and draws of its own. The disk is not waited
for: nothing here is to survive a power cut.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scipy import stats

from ablate import journal as journals
from ablate.compare.rows import Summary
from ablate.compare.statistics import UNDECIDED
from ablate.compare.summary import summarise
from ablate.plan import make_plan
from ablate.study import Arm, Scale, Search, Study, table
from ablate.tune import local
from ablate.tune.schedule import Schedule
from ablate.tune.search import open_search

pytestmark = pytest.mark.timeout(1200)  # 45 s of one core, which a busy machine gives slowly
NUM = 200
BASE = {
    "corpus.name": "grammar",
    "backbone": "lstm",
    "head": "softmax",
    "embedding.size": 8,
    "backbone.num_layers": 1,
    "backbone.units": 8,
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": 1,
}
SPACE = """
paper = "none"
tables = ["T"]

["Rate"]
field = "optimizer.learning_rate"
range = [1e-3, 10.0]
scale = "log"
"""
TUNED = Scale(seeds=1, search=Search(space="rate", trials=2, sampler="random", repeats=3))
LISTED = Scale(seeds=3)


@pytest.fixture
def tables(workspace, monkeypatch):
    """Runs a study of arms that are the same but for a setting nobody reads."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    folder = Path(workspace.folder)
    (folder / "rate.toml").write_text(SPACE)

    def order(trial):
        return {"trial": trial.to_plain(), "store": workspace.store.uri, "data": workspace.data}

    def run(number: int, scale: Scale, rates: tuple[float, ...]) -> Summary:
        arms = [
            Arm(f"arm {i}", {"training.window": 20 + i, "optimizer.learning_rate": rate})
            for i, rate in enumerate(rates)
        ]
        study = Study(
            question="Is chance called by its name?",
            base={**BASE, "training.clip": 1.0 + number},
            base_arm="arm 0",
            design=table(*arms),
            scales={"s": scale},
            runner="ablate.train.stand_in:Noise",
            name=f"study {number}",
            file=str(folder / "study.py"),
        )
        plan = make_plan(study, "s", data=workspace.data)
        schedule = Schedule(plan, workspace.store, open_search(workspace.searches))
        local.run(schedule, order)
        record = schedule.plan.record
        return summarise(record, journals.read_all(workspace.store, record.trial_ids()))

    return run


def decided(summary: Summary) -> list[str]:
    found = [arm.comparison for arm in summary.arms if arm.comparison]
    return [each.verdict for each in found if each.verdict != UNDECIDED]


def not_more_often_than(wrong: int, level: float) -> bool:
    """Whether so many of NUM are what a test that errs at that level might well give."""
    return stats.binomtest(wrong, NUM, level, alternative="greater").pvalue > 0.01


def test_identical_arms_are_called_different_no_more_often_than_stated(tables):
    """Three arms as listed: two comparisons a table, which errs as a whole."""
    found = [tables(number, LISTED, (1.0, 1.0, 1.0)) for number in range(NUM)]
    assert all(summary.whole for summary in found)
    assert not_more_often_than(sum(bool(decided(summary)) for summary in found), 0.05)
    assert not_more_often_than(sum(any(arm.best for arm in s.arms) for s in found), 0.05)


def test_identical_arms_that_were_tuned_are_no_more_often_called_different(tables):
    """Each arm's searches find rates of their own: a pair is a search, and not a seed of one."""
    found = [tables(number, TUNED, (1.0, 1.0)) for number in range(NUM)]
    assert all(len(arm.values) == 3 for summary in found for arm in summary.arms)
    assert not_more_often_than(sum(bool(decided(summary)) for summary in found), 0.05)


def test_an_arm_that_is_worse_is_called_so(tables):
    """The same pipeline finds a difference of forty spreads: it is not deaf."""
    found = [tables(number, LISTED, (0.1, 1e-6)) for number in range(5)]
    assert [decided(summary) for summary in found] == [["higher"]] * 5
