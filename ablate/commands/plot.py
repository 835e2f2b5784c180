"""Draw a study's plots as PNG and SVG."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ablate.commands import _options
from ablate.compare import plots
from ablate.compare.material import open_begun
from ablate.compare.plots.static import KINDS, drawn, save, written
from ablate.store.workspace import Workspace

EXAMPLE = "ablate plot doc_layer_mix deltas"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate plot`."""
    parser.add_argument("study", help=_options.STUDY)
    parser.add_argument(
        "plots",
        nargs="*",
        metavar="PLOT",
        help=f"{', '.join(plots.NAMES)} (default: all for which the study has data)",
    )
    parser.add_argument(
        "--to", metavar="DIR", help="output folder (default: the study's, in the workspace)"
    )
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Draw a study's plots, and return where they are."""
    return plot(_options.workspace(options), options.study, options.plots, options.to)


def plot(workspace: Workspace, study: str, names: Sequence[str], folder: str | None) -> str:
    """Draw and save the plots, and return the captions and files."""
    material = open_begun(workspace.store, study)
    chosen = names or plots.NAMES
    figures = plots.described(material, chosen)
    default = workspace.study_folder(material.record.key) / "pictures"
    target = Path(folder) if folder else default
    lines = []
    for name, figure in figures.items():
        picture, files = drawn(figure), [target / f"{name}.{kind}" for kind in KINDS]
        for file in files:
            save(file, written(picture, file.suffix[1:]))
        lines += [f"{name}: {figure.caption}", *(f"  {file}" for file in files)]
    none = [name for name in chosen if name not in figures]
    lines += [f"{name}: nothing to draw; needs {plots.get(name).NEEDS}" for name in none]
    return "\n".join(lines)
