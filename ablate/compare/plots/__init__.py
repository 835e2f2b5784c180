"""Plots of a study: each a file with a function that draws a matplotlib figure.

    PLOT = Plot(draw=draw, needs="a search")

`draw(material)` returns a `Figure`, or None if the study has nothing to draw.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ablate.compare.material import Material
from ablate.errors import ConfigError, unknown

if TYPE_CHECKING:  # only drawing needs matplotlib
    from matplotlib.figure import Figure

NAMES = ("deltas", "curves", "parameters", "interactions", "budget", "search")


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One plot: how it is drawn, its caption, and which studies have one."""

    draw: Callable[[Material], Figure | None]
    caption: Callable[[Material], str]
    needs: str


def get(name: str) -> Plot:
    if name not in NAMES:
        raise ConfigError(unknown("plot", name, NAMES))
    return importlib.import_module(f"ablate.compare.plots.{name}").PLOT
