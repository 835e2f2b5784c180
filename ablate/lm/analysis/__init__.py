"""Analyses of finished trials: one file each, with a table and, for most, a picture.

    ANALYSIS = Analysis(run=run, paper="pachitariu2013irlm", equation="Figure 1")

`run(subject, options)` returns a `Finding`; an analysis of several trials is a function
`run(*subjects, options)`. A `Subject` gives access to a trial's weights, tokens and
log-probabilities.
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
NO_ANALYSES = ("__init__", "drawing", "of_study", "subject", "writing")  # files of this folder


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A table with its title and notes, and a function that draws it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    draw: Draw | None = None


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """No options."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """One analysis: its function, its options, and how many trials it takes (least, most)."""

    run: Callable[..., Finding]
    options: type = NoOptions
    paper: str = ""
    equation: str = ""
    num_subjects: tuple[int, int] = (1, 1)


def names() -> list[str]:
    """The names of all analyses, without importing any."""
    # From the files: importing an analysis takes torch.
    files = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in files if name not in NO_ANALYSES)


def get(name: str) -> Analysis:
    """Return the analysis of this name."""
    if name not in names():
        raise ConfigError(unknown("analysis", name, names()))
    return importlib.import_module(f"ablate.lm.analysis.{name}").ANALYSIS
