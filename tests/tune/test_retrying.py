"""A database that is away for a while is waited for; one that refuses is not."""

from __future__ import annotations

import inspect

import pytest
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import RDBStorage
from sqlalchemy.exc import InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ablate.tune.search import retrying
from ablate.tune.search.retrying import RetryingStorage, passing, with_retries


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(retrying, "time", clock)
    return clock


def failed(kind, text: str = "server closed the connection", invalidated: bool = False):
    return kind("SELECT 1", {}, Exception(text), connection_invalidated=invalidated)


def wrapped(cause: BaseException) -> StorageInternalError:
    """As Optuna raises what its storage met."""
    error = StorageInternalError("An exception is raised during the commit")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (failed(OperationalError), True),
        (failed(InterfaceError), True),
        (PoolTimeout("QueuePool limit reached"), True),
        (wrapped(failed(OperationalError)), True),
        (wrapped(failed(ProgrammingError, invalidated=True)), True),
        (failed(ProgrammingError), False),
        (failed(OperationalError, "password authentication failed for user me"), False),
        (wrapped(failed(OperationalError, 'database "x" does not exist')), False),
        (StorageInternalError("no cause"), False),
    ],
)
def test_only_a_lost_connection_is_waited_for(error, waits):
    assert passing(error) is waits


def test_it_waits_longer_and_longer_and_returns_what_comes_at_last(clock):
    answers = [failed(OperationalError)] * 7

    def call():
        if answers:
            raise answers.pop()
        return "found"

    assert with_retries(call) == "found"
    assert clock.slept == [0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0]


def test_what_is_no_matter_of_the_connection_is_raised_at_once(clock):
    def call():
        raise failed(ProgrammingError)

    with pytest.raises(ProgrammingError):
        with_retries(call)
    assert clock.slept == []


def test_a_reply_that_was_lost_is_no_error(clock):
    """The trial was told its value, and the connection broke before the answer."""
    answers = [UpdateFinishedTrialError(), failed(OperationalError)]

    def call():
        raise answers.pop()

    assert with_retries(call) is True
    with pytest.raises(UpdateFinishedTrialError):  # at the first try it is one
        with_retries(lambda: (_ for _ in ()).throw(UpdateFinishedTrialError()))


def test_public_methods_and_what_the_cache_calls_are_retried_and_nothing_else(clock, tmp_path):
    def is_retried(name: str) -> bool:
        return hasattr(getattr(RetryingStorage, name), "__wrapped__")

    assert all(map(is_retried, ("get_all_trials", "set_trial_state_values", "create_new_trial")))
    assert all(map(is_retried, retrying.CALLED_BY_CACHE))
    private = {name for name, _ in inspect.getmembers(RDBStorage, inspect.isfunction)}
    private = {name for name in private if name.startswith("_")} - {*retrying.CALLED_BY_CACHE}
    assert "__init__" in private
    for name in private:
        assert getattr(RetryingStorage, name) is getattr(RDBStorage, name)
    storage = RetryingStorage(f"sqlite:///{tmp_path}/searches.db")
    assert storage.get_all_studies() == []
    storage.remove_session()
    storage.engine.dispose()


def test_a_second_of_patience_is_a_second(clock):
    """After 0.2, 0.7 and 1.7 s it is over; with 1.7 it is tried once more."""

    def call():
        clock.calls += 1
        raise failed(OperationalError)

    for patience, tries in ((1.6, 4), (1.7, 5)):
        clock.now, clock.calls = 0.0, 0
        with pytest.raises(OperationalError):
            with_retries(call, patience=patience)
        assert clock.calls == tries
