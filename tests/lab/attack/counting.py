"""That the storm of kills counts what gives way; `make attack` looks at this first."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("ray")

from ablate.store import journal as journals
from tests.lab.attack import kills

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def storm(tmp_path):
    """A study that has been run to its end, as a storm finds it."""
    _, data = kills.undisturbed()
    place = kills.Place(tmp_path, "exact", data)
    shutil.copytree(data.parent / "store", place.workspace / "store")
    shutil.copy(data.parent / "mlflow.db", place.workspace / "mlflow.db")
    return kills.Storm(place, "driver", random.Random(1), kills.Counts())


def counted(storm: Any) -> dict[str, int]:
    """Compare; what gave way."""
    storm._compare()
    counts = vars(storm.counts).items()
    return {name: value for name, value in counts if value and name != "examples"}


def first(storm: Any) -> Any:
    return next(iter(storm.place.known.values()))


def test_an_undisturbed_study_gives_no_cause(storm) -> None:
    assert counted(storm) == {}
    runs, known = storm._runs(), storm.place.known
    assert sorted(name for name, *_ in runs) == sorted(known) and set(runs.values()) == {1}


def test_a_trial_that_is_gone_is_counted(storm) -> None:
    storm.place.store.delete(f"trials/{first(storm).trial.id}")
    assert counted(storm) == {"lost": 1, "wrong": 1}


def test_an_epoch_that_is_there_twice_is_counted(storm) -> None:
    journal = first(storm)
    journal.epochs.append(journal.epochs[-1])
    journal.write(storm.place.store)
    assert counted(storm) == {"doubled": 1, "wrong": 1}


def test_another_number_is_counted(storm) -> None:
    journal = first(storm)
    assert kills._as_computed(journal)
    metrics = {**journal.epochs[0].metrics}
    metrics["valid_nll"] += 1e-15 * metrics["valid_nll"]
    journal.epochs[0] = replace(journal.epochs[0], metrics=metrics)
    journal.write(storm.place.store)
    assert counted(storm) == {"wrong": 1}
    assert not kills._as_computed(journals.find(storm.place.store, journal.trial.id))


def test_a_finished_trial_that_a_resumed_driver_rewrites_is_counted(storm) -> None:
    storm.before = storm.place.finished()
    journal = first(storm)
    journal.attempts.append(journal.attempts[-1])
    journal.write(storm.place.store)

    class Ended:
        returncode = 0

        def poll(self) -> int:
            return 0

    storm._wait(Ended())
    assert (storm.counts.lost, len(storm.counts.examples)) == (1, 1)
