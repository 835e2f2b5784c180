"""slot -> name -> technique. A technique is one file, `components/<slot>/<name>.py`.

    @register("head", "doc", config=DocConfig, paper="takase2018doc", equation="Eq. 5-9")
    class Doc(Head): ...

Listing names reads file names only; a technique's module (and torch) is imported when it is
first asked for. A study may register techniques of its own from a module beside it.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.errors import ConfigError, unknown

SLOTS = (
    "backbone",
    "bridge",
    "head",
    "gate",
    "loss",
    "regularizer",
    "optimizer",
    "evaluator",
)
LISTED_SLOTS = ("regularizer", "evaluator")  # a model has any number of these, one of the others
_COMPONENTS = Path(__file__).parent / "components"


@dataclass(frozen=True)
class Technique:
    """A registered technique: its config, its class, and where it comes from."""

    slot: str
    name: str
    config: type
    build: type
    paper: str
    equation: str
    version: int
    departures: tuple[str, ...]
    module: str

    @property
    def formula(self) -> str:
        """What the technique's file says on top: what it is, and its equations."""
        return (sys.modules[self.module].__doc__ or "").strip()

    @property
    def doc(self) -> str:
        return (self.build.__doc__ or "").strip()


_techniques: dict[tuple[str, str], Technique] = {}


def register(
    slot: str,
    name: str,
    *,
    config: type,
    paper: str = "",
    equation: str = "",
    version: int = 1,
    departures: tuple[str, ...] = (),
) -> Callable[[type], type]:
    """Class decorator: makes a technique known under `name` in `slot`.

    `version` is part of every trial's id: raise it when a fixed bug changes what is computed.
    """
    _check_slot(slot)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError(f"technique names are snake_case, and '{name}' is not.")

    def add(technique: type) -> type:
        known = _techniques.get((slot, name))
        if known is not None and known.module != technique.__module__:
            raise ConfigError(f"{slot} '{name}' is already registered by {known.module}.")
        _techniques[slot, name] = Technique(
            slot, name, config, technique, paper, equation, version, departures,
            technique.__module__,
        )  # fmt: skip
        return technique

    return add


def names(slot: str) -> list[str]:
    """Every technique of a slot, shipped or registered by a study; imports none of them."""
    _check_slot(slot)
    files = (path.stem for path in (_COMPONENTS / slot).glob("*.py"))
    shipped = {name for name in files if not name.startswith("_")}
    return sorted(shipped | {name for known, name in _techniques if known == slot})


def get(slot: str, name: str, place: str = "") -> Technique:
    """The technique, imported now if need be."""
    if name not in names(slot):
        raise ConfigError(unknown(slot, name, names(slot), place))
    if (slot, name) not in _techniques:
        importlib.import_module(f"ablate.components.{slot}.{name}")
    return _techniques[slot, name]


def _check_slot(slot: str) -> None:
    if slot not in SLOTS:
        raise ConfigError(unknown("slot", slot, SLOTS))


def make(slot: str, name: str, config: Any, *shapes: Any) -> Any:
    """A technique's object from its config and the shapes that the model gives it."""
    return get(slot, name).build(config, *shapes)
