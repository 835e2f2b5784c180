"""Pictures of a study: each a file, and a function from what is known to a matplotlib figure.

    PLOT = Plot(draw=draw, needs="a search")

`draw(material)` gives a `Figure`, or None where the study has nothing of the kind.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ablate.compare.rows import Summary
from ablate.compare.units import Unit
from ablate.errors import ConfigError, unknown
from ablate.journal import Journal
from ablate.study_record import StudyRecord

if TYPE_CHECKING:  # drawing waits for matplotlib, naming does not
    from matplotlib.figure import Figure

NAMES = ("deltas", "curves", "parameters", "interactions", "budget", "search")


@dataclass(frozen=True)
class Material:
    """What a picture is made of."""

    summary: Summary
    journals: Mapping[str, Journal]

    @property
    def record(self) -> StudyRecord:
        return self.summary.record

    @property
    def unit(self) -> Unit:
        return Unit(self.summary.unit)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One picture: how it is drawn, what stands below it, and which studies have one."""

    draw: Callable[[Material], Figure | None]
    caption: Callable[[Material], str]
    needs: str


def get(name: str) -> Plot:
    if name not in NAMES:
        raise ConfigError(unknown("plot", name, NAMES))
    return importlib.import_module(f"ablate.plots.{name}").PLOT
