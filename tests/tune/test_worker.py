"""What a worker reads in its order, and what is said of one that died; no Ray is started."""

from __future__ import annotations

import pytest

from ablate.config.identity import Trial
from ablate.errors import StoreError, TakenOver
from ablate.store.store import Store
from ablate.tune import worker


@pytest.mark.parametrize("data", ["", "the/drivers"])
def test_corpora_are_in_the_drivers_folder_or_in_this_hosts(tmp_path, monkeypatch, data):
    """An order from another host names no folder: its paths are not this host's."""
    monkeypatch.setattr(worker, "host_folder", lambda: "this/hosts")
    trial = Trial(id="t" * 16, values={}, seed=1, corpus_digest="", runner="stand_in")
    order = {"trial": trial.to_plain(), "store": str(tmp_path), "data": data}
    assert worker.opened(order)[2] == (data or "this/hosts")


class Replaced:
    """A worker that finds in some of its slices that another has written the trial's journal."""

    def __init__(self, *found: bool) -> None:
        self.found, self.num_started = list(found), 0

    def __call__(self, order: dict) -> Replaced:
        self.num_started += 1
        return self

    def advance(self) -> dict:
        if self.found.pop(0):
            self.save()
        return {"done": not self.found, "epoch": None}

    def save(self) -> None:
        raise TakenOver("trial t has been taken over by another worker.")


@pytest.fixture
def warm(monkeypatch):
    """An actor without a Ray, and its workers."""
    actor = pytest.importorskip("ablate.tune.cluster.actor")

    def make(*found: bool):
        workers = Replaced(*found)
        monkeypatch.setattr(actor, "_load", lambda path: workers)
        made = actor.WarmWorker.__new__(actor.WarmWorker)
        assert made.reset_config({"order": {}}) is True  # else Tune starts another actor
        return made, workers

    return make


def test_a_trial_that_a_replaced_worker_wrote_once_more_is_resumed(warm):
    """It ran on a host that Ray drained; the driver asks only the new worker."""
    actor, workers = warm(False, True, False, True, False)
    slices = [actor.step()["slice"][0] for _ in range(5)]
    assert [slice_["done"] for slice_ in slices] == [False, False, False, False, True]
    assert all(slice_.keys() == {"done", "epoch"} for slice_ in slices)
    assert workers.num_started == 3
    assert actor.preserve() is None  # whoever wrote last has saved it


def test_a_stopping_actor_saves_its_trial_and_says_what_kept_it_from_that(warm, monkeypatch):
    actor, workers = warm(False, False)
    assert actor.preserve() is None  # it has started nothing yet
    saves: list[bool] = []
    monkeypatch.setattr(workers, "save", lambda: saves.append(True), raising=False)
    actor.step()
    assert actor.preserve() is None and saves == [True]

    def full() -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(workers, "save", full)
    assert actor.preserve() == "the disk is full"


def test_a_trial_that_another_worker_keeps_writing_is_an_error(warm):
    actor, _ = warm(True, True)
    assert actor.step() == {"slice": [{"done": False, "epoch": None}]}
    assert actor.step() == {
        "slice": [{"no_store": "trial t has been taken over by another worker."}]
    }


def test_a_host_that_does_not_see_the_store_says_so(tmp_path):
    trial = Trial(id="t" * 16, values={}, seed=1, corpus_digest="", runner="stand_in")
    order = {"trial": trial.to_plain(), "store": str(tmp_path), "data": "x", "study": "q@s"}
    with pytest.raises(StoreError, match="does not see the store"):
        worker.opened(order)
    Store(str(tmp_path)).write_json("studies/q@s/study.json", {})
    assert worker.opened(order)[0] == trial
