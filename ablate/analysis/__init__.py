"""Analyses of finished trials: each a file, a table, and a picture where it is one.

    ANALYSIS = Analysis(run=run, paper="pachitariu2013irlm", equation="Figure 1")

`run(subject, options)` gives a `Finding`. What is asked of a trial beyond its numbers (weights,
tokens, log-probabilities) comes from its `Subject`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablate.errors import ConfigError, unknown

Cell = str | int | float | None
Draw = Callable[[Any], None]  # onto a matplotlib Axes


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A table with what it says above and below it, and how to draw it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    draw: Draw | None = None


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Nothing to set."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """One analysis: what it computes from one trial, or from several."""

    run: Callable[..., Finding]
    options: type = NoOptions
    paper: str = ""
    equation: str = ""
    num_subjects: int = 1
    notes: Sequence[str] = field(default_factory=tuple)


def names() -> list[str]:
    """Every analysis; imports none."""
    files = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in files if name not in ("__init__", "subject", "show"))


def get(name: str) -> Analysis:
    if name not in names():
        raise ConfigError(unknown("analysis", name, names()))
    return importlib.import_module(f"ablate.analysis.{name}").ANALYSIS
