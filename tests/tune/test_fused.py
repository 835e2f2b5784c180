"""A study whose seeds are trained as one batch of models, beside the same study without."""

from __future__ import annotations

import pytest

from ablate.store import journal as journals
from ablate.store.journal import Journal
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study, check
from ablate.study.words import Arm, Scale
from ablate.tune import local
from ablate.tune.listener import Listener
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.support import small_studies
from tests.support.small_studies import new_workspace, order_in

ARMS = [Arm("alike"), Arm("random", {"training.variable_window": True})]
BASE = {
    **small_studies.BASE,
    "corpus.train_tokens": 400,
    "corpus.eval_tokens": 100,
    "training.batch_size": 2,
    "training.epochs": 2,
    "training.variable_window": False,
    "regularizer.dropout.output": 0.2,
}


class Notes(Listener):
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.schedule: Schedule | None = None
        self.stop_after: int | None = None  # epochs

    def note(self, text: str) -> None:
        self.texts.append(text)

    def progress(self, trial_id, epoch, reached=None) -> None:
        if self.stop_after is not None and epoch is not None and self.schedule is not None:
            self.stop_after -= 1
            if not self.stop_after:
                self.schedule.stop_reason = "Ctrl-C"


def scheduled(
    fuse: str, workspace, arms=ARMS, listener: Notes | None = None
) -> tuple[Schedule, Notes]:
    scales = {"s": Scale(seeds=3, fuse=fuse)}
    design = table(*arms)
    study = Study(question="?", base=BASE, base_arm="alike", design=design, scales=scales, name="q")
    check(study)
    notes = listener or Notes()
    plan = make_plan(study, "s", data=workspace.data)
    notes.schedule = Schedule(plan, workspace.store, open_search(workspace.searches), notes)
    return notes.schedule, notes


def read(schedule: Schedule) -> dict[str, Journal]:
    found = journals.read_all(schedule.store, schedule.plan.record.trial_ids())
    return {schedule.trials[trial_id].name: journal for trial_id, journal in found.items()}


def test_the_trials_of_a_fused_study_are_those_of_the_same_study(tmp_path, data):
    """Ids are the same; an arm that cannot be a batch trains its seeds to the same bits."""
    workspaces = {name: new_workspace(tmp_path / name, data) for name in ("none", "seeds")}
    ended = {}
    for fuse, workspace in workspaces.items():
        schedule, notes = scheduled(fuse, workspace)
        local.run(schedule, order_in(workspace))
        assert schedule.complete
        ended[fuse] = read(schedule)
    (text,) = notes.texts
    assert text.startswith("random: its seeds are trained one by one, since each draws lengths")
    assert ended["none"].keys() == ended["seeds"].keys() and len(ended["none"]) == 6
    for name, alone in ended["none"].items():
        fused = ended["seeds"][name]
        assert fused.trial.id == alone.trial.id
        ways = fused.last_attempt.computed_by
        assert ("torch: one batch of 3 seeds" in ways) is name.startswith("alike")
        if name.startswith("random"):
            assert fused.outcome == alone.outcome
            continue
        assert fused.outcome.metrics == pytest.approx(alone.outcome.metrics, rel=1e-5)
        for ours, theirs in zip(fused.epochs, alone.epochs, strict=True):
            assert ours.tokens == theirs.tokens
            assert ours.metrics == pytest.approx(theirs.metrics, rel=1e-5)


def test_a_fused_study_that_is_stopped_resumes(tmp_path, data):
    workspace = new_workspace(tmp_path, data)
    schedule, notes = scheduled("seeds", workspace, ARMS[:1])
    notes.stop_after = 1  # the first seed's first epoch; the others end theirs in the same slice
    local.run(schedule, order_in(workspace))
    schedule.close()
    assert [len(journal.epochs) for journal in read(schedule).values()] == [1, 1, 1]
    schedule, _ = scheduled("seeds", workspace, ARMS[:1])
    local.run(schedule, order_in(workspace))
    assert schedule.complete
    for journal in read(schedule).values():
        assert len(journal.epochs) == 2 and journal.last_attempt.from_epoch == 1
