"""`ablate plot STUDY`: a study's plots as PNG and SVG files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.compare import plots
from ablate.compare.material import Material
from ablate.errors import MissingDependency, StoreError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("png", "svg")
DPI = 150


def pictures(material: Material, names: Sequence[str] = plots.NAMES) -> dict[str, Figure]:
    """The plots that this study has something for."""
    try:
        from ablate.compare.plots import style
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"plots need the package {error.name}: pip install 'ablate[study]'."
        ) from None
    with style.look():
        drawn = {name: plots.get(name).draw(material) for name in names}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def written(figure: Figure, kind: str) -> bytes:
    """The bytes of a plot's file, without time and software: equal plots have equal bytes."""
    from ablate.compare.plots import style

    data = io.BytesIO()
    unnamed = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with style.look():
        figure.savefig(data, format=kind, dpi=DPI, metadata=unnamed, bbox_inches="tight")
    return data.getvalue()


def save(file: Path, data: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}.") from error
