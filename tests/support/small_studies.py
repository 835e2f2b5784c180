"""The smallest language model worth a study, spaces to search for its rate, and its trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ablate.config.identity import Trial
from ablate.store.workspace import Workspace, make_folders, open_workspace

BASE = {
    "corpus.name": "grammar",
    "backbone": "lstm",
    "head": "softmax",
    "embedding.size": 8,
    "backbone.num_layers": 1,
    "backbone.units": 8,
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": 1,
}
RATE = """
paper = "none"
tables = ["T"]

["Rate"]
field = "optimizer.learning_rate"
range = [1e-3, 10.0]
scale = "log"
"""
RATE_AND_WINDOW = f"""{RATE}
["Window"]
field = "training.window"
choices = [10, 20]
"""


def new_workspace(folder: Path, data: str) -> Workspace:
    """A workspace that shares the corpora encoded in `data`."""
    workspace = open_workspace(str(folder))
    make_folders(workspace)
    Path(workspace.data).symlink_to(data)
    return workspace


def order_in(workspace: Workspace, started: list[Trial] | None = None):
    """Return a function that makes a trial's order, and adds the trial to `started`."""

    def order(trial: Trial) -> dict[str, Any]:
        if started is not None:
            started.append(trial)
        where = {"store": workspace.store.uri, "data": workspace.data}
        return {"trial": trial.to_plain(), **where}

    return order
