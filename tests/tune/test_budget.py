"""What a budget counts, to the second and to the GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ablate.config.identity import Trial
from ablate.errors import DamagedError
from ablate.store.journal import Journal
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
    return Journal(trial, epochs=[{"epoch": e + 1, "seconds": seconds} for e in range(epochs)])


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
    book.settle(ended("t", 2, 2700))
    assert book.gpu_hours == 3.0 and book.reserved == {} and book.spent == {"t": 3.0}
    book.started("other")
    book.settle(ended("other", 0, 0))
    assert book.spent["other"] == 0.0


def test_epochs_are_counted_once_and_none_before_the_first(ledger):
    book = ledger(epochs=3)
    book.started("t")
    assert book.epochs_of == {"t": 0}
    for number in (1, 2, 1):  # one is repeated after a crash
        book.epoch("t", number, 1.0)
    assert book.epochs_of == {"t": 2} and book.refusal("other") is None
    book.settle(ended("t", 3, 1.0))
    assert book.epochs_of == {"t": 3}
    assert "epochs" in str(book.refusal("other"))
    book.settle(ended("unknown", 3, 1.0))
    assert book.epochs_of == {"t": 3}


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
