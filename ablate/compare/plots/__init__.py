"""Plots of a study: each a file of this folder that draws a matplotlib figure.

draw(material)      the `Figure`, or None if the study has nothing to draw
caption(material)   what the figure shows
TITLE               its heading in a report
NEEDS               what a study needs to have this plot
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ablate.compare.plots import style
from ablate.errors import ConfigError, MissingDependency, StoreError, needs, unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ablate.compare.material import Material

NAMES = ("deltas", "curves", "parameters", "interactions", "budget", "search")
KINDS = ("png", "svg")
DPI = 150


def get(name: str) -> ModuleType:
    """Return the module that draws a plot."""
    if name not in NAMES:
        raise ConfigError(unknown("plot", name, NAMES))
    return importlib.import_module(f"{__name__}.{name}")


def pictures(material: Material, names: Sequence[str] = NAMES) -> dict[str, Figure]:
    """The plots that this study has something for."""
    try:
        with style.look():
            figures = {name: get(name).draw(material) for name in names}
    except ModuleNotFoundError as error:
        raise MissingDependency(needs("plots need", error.name or "matplotlib")) from None
    return {name: figure for name, figure in figures.items() if figure is not None}


def written(figure: Figure, kind: str) -> bytes:
    """The bytes of a plot's file, without time and software: equal plots have equal bytes."""
    data = io.BytesIO()
    unnamed = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with style.look():
        figure.savefig(data, format=kind, dpi=DPI, metadata=unnamed, bbox_inches="tight")
    return data.getvalue()


def save(file: Path, data: bytes) -> None:
    """Write a file, and make its folder if necessary."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}.") from error
