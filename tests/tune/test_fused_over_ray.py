"""A study whose seeds are trained as one batch of models by a worker of a real local Ray."""

from __future__ import annotations

import os
import signal

import pytest

pytest.importorskip("ray")

from ablate.store import journal as journals
from ablate.tune import local
from ablate.tune.cluster import drive as cluster
from tests.support.small_studies import new_workspace, order_in
from tests.tune.test_fused import Notes, read, scheduled

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory):
    """Two places in one Ray for the whole file."""
    fleet = cluster.Fleet(workers=2, tmp=str(tmp_path_factory.mktemp("tmp")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # these train: a busy machine would starve them
        with cluster.connected(fleet):
            yield fleet


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, data):
    """The study of two arms, of which one cannot be a batch, in this process."""
    workspace = new_workspace(tmp_path_factory.mktemp("here"), data)
    schedule, notes = scheduled("seeds", workspace)
    local.run(schedule, order_in(workspace))
    return read(schedule), notes.texts


class Kills(Notes):
    """Kills the worker of the first trial that ends an epoch, once."""

    killed: str | None = None

    def progress(self, trial_id, epoch, reached=None) -> None:
        if self.killed is None and epoch is not None and self.schedule is not None:
            self.killed = trial_id
            journal = journals.read(self.schedule.store, trial_id)
            os.kill(journal.last_attempt.pid, signal.SIGKILL)


def test_over_ray_the_seeds_of_an_arm_are_one_batch_to_the_bits_of_local(
    tmp_path, data, fleet, here
):
    workspace = new_workspace(tmp_path, data)
    schedule, notes = scheduled("seeds", workspace)
    cluster.run(schedule, fleet, order_in(workspace))
    assert schedule.complete
    ended, (expected, texts) = read(schedule), here
    assert notes.texts == texts and len(texts) == 1  # why an arm's seeds are no batch
    assert ended.keys() == expected.keys() and len(ended) == 6
    for name, journal in ended.items():
        assert journal.outcome == expected[name].outcome
        assert journal.last_attempt.computed_by == expected[name].last_attempt.computed_by
    workers = {(j.trial.arm, j.last_attempt.pid) for j in ended.values()}
    assert len(workers) == 2  # a worker for each arm


def test_a_worker_that_is_killed_resumes_all_its_seeds(tmp_path, data, fleet, here):
    workspace = new_workspace(tmp_path, data)
    notes = Kills()
    schedule, _ = scheduled("seeds", workspace, listener=notes)
    cluster.run(schedule, fleet, order_in(workspace))
    assert schedule.complete
    ended, (expected, _) = read(schedule), here
    killed = next(j.trial.arm for j in ended.values() if j.trial.id == notes.killed)
    for name, journal in ended.items():
        assert len(journal.deaths) == (journal.trial.arm == killed)
        ours, theirs = journal.outcome.metrics, expected[name].outcome.metrics
        assert ours == pytest.approx(theirs, rel=1e-5)
