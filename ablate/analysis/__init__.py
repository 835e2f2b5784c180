"""Analyses of finished trials: each a file, a table, and a picture where it is one.

    ANALYSIS = Analysis(run=run, paper="pachitariu2013irlm", equation="Figure 1")

`run(subject, options)` gives a `Finding`; one that looks at several trials is written
`run(*subjects, options)`. What is asked of a trial beyond its numbers (weights, tokens,
log-probabilities) comes from its `Subject`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.errors import ConfigError, unknown

Cell = str | int | float | None
Draw = Callable[[Any], None]  # onto a matplotlib Axes
NO_ANALYSES = ("__init__", "drawing", "show", "subject")  # files of this folder


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
    """One analysis: what it computes, and from how few and how many trials."""

    run: Callable[..., Finding]
    options: type = NoOptions
    paper: str = ""
    equation: str = ""
    num_subjects: tuple[int, int] = (1, 1)


def names() -> list[str]:
    """Every analysis; imports none."""
    files = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in files if name not in NO_ANALYSES)


def get(name: str) -> Analysis:
    if name not in names():
        raise ConfigError(unknown("analysis", name, names()))
    return importlib.import_module(f"ablate.analysis.{name}").ANALYSIS
