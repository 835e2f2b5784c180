"""What a worker reads in its order, and what is said of one that died; no Ray is started."""

from __future__ import annotations

from typing import ClassVar

import pytest

from ablate.config.identity import Trial
from ablate.errors import TakenOver
from ablate.tune import worker


@pytest.mark.parametrize("data", ["", "the/drivers"])
def test_corpora_are_in_the_drivers_folder_or_in_this_hosts(tmp_path, monkeypatch, data):
    """An order from another host names no folder: its paths are not this host's."""
    monkeypatch.setattr(worker, "host_folder", lambda: "this/hosts")
    trial = Trial(id="t" * 16, values={}, seed=1, corpus_digest="", runner="stand_in")
    order = {"trial": trial.to_plain(), "store": str(tmp_path), "data": data}
    assert worker.opened(order)[2] == (data or "this/hosts")


class Replaced:
    """A worker of a trial; the first one finds that another has written the trial's journal."""

    made: ClassVar[list[Replaced]] = []

    def __init__(self, order: dict) -> None:
        self.made.append(self)
        self.first = len(self.made) == 1

    def advance(self) -> dict:
        if self.first:
            raise TakenOver("trial t has been taken over by another worker.")
        return {"done": True, "epoch": None}

    def save(self) -> None:
        raise TakenOver("trial t has been taken over by another worker.")


def test_a_trial_that_a_replaced_worker_wrote_once_more_is_resumed(monkeypatch):
    """It ran on a host that Ray drained; the driver asks only the new worker, which resumes it."""
    actor = pytest.importorskip("ablate.tune.cluster.actor")
    monkeypatch.setattr(Replaced, "made", [])
    warm = actor.WarmWorker.__new__(actor.WarmWorker)
    warm.reset_config({"order": {"worker": f"{__name__}:Replaced"}})
    monkeypatch.setattr(actor, "_load", lambda path: Replaced)
    assert warm.preserve() is None
    assert warm.step() == {"slice": [{"done": False, "epoch": None}]}
    assert warm.step() == {"slice": [{"done": True, "epoch": None}]}
    assert len(Replaced.made) == 2
    assert warm.preserve() is None  # whoever wrote last has saved it


def test_the_last_line_of_rays_message_says_why_a_worker_died():
    roles = pytest.importorskip("ablate.tune.cluster.roles")
    text = "The actor died.\n\tpid: 7\n\tip: 10.0.0.1\nIt was ended. Some common causes include: x"
    assert roles.cause(RuntimeError(text)) == (
        "the worker process (pid 7 on 10.0.0.1) died: It was ended."
    )
