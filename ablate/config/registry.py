"""slot -> name -> technique. A technique is one file, `<slot>/<name>.py`, in a plug-in.

    @register("head", "doc", config=DocConfig, paper="takase2018doc", equation="Eq. 7, 8, 10, 11")
    class Doc(Head): ...

Listing names only reads file names; a technique's module (and torch) is imported on first use. A
study may register custom techniques from a file next to it.

A search's sampler is a technique too, but none of a model: a function that makes Optuna's object.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ablate.config.metrics import Metric
from ablate.config.plugins import comes_with_a_plugin, folder_of, plugins
from ablate.errors import ConfigError, unknown
from ablate.public import REMOVED

EXACT, WINDOW = "exact", "window"  # what a backbone remembers of the text before a window
SAMPLER = "sampler"
SAMPLERS = "ablate.tune"  # the package that has theirs: the only one that may import Optuna
_Made = TypeVar("_Made", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class NoSettings:
    """The config of a technique that has no settings."""


@dataclass(frozen=True)
class Technique:
    """A registered technique: its config, its class (a sampler's function) and its source."""

    slot: str
    name: str
    config: type
    build: Any
    paper: str
    equation: str
    version: int | Callable[[Any], int]
    departures: tuple[str, ...]
    module: str
    file: str  # that registers it; empty if Python knows none, as in a notebook
    metrics: tuple[Metric, ...] = ()  # of an evaluator without log-probabilities
    values: Mapping[str, str | None] = field(default_factory=dict)  # as of a `Kind`

    @property
    def is_users(self) -> bool:
        """Return whether a user's code registers it."""
        return not comes_with_a_plugin(self.module)

    def version_of(self, config: Any) -> int:
        """Return the version of what these settings compute."""
        return self.version(config) if callable(self.version) else self.version

    @property
    def revision(self) -> str:
        """The digest of all values that the technique uses; empty if an import finds its code."""
        return revision_of(self.values)

    @property
    def place(self) -> str:
        """Where it was registered; registering it there again replaces it."""
        return self.module if self.module == "__main__" else self.file or self.module

    @property
    def formula(self) -> str:
        """The docstring of the technique's file: what it is, and its equations."""
        return (sys.modules[self.module].__doc__ or "").strip()

    @property
    def doc(self) -> str:
        """The docstring of the technique's class."""
        return (self.build.__doc__ or "").strip()

    @property
    def summary(self) -> str:
        """What it does, in a sentence: the first of its file, or of its class in a notebook."""
        return " ".join((self.formula or self.doc).partition("\n\n")[0].split())


_techniques: dict[tuple[str, str], Technique] = {}


@cache
def slots() -> tuple[str, ...]:
    """Return the slots of models, as plug-ins list them."""
    return tuple(dict.fromkeys(slot for plugin in plugins() for slot in plugin.slots))


def every_slot() -> tuple[str, ...]:
    """Return the slots of models, and that of a search's sampler."""
    return (*slots(), SAMPLER)


@cache
def listed_slots() -> tuple[str, ...]:
    """Return the slots that take any number of techniques."""
    return tuple(slot for plugin in plugins() for slot in plugin.listed_slots)


@cache
def single_slots() -> tuple[str, ...]:
    """Return the slots that take one technique."""
    return tuple(slot for slot in slots() if slot not in listed_slots())


@cache
def defaults() -> Mapping[str, str]:
    """Return the technique of each slot for which a config names none, where there is one."""
    return {slot: name for plugin in plugins() for slot, name in plugin.defaults.items()}


def register(
    slot: str,
    name: str,
    *,
    config: type = NoSettings,
    paper: str = "",
    equation: str = "",
    version: int | Callable[[Any], int] = 1,
    departures: tuple[str, ...] = (),
    metrics: tuple[Metric, ...] = (),
) -> Callable[[_Made], _Made]:
    """Decorator that registers a class, or a function that makes a sampler, as `name` in `slot`.

    `version` is part of the trials' ids: raise it when a bug fix changes what is computed. If the
    fix changes some settings' results alone, it may be a function of the config.
    `metrics` are what an evaluator reports that has no log-probabilities.
    """
    _check_slot(slot)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError(f"the technique name '{name}' is not in snake_case.")

    def add(technique: _Made) -> _Made:
        module = technique.__module__
        file = getattr(sys.modules.get(module), "__file__", None)
        made = Technique(
            slot, name, config, technique, paper, equation, version, departures,
            module, str(Path(file).resolve()) if file else "", metrics,
        )  # fmt: skip
        known = _techniques.get((slot, name))
        if known is not None and made.place not in (known.place, known.file):
            raise ConfigError(f"{slot} '{name}' is already registered by {known.module}.")
        _techniques[slot, name] = made
        return technique

    return add


def add(technique: Technique) -> None:
    """Register a technique that another process has registered, or one with digests of its code."""
    _techniques[technique.slot, technique.name] = technique


def revision_of(values: Mapping[str, str | None]) -> str:
    """The digest of values that have digests by name; empty without any."""
    text = json.dumps(dict(values), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16] if values else ""


def names(slot: str) -> list[str]:
    """List a slot's techniques, shipped or registered by a study, without importing any."""
    _check_slot(slot)
    return sorted({*shipped(slot), *(name for known, name in _techniques if known == slot)})


@cache
def shipped(slot: str) -> Mapping[str, str]:
    """Return the packages of the techniques that come with ablate and its plug-ins, by name.

    Cached: a plan asks for each of its trials.
    """
    packages = [plugin.techniques for plugin in plugins() if plugin.techniques]
    found = [SAMPLERS] if slot == SAMPLER else packages
    return {
        file.stem: package
        for package in found
        for file in folder_of(package).joinpath(slot).glob("*.py")
        if not file.name.startswith("_")
    }


def file_of(slot: str, name: str) -> Path:
    """Return the file of a technique that comes with ablate or a plug-in."""
    return folder_of(shipped(slot)[name]) / slot / f"{name}.py"


def of_users() -> list[Technique]:
    """The techniques that this process has from users' code."""
    return [technique for technique in _techniques.values() if technique.is_users]


def get(slot: str, name: str, where: str = "") -> Technique:
    """Return a technique, importing its module if necessary."""
    if name not in names(slot):
        if instead := REMOVED.get(f"{slot}.{name}"):
            gone = f"there is no {slot} '{name}' now. Instead: {instead}."
            raise ConfigError(f"{where}: {gone}" if where else gone)
        raise ConfigError(unknown(slot, name, names(slot), where))
    if (slot, name) not in _techniques:
        importlib.import_module(f"{shipped(slot)[name]}.{slot}.{name}")
    return _techniques[slot, name]


def _check_slot(slot: str) -> None:
    if slot not in every_slot():
        raise ConfigError(unknown("slot", slot, every_slot()))
