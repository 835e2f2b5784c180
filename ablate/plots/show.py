"""`ablate plot STUDY`: a study's pictures as PNG and SVG files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ablate import journal as journals
from ablate import plots, study_record
from ablate.compare.summary import summarise
from ablate.errors import MissingDependency, StoreError, TrialError
from ablate.plots import Material
from ablate.workspace import Workspace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("png", "svg")
DPI = 150


def material_of(workspace: Workspace, name: str) -> Material:
    """What the store knows of a study, as far as it is."""
    record = study_record.read(workspace.store, name)
    found = journals.read_all(workspace.store, record.trial_ids())
    if not found:
        raise TrialError(f"{record.key}: no trial has been run yet.")
    return Material(summarise(record, found), found)


def pictures(material: Material, names: Sequence[str] = plots.NAMES) -> dict[str, Figure]:
    """The pictures that there is something for."""
    try:
        from ablate.plots import style
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"pictures need the package {error.name}: pip install 'ablate[study]'."
        ) from None
    with style.look():
        drawn = {name: plots.get(name).draw(material) for name in names}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def written(figure: Figure, kind: str) -> bytes:
    """A picture's file. Neither its time nor its software is in it: equal pictures, equal bytes."""
    from ablate.plots import style

    data = io.BytesIO()
    unnamed = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with style.look():
        figure.savefig(data, format=kind, dpi=DPI, metadata=unnamed, bbox_inches="tight")
    return data.getvalue()


def plot(workspace: Workspace, study: str, names: Sequence[str], folder: str | None) -> str:
    """Draw, write, and say where."""
    material = material_of(workspace, study)
    chosen = names or plots.NAMES
    drawn = pictures(material, chosen)
    place = workspace.study_folder(material.record.key) / "pictures"
    place = Path(folder) if folder else place
    lines = []
    for name, figure in drawn.items():
        files = [place / f"{name}.{kind}" for kind in KINDS]
        for file in files:
            save(file, written(figure, file.suffix[1:]))
        lines += [f"{name}: {plots.get(name).caption(material)}", *(f"  {file}" for file in files)]
    none = [f"{name}: nothing to draw; needs {plots.get(name).needs}" for name in chosen]
    return "\n".join([*lines, *(t for n, t in zip(chosen, none, strict=True) if n not in drawn)])


def save(file: Path, data: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}.") from error
