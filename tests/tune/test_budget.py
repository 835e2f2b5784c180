"""The hours that a study may take, and how they are counted."""

from __future__ import annotations

import json

import pytest

from ablate.errors import DamagedError
from ablate.store.store import Store
from ablate.tune.budget import Ledger


@pytest.fixture
def ledger(tmp_path):
    def made(hours: float | None = None) -> Ledger:
        return Ledger(Store(str(tmp_path)), "q@s", hours)

    return made


def write(tmp_path, saved) -> None:
    file = tmp_path / "studies" / "q@s" / "ledger.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(saved))


def test_hours_are_of_3600_seconds(ledger):
    book = ledger(hours=2)
    book.seconds = 7199.9
    assert book.overtime is None
    book.seconds = 7200
    assert book.overtime == "the budget of 2 hours is spent"


def test_time_is_saved_every_minute_also_before_the_first_epoch(ledger):
    book = ledger(hours=2)
    for _ in range(7):
        book.passed(20.0)
    assert book.seconds == 140 and ledger(hours=2).seconds == 120


def test_the_account_of_a_version_that_counted_trials_and_gpu_hours_is_read(ledger, tmp_path):
    limits = {"trials": 9, "epochs": None, "hours": 1, "gpu_hours": 4}
    before = {"reserved": {"t": 1.0}, "spent": {"u": 0.5}, "epochs_of": {"t": 2}, "limits": limits}
    write(tmp_path, {**before, "seconds": 1800.0})
    book = ledger(hours=1)
    assert book.seconds == 1800 and book.overtime is None
    book.write()
    assert ledger(hours=0.5).overtime == "the budget of 0.5 hours is spent"


@pytest.mark.parametrize("saved", [{"seconds": None}, {"seconds": "1"}, [1]])
def test_a_file_of_another_shape_is_no_ledger(ledger, tmp_path, saved):
    write(tmp_path, saved)
    with pytest.raises(DamagedError, match=r"ledger\.json"):
        ledger(hours=2)
    assert ledger().seconds == 0.0  # without a budget nothing depends on it
