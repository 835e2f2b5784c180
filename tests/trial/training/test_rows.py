"""Several processes, each with its rows of a batch: the result of one process with all rows."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed

from ablate.config import registry
from ablate.config.merge import merge
from ablate.errors import CombinationError
from ablate.store import journal as journals
from ablate.store.outcome import Status, is_its_own
from ablate.store.store import Store
from ablate.trial.provenance import trust
from ablate.trial.run import TrialRun, load_modules
from ablate.trial.task import Diverged, Place, ProcessLost
from ablate.trial.training import team as teams
from ablate.trial.training.crew import Leader
from ablate.trial.training.team import Team
from ablate.trial.training.training import Training
from tests.support import trials
from tests.trial.training.test_training import TINY

UPDATES = 50
UNEVEN = str(Path(__file__).parents[2] / "support" / "uneven.py")
# Five rows are not divisible by two; in two parts of three and two, neither is the first.
SHARED = {
    "corpus.train_tokens": 600,
    "corpus.eval_tokens": 150,
    "optimizer": "sgd",
    "optimizer.learning_rate": 0.5,
    "training.batch_size": 5,
    "training.window": 6,
    "training.epochs": 4,
    "regularizer.mixture_balance.weight": 0.0,
}
LSTM = {
    "head": "softmax",
    "backbone.units": [10, 8],
    "optimizer": "nt_asgd",
    "optimizer.nonmono": 0,
    "training.accumulate": 2,
    "training.state_reset": 0.2,
    "regularizer.dropout.input": 0.2,
    "regularizer.variational_dropout.recurrent": 0.2,
    "regularizer.embedding_dropout.per_row": True,
    "regularizer.fraternal_dropout.kappa": 0.1,
    "regularizer.activation_l2.weight": 1e-3,
}
MIXTURE = {
    "loss": "nce",
    "loss.noise": 3,
    "regularizer.past_decode.weight": 0.1,
    "regularizer.frage.weight": 0.1,
    "regularizer.l2.mode": "decoupled",
    "regularizer.l2.everything": 1e-2,
}
TRANSFORMER = {
    "backbone": "transformer",
    "backbone.units": 8,
    "backbone.heads": 2,
    "regularizer.weight_drop.rate": 0.0,
    "head": "mos",
    "head.experts": 2,
    "loss": "augmented",
    "backbone.dropout": 0.1,
    "optimizer": "adamw",
    "optimizer.learning_rate": 1e-3,
}


@pytest.fixture(scope="module", autouse=True)
def team() -> Iterator[None]:
    """Starting a process takes seconds: all tests use one, and it ends with them."""
    yield
    if Team.started is not None:
        Team.started.end()


@pytest.fixture
def uneven() -> Iterator[None]:
    """The technique of `UNEVEN`, here; the other processes load it themselves."""
    trust.accept([UNEVEN])
    load_modules([UNEVEN])
    yield
    technique = registry._techniques.pop(("regularizer", "uneven"))
    del sys.modules[technique.build.__module__]  # to be loaded by the next test


def trained(changes, store, data, processes, updates=UPDATES, **more) -> Training:
    trial = trials.made(merge(TINY, merge(SHARED, changes)), data, **more)
    task = Training(trial, Place(store, data, processes))
    advance(task, updates)
    return task


def trained_unevenly(does: str, since: int, *where, window: int = 6, **more) -> Training:
    """Train with a technique of a user's."""
    changes = {"regularizer.uneven.does": does, "regularizer.uneven.update": since}
    changes["training.window"] = window
    return trained(changes, *where, modules=(UNEVEN,), **more)


def advance(task: Training, updates: int) -> None:
    for _ in range(updates):
        task.advance(0)  # a slice of no time is one window


def assert_same(one: Training, two: Training) -> None:
    assert one.update == two.update
    assert one.valid_history == pytest.approx(two.valid_history, abs=1e-5)
    assert one.num_tokens == two.num_tokens
    assert one.nll_sum.item() == pytest.approx(two.nll_sum.item(), rel=1e-5)
    ours, theirs = one.model.state_dict(), two.model.state_dict()
    for name, tensor in ours.items():
        torch.testing.assert_close(theirs[name], tensor, rtol=0, atol=1e-5, msg=name)


@pytest.mark.parametrize("changes", [LSTM, MIXTURE, TRANSFORMER], ids=["lstm", "nce", "attention"])
def test_two_processes_learn_what_one_learns(changes, tmp_path, data):
    one, two = (trained(changes, Store(tmp_path), data, processes) for processes in (1, 2))
    assert_same(one, two)
    assert len(one.valid_history) >= 2
    assert two.processes == 2


def test_a_parameter_whose_first_gradient_comes_late_is_trained_by_all(tmp_path, data, uneven):
    one, two = (trained_unevenly("gradient", 3, Store(tmp_path), data, n) for n in (1, 2))
    assert_same(one, two)
    weights = one.model.auxiliary["uneven"]
    assert (weights.used != 1).all()
    assert (weights.unused == 1).all()


def test_steps_by_numpy_s_and_python_s_chance_are_those_of_one_process(tmp_path, data, uneven):
    """The trial seeds their global generators before every update, in each process."""
    one, two = (trained_unevenly("step by chance", 1, Store(tmp_path), data, n) for n in (1, 2))
    assert_same(one, two)


@pytest.mark.parametrize(
    ("does", "since", "at_update", "told"),
    [
        ("draw numpy", 1, 1, "draws from numpy's global generator"),
        ("draw Python", 3, 4, "draws from Python's global generator"),
        ("step apart", 3, 4, r"auxiliary\.uneven\.used is not the same in each of the 2 processes"),
        ("keep the mean", 1, 1, r"auxiliary\.uneven\.mean is not the same"),
    ],
)
def test_what_would_differ_between_processes_ends_the_trial(
    does, since, at_update, told, tmp_path, data, uneven
):
    """It is looked for in updates 1, 2, 4, 8, ..."""
    task = trained_unevenly(does, since, Store(tmp_path), data, 2, updates=at_update - 1)
    with pytest.raises(CombinationError, match=told):
        advance(task, 1)


def test_processes_are_compared_at_the_end_of_an_epoch(tmp_path, data, uneven):
    task = trained_unevenly("step apart", 9, Store(tmp_path), data, 2, window=7, updates=8)
    last = task.reader.num_updates
    assert last < 16  # the next update that is looked at
    advance(task, last - 8 - 1)
    with pytest.raises(CombinationError, match="not the same in each"):
        advance(task, 1)


def test_saved_by_two_and_resumed_by_one_and_again_by_two(tmp_path, data):
    """Rows' states are gathered: a checkpoint is that of one process."""
    one = trained(LSTM, Store(tmp_path), data, 1, updates=12)
    two = trained(LSTM, Store(tmp_path), data, 2, updates=4)
    tensors, plain = two.saved()
    assert all(
        tensor[:, row].any()
        for name, tensor in tensors.items()
        if "state" in name
        for row in range(5)
    )
    alone = trained(LSTM, Store(tmp_path), data, 1, updates=0)
    alone.restore(tensors, plain)
    advance(alone, 4)
    again = trained(LSTM, Store(tmp_path), data, 2, updates=0)
    again.restore(*alone.saved())
    advance(again, 4)
    assert_same(one, again)


@pytest.mark.parametrize(
    ("changes", "processes", "told"),
    [
        ({"regularizer.mixture_balance.weight": 0.1}, 2, "regularizer 'mixture_balance'"),
        ({}, 6, "training.batch_size = 5"),
    ],
)
def test_what_is_no_sum_over_rows_is_refused(changes, processes, told, tmp_path, data):
    with pytest.raises(CombinationError, match=told):
        trained(changes, Store(tmp_path), data, processes, updates=0)


def test_nothing_is_said_of_sums_that_lack_a_lost_process(tmp_path, data):
    trained(MIXTURE, Store(tmp_path), data, 2, updates=0)
    team = Team.started
    (follower,) = team.processes
    follower.kill()
    follower.wait()
    team._watch()  # under nccl a thread does: nothing else would end the wait for the others
    assert not distributed.is_initialized()
    told = rf"process 2 of 2 \(pid {follower.pid}\) was killed by signal 9"
    with pytest.raises(ProcessLost, match=told), Leader(team).at_work():
        raise Diverged("a loss of nan")


def test_a_process_that_says_nothing_is_waited_for_only_so_long(tmp_path, data, monkeypatch):
    task = trained(MIXTURE, Store(tmp_path), data, 2, updates=1)
    monkeypatch.setattr(teams, "SECONDS", 1.0)
    monkeypatch.setattr(teams, "END_SECONDS", 1.0)
    (follower,) = Team.started.processes
    follower.send_signal(signal.SIGSTOP)
    told = rf"process 2 of 2 \(pid {follower.pid}\) did not answer in 1 s, .* processes=1"
    with pytest.raises(ProcessLost, match=told) as lost:
        task.saved()
    assert follower.poll() == -signal.SIGKILL
    assert not is_its_own(str(lost.value))


def test_a_process_that_dies_ends_the_attempt_and_the_next_one_goes_on(tmp_path, data):
    brief = {**SHARED, **MIXTURE, "training.epochs": 1}
    trial, store = trials.made(merge(TINY, brief), data), Store(tmp_path)
    run = TrialRun(trial, store, data, processes=2)
    run.advance(0)
    run.save()
    assert run.journal.last_attempt.processes == 2
    (follower,) = Team.started.processes
    follower.send_signal(signal.SIGKILL)
    while not run.advance(0).done:
        pass
    assert run.journal.status == Status.FAILED
    told = f"process 2 of 2 (pid {follower.pid}) was killed by signal 9"
    assert told in run.journal.outcome.reason
    assert follower.poll() == -signal.SIGKILL
    journals.reopened(store, trial.id)  # as the next run of a study does
    again = TrialRun(trial, store, data)
    assert again._task.update == 1
    assert trials.ended(again).status == Status.COMPLETED
