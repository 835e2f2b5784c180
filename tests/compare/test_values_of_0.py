"""A loss of 0 on a scale of logarithms: a result that is kept, said, and in no test."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ablate import Arm, Metric, Scale, Study, run, setting, table, task
from ablate.compare.formats import text
from ablate.compare.table.full_table import full_table as study_table
from ablate.config import tasks
from ablate.store.outcome import Status

pytestmark = pytest.mark.usefixtures("without_pages", "without_mlflow")


@dataclass(frozen=True, kw_only=True)
class Config:
    factor: float = setting(1.0, doc="of the loss")
    zeros: int = setting(0, doc="seeds whose loss is 0")


def zero_or_more(config: Config, seed: int) -> float:
    return 0.0 if seed <= config.zeros else config.factor * (1 + (seed / config.factor) % 3 / 10)


@pytest.fixture
def summary_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))

    @task("zeros", config=Config, metrics=Metric("loss", scale="log"))
    def train(run):
        loss = zero_or_more(run.config, run.seed)
        for _ in run.epochs(total=1, best=True):
            yield {"valid_loss": loss}
        return {"test_loss": loss}

    def summarise(base: int, arm: int):
        study = Study(
            question="?",
            base={"task": "zeros", "zeros.zeros": base},
            base_arm="a",
            design=table(Arm("a"), Arm("b", {"zeros.factor": 0.5, "zeros.zeros": arm})),
            scales={"s": Scale(seeds=8)},
        )
        return run(study, local=True, quiet=True)

    return summarise


@pytest.mark.slow
@pytest.mark.parametrize("base, arm", [(2, 0), (0, 2)])
def test_a_loss_of_0_is_kept_and_said_and_no_test_has_it(summary_of, base, arm):
    summary = summary_of(base, arm)
    outcomes = {journal.status for journal in summary.journals.values()}
    assert outcomes == {Status.COMPLETED}
    _, compared = summary.arms
    assert compared.counts.completed == 8 and compared.counts.at_floor == arm
    assert compared.comparison.difference.num_pairs == 8 - max(base, arm)
    assert not compared.best and not compared.comparison.verdict.decided
    assert compared.comparison.reason == "values of 0"
    shown = " ".join(text.write(study_table(summary), 100).split())
    name, num = ("b", arm) if arm else ("a", base)
    assert f"{name}: {num} of 8 values are 0, which has no logarithm" in shown
    assert "INCOMPLETE" not in shown and 'scale="linear"' in shown


def test_without_zeros_the_same_arm_is_better(summary_of):
    summary = summary_of(0, 0)
    assert summary.arms[1].best and "logarithm" not in text.write(study_table(summary), 100)
