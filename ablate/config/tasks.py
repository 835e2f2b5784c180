"""The kinds of trial by name, and the class that runs each.

A trial's id hashes the name of its kind, never the path of the code, so that files may move. A
custom kind is named by "module:Class".
"""

from __future__ import annotations

import importlib
from typing import Any

TRAINING, EVALUATION, COUNTING = "training", "evaluation", "counting"
TASKS = {
    TRAINING: "ablate.trial.training:Training",
    EVALUATION: "ablate.trial.evaluation:Evaluation",
    COUNTING: "ablate.trial.counting:Counting",
    "stand_in": "ablate.trial.stand_in:StandIn",
    "noise": "ablate.trial.stand_in:Noise",
    "slow": "ablate.trial.stand_in:Slow",
}
# Ids, journals and records of format 1 contain these import paths instead of names.
_PATHS = {
    TRAINING: "ablate.train.loop:Training",
    EVALUATION: "ablate.train.evaluation:Evaluation",
    COUNTING: "ablate.train.counting:Counting",
    "stand_in": "ablate.train.stand_in:StandIn",
    "noise": "ablate.train.stand_in:Noise",
    "slow": "ablate.train.stand_in:Slow",
}
_NAMES = {path: name for name, path in _PATHS.items()}


def task_name(recorded: str) -> str:
    """Return the name of a recorded kind of trial, which in format 1 is an import path."""
    return _NAMES.get(recorded, recorded)


def name_in_id(name: str) -> str:
    """Return what ids of format 1 hash for this kind of trial."""
    return _PATHS.get(name, name)


def find_task(name: str) -> Any:
    """Import and return the class that runs trials of this kind."""
    module, _, attribute = TASKS.get(name, name).partition(":")
    return getattr(importlib.import_module(module), attribute)
