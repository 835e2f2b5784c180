"""What a worker reads in its order, and what is said of one that died; no Ray is started."""

from __future__ import annotations

import pytest

from ablate.config.identity import Trial
from ablate.tune import worker


@pytest.mark.parametrize("data", ["", "the/drivers"])
def test_corpora_are_in_the_drivers_folder_or_in_this_hosts(tmp_path, monkeypatch, data):
    """An order from another host names no folder: its paths are not this host's."""
    monkeypatch.setattr(worker, "host_folder", lambda: "this/hosts")
    trial = Trial(id="t" * 16, values={}, seed=1, corpus_digest="", runner="stand_in")
    order = {"trial": trial.to_plain(), "store": str(tmp_path), "data": data}
    assert worker.opened(order)[2] == (data or "this/hosts")


def test_the_last_line_of_rays_message_says_why_a_worker_died():
    roles = pytest.importorskip("ablate.tune.cluster.roles")
    text = "The actor died.\n\tpid: 7\n\tip: 10.0.0.1\nIt was ended. Some common causes include: x"
    assert roles.cause(RuntimeError(text)) == (
        "the worker process (pid 7 on 10.0.0.1) died: It was ended."
    )
