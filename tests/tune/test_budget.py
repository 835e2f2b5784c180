"""What a budget counts, to the second and to the GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ablate.config.identity import Trial
from ablate.errors import DamagedError
from ablate.store.attempt import Attempt
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Outcome, Status
from ablate.store.store import Store
from ablate.study.words import Budget
from ablate.tune.budget import Ledger


@pytest.fixture
def ledger(tmp_path):
    def made(gpus: float = 1, **limits: Any) -> Ledger:
        return Ledger(Store(str(tmp_path)), "q@s", Budget(**limits), gpus)

    return made


def ended(trial_id: str, epochs: int, seconds: float) -> Journal:
    trial = Trial(id=trial_id, values={}, seed=1, corpus_digest="")
    return Journal(trial, epochs=[Epoch(e + 1, seconds=seconds) for e in range(epochs)])


def test_hours_are_of_3600_seconds(ledger):
    book = ledger(hours=2)
    book.seconds = 7199.9
    assert book.overtime is None
    book.seconds = 7200
    assert book.overtime == "the budget of 2 hours is spent" == book.refusal("t")


def test_a_trial_costs_its_time_on_every_gpu(ledger):
    book = ledger(gpus=4, gpu_hours=10, gpu_hours_per_trial=0.5)
    book.started("t")
    assert book.gpu_hours == 2.0
    book.epoch("t", 1, seconds=900)
    assert book.gpu_hours == 2.0  # an hour on the four together is reserved anyway
    book.epoch("t", 2, seconds=3600)
    assert book.gpu_hours == 4.0
    book.settle("t", ended("t", 2, 2700))
    assert book.gpu_hours == 3.0 and book.reserved == {} and book.spent == {"t": 3.0}
    book.started("other")
    book.settle("other", ended("other", 0, 0))
    assert book.spent["other"] == 0.0


def test_epochs_are_counted_once_and_none_before_the_first(ledger):
    book = ledger(epochs=3)
    book.started("t")
    assert book.epochs_of == {"t": 0}
    for number in (1, 2, 1):  # one is repeated after a crash
        book.epoch("t", number, 1.0)
    assert book.epochs_of == {"t": 2} and book.refusal("other") is None
    book.settle("t", ended("t", 3, 1.0))
    assert book.epochs_of == {"t": 3}
    assert "epochs" in str(book.refusal("other"))
    book.settle("unknown", ended("unknown", 3, 1.0))
    assert book.epochs_of == {"t": 3}


def test_an_evaluation_costs_its_time_and_a_retry_costs_it_again(ledger):
    book = ledger(gpu_hours=10, gpu_hours_per_trial=1)
    book.started("judge")
    judged = ended("judge", 0, 0)
    judged.outcome = Outcome(status=Status.COMPLETED, seconds=7200.0)
    book.settle("judge", judged)
    assert book.spent == {"judge": 2.0}
    for hours, spent in ((2, 2.0), (1, 3.0)):  # failed, and was tried again from scratch
        book.started("t")
        book.settle("t", ended("t", 1, 3600.0 * hours))
        assert book.spent["t"] == spent
    book.started("t")  # after an error of memory it resumes where it was
    resumed = ended("t", 1, 3600.0)
    resumed.attempts = [Attempt(from_epoch=1)]
    resumed.epochs.append(Epoch(2, seconds=5400.0))
    book.settle("t", resumed)
    assert book.spent["t"] == 3.5


def test_a_trial_that_was_interrupted_resumes_whatever_is_spent(ledger):
    book = ledger(epochs=2, trials=1, gpu_hours=1, gpu_hours_per_trial=1)
    book.started("t")
    book.epoch("t", 2, 7200.0)
    assert ledger(epochs=2).refusal("t") is None and "epochs" in str(ledger(epochs=2).refusal("u"))
    book.settle("t", ended("t", 2, 7200.0))
    assert "epochs" in str(book.refusal("t"))


def test_time_is_saved_every_minute_also_before_the_first_epoch(ledger):
    book = ledger(hours=2)
    for _ in range(7):
        book.passed(20.0)
    assert book.seconds == 140 and ledger(hours=2).seconds == 120


@pytest.mark.parametrize(
    "saved", [{"reserved": [1]}, {"spent": {"t": "1"}}, {"epochs_of": 5}, {"seconds": None}, [1]]
)
def test_a_file_of_another_shape_is_no_ledger(ledger, tmp_path, saved):
    file = tmp_path / "studies" / "q@s" / "ledger.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(saved))
    with pytest.raises(DamagedError, match=r"ledger\.json"):
        ledger(hours=2)
    assert ledger().seconds == 0.0  # without a budget nothing depends on it
