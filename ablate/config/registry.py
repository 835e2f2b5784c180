"""slot -> name -> technique. A technique is one file, `components/<slot>/<name>.py`.

    @register("head", "doc", config=DocConfig, paper="takase2018doc", equation="Eq. 7, 8, 10, 11")
    class Doc(Head): ...

Listing names only reads file names; a technique's module (and torch) is imported on first use. A
study may register custom techniques from a file next to it.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ablate.config.metrics import Metric
from ablate.errors import ConfigError, unknown

LANGUAGE_SLOTS = (
    "words",
    "backbone",
    "bridge",
    "head",
    "gate",
    "loss",
    "regularizer",
    "optimizer",
    "schedule",
    "evaluator",
)
SLOTS = (*LANGUAGE_SLOTS, "encoder", "attention")
LISTED_SLOTS = ("regularizer", "evaluator")  # any number of techniques; other slots take one
EXACT, WINDOW = "exact", "window"  # what a backbone remembers of the text before a window
_COMPONENTS = Path(__file__).parents[1] / "components"


@dataclass(frozen=True, kw_only=True)
class NoSettings:
    """The config of a technique that has no settings."""


@dataclass(frozen=True)
class Technique:
    """A registered technique: its config, its class and its source."""

    slot: str
    name: str
    config: type
    build: type
    paper: str
    equation: str
    version: int
    departures: tuple[str, ...]
    module: str
    metrics: tuple[Metric, ...] = ()  # of an evaluator without log-probabilities

    @property
    def formula(self) -> str:
        """The docstring of the technique's file: what it is, and its equations."""
        return (sys.modules[self.module].__doc__ or "").strip()

    @property
    def doc(self) -> str:
        """The docstring of the technique's class."""
        return (self.build.__doc__ or "").strip()


_techniques: dict[tuple[str, str], Technique] = {}


def register(
    slot: str,
    name: str,
    *,
    config: type = NoSettings,
    paper: str = "",
    equation: str = "",
    version: int = 1,
    departures: tuple[str, ...] = (),
    metrics: tuple[Metric, ...] = (),
) -> Callable[[type], type]:
    """Class decorator that registers a technique as `name` in `slot`.

    `version` is part of the trials' ids: raise it when a bug fix changes what is computed.
    `metrics` are what an evaluator reports that has no log-probabilities.
    """
    _check_slot(slot)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError(f"the technique name '{name}' is not in snake_case.")

    def add(technique: type) -> type:
        known = _techniques.get((slot, name))
        if known is not None and known.module != technique.__module__:
            raise ConfigError(f"{slot} '{name}' is already registered by {known.module}.")
        _techniques[slot, name] = Technique(
            slot, name, config, technique, paper, equation, version, departures,
            technique.__module__, metrics,
        )  # fmt: skip
        return technique

    return add


def names(slot: str) -> list[str]:
    """List a slot's techniques, shipped or registered by a study, without importing any."""
    _check_slot(slot)
    return sorted(_shipped(slot) | {name for known, name in _techniques if known == slot})


@cache
def _shipped(slot: str) -> frozenset[str]:
    """The techniques that come with the package. Cached: a plan asks for each of its trials."""
    files = (path.stem for path in (_COMPONENTS / slot).glob("*.py"))
    return frozenset(name for name in files if not name.startswith("_"))


def get(slot: str, name: str, where: str = "") -> Technique:
    """Return a technique, importing its module if necessary."""
    if name not in names(slot):
        raise ConfigError(unknown(slot, name, names(slot), where))
    if (slot, name) not in _techniques:
        importlib.import_module(f"ablate.components.{slot}.{name}")
    return _techniques[slot, name]


def _check_slot(slot: str) -> None:
    if slot not in SLOTS:
        raise ConfigError(unknown("slot", slot, SLOTS))
