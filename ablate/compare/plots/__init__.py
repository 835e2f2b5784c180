"""Figures of a study: each a file of this folder that describes one, as data.

described(judged)     the `Figure`, or None if the study has nothing to show
NEEDS                 what a study needs to have this figure

`static.py` draws what is described.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from ablate.errors import ConfigError, unknown

if TYPE_CHECKING:
    from ablate.compare.judged import Judged
    from ablate.compare.plots.figure import Figure

NAMES = ("deltas", "curves", "parameters", "interactions", "budget", "search")
OF_PAGES = NAMES[1:]  # a page's table has the differences drawn in its rows
LADDER = "ladder"  # the figure of a whole ladder, which is several studies


def get(name: str) -> ModuleType:
    """Return the module that describes a figure."""
    if name not in (known := (*NAMES, LADDER)):
        raise ConfigError(unknown("plot", name, known))
    return importlib.import_module(f"{__name__}.{name}")


def described(judged: Judged, names: Sequence[str] = NAMES) -> dict[str, Figure]:
    """The figures that this study has something for."""
    figures = {name: get(name).described(judged) for name in names}
    return {name: figure for name, figure in figures.items() if figure is not None}
