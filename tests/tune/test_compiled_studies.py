"""A scale that has its training compiled: its trials, its ids, and what is said where it fails."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ablate import Arm, Metric, Scale, Study, table, task
from ablate.compare.judged import Judged
from ablate.config import tasks
from ablate.config.identity import Trial
from ablate.errors import StudyError
from ablate.lm.training import compiled
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.study.plan import make_plan
from ablate.study.words import Stage
from ablate.tune import local
from ablate.tune.listener import Listener
from tests.support import small_studies
from tests.support.small_studies import order_in
from tests.tune.test_schedule import scheduled

SMALL = {
    **small_studies.BASE,
    "corpus.train_tokens": 600,
    "corpus.eval_tokens": 200,
    "training.batch_size": 4,
    "training.window": 20,
}
AGAIN = Stage("again", {"evaluator.standard.window": 5}, kind="evaluate")


@dataclass(frozen=True, kw_only=True)
class OwnConfig:
    """A task without settings."""


class Notes(Listener):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def study(**scale) -> Study:
    return Study(
        question="Is it compiled?",
        base=SMALL,
        base_arm="a",
        design=table(Arm("a"), Arm("b", {"training.clip": 0.1})),
        scales={"s": Scale(seeds=1, stages=(AGAIN,), **scale)},
        name="q",
    )


def run(asked: Study, workspace) -> tuple[list[str], list[str]]:
    """What was noted while the study ran, and below its table."""
    notes = Notes()
    local.run(scheduled(asked, workspace, notes), order_in(workspace))
    record = study_record.read(workspace.store, "q@s")
    known = journals.read_all(workspace.store, record.trial_ids())
    return notes.notes, list(Judged(record, known).notes)


def test_only_what_trains_is_compiled_and_ids_stay(data):
    def planned(**scale):
        return make_plan(study(**scale), "s", data=data).trials

    asked, plain = planned(compile="inductor"), planned()
    assert [trial.id for trial in asked] == [trial.id for trial in plain]
    hows = {trial.stage: trial.compile for trial in asked}
    assert hows == {"train": "inductor", "again": "off"}
    assert {trial.compile for trial in plain} == {"off"}


def test_a_trial_that_cuda_graphs_were_asked_for_is_still_read(data):
    trial = make_plan(study(compile="inductor"), "s", data=data).trials[0]
    recorded = {**trial.to_plain(), "compile": "graphs"}
    assert Trial.from_plain(recorded).to_plain() == recorded


def test_that_trials_are_not_compiled_is_said_once_and_the_table_counts_them(
    monkeypatch, workspace
):
    monkeypatch.setattr(compiled, "BACKEND", {"backend": "none"})
    noted, below = run(study(compile="inductor"), workspace)
    (text,) = [note for note in noted if "compile" in note]
    assert text.startswith("Not compiled, although the scale has compile='inductor': Invalid")
    (text,) = [note for note in below if "compile" in note]
    assert text.startswith("2 trials trained without a compiler, although the scale has compile: ")


def test_a_task_of_ones_own_compiles_itself(monkeypatch, data):
    with pytest.raises(StudyError, match="compile = 'fast'"):
        Scale(compile="fast")
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))

    @task("own", config=OwnConfig, metrics=Metric("score"))
    def train(run):
        return {"valid_score": 1.0}

    own = Study(
        question="?",
        base={"task": "own"},
        base_arm="a",
        design=table(Arm("a")),
        scales={"s": Scale(compile="inductor")},
        name="q",
    )
    with pytest.raises(StudyError, match=r"the task 'own' trains its own\. Instead: torch"):
        make_plan(own, "s", data=data)
