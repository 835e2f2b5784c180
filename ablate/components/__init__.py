"""What the author of a technique imports: the slots' contracts, and what flows between them.

    from ablate.components import Chance, Regularizer, register, setting

The shipped techniques are in the folders, one file each: `components/<slot>/<technique>.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ablate.config.fields import setting
    from ablate.config.registry import register
    from ablate.config.streams import Streams
    from ablate.errors import CombinationError
    from ablate.model.evaluator import Evaluator, Reading
    from ablate.model.flow import (
        Draw,
        Features,
        GateSignal,
        Mixture,
        Pass,
        Shapes,
        State,
        TrainingText,
    )
    from ablate.model.language_model import LanguageModel
    from ablate.model.masks import Chance, Masks
    from ablate.model.optimizer import Optimizer
    from ablate.model.regularizer import Regularizer
    from ablate.model.slots import Backbone, Bridge, Gate, Head, Loss

_HOMES = {
    "ablate.config.fields": ("setting",),
    "ablate.config.registry": ("register",),
    "ablate.config.streams": ("Streams",),
    "ablate.errors": ("CombinationError",),
    "ablate.model.evaluator": ("Evaluator", "Reading"),
    "ablate.model.flow": (
        "Draw", "Features", "GateSignal", "Mixture", "Pass", "Shapes", "State", "TrainingText",
    ),
    "ablate.model.language_model": ("LanguageModel",),
    "ablate.model.masks": ("Chance", "Masks"),
    "ablate.model.optimizer": ("Optimizer",),
    "ablate.model.regularizer": ("Regularizer",),
    "ablate.model.slots": ("Backbone", "Bridge", "Gate", "Head", "Loss"),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Backbone", "Bridge", "Chance", "CombinationError", "Draw", "Evaluator", "Features", "Gate",
    "GateSignal", "Head", "LanguageModel", "Loss", "Masks", "Mixture", "Optimizer", "Pass",
    "Reading", "Regularizer", "Shapes", "State", "Streams", "TrainingText", "register", "setting",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what is asked for only then, so that listing techniques needs no torch."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ablate.components' has no attribute '{name}'")
    return getattr(import_module(_HOME_OF[name]), name)
