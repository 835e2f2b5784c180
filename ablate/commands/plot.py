"""Draw a study's plots as PNG, SVG or PDF."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ablate.commands import _options
from ablate.compare import plots
from ablate.compare.plots.figure import Figure
from ablate.compare.plots.static import FORMATS, KINDS, drawn, save, written
from ablate.compare.plots.style import LOOKS, Name
from ablate.compare.study_summary import open_drawn
from ablate.errors import ConfigError
from ablate.store.study_record import study_key
from ablate.store.workspace import Workspace

EXAMPLE = "ablate plot doc_layer_mix deltas"


@dataclass(frozen=True)
class Files:
    """Where pictures are written, as what, and how they look."""

    folder: str | None = None  # none: the study's, in the workspace
    formats: Sequence[str] = KINDS
    style: Name = "plain"


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
        "--format",
        nargs="+",
        choices=FORMATS,
        default=KINDS,
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}, one or more (default: {' and '.join(KINDS)})",
    )
    parser.add_argument(
        "--style",
        choices=[*LOOKS],
        default="plain",
        help="plain, or serif letters and the width of a paper's text (default: plain)",
    )
    parser.add_argument(
        "--to", metavar="DIR", help="output folder (default: the study's, in the workspace)"
    )
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Draw a study's plots, and return where they are."""
    workspace = _options.workspace(options)
    files = Files(options.to, options.format, options.style)
    return plot(workspace, options.study, options.plots, files)


def plot(workspace: Workspace, study: str, names: Sequence[str], files: Files) -> str:
    """Draw and save the plots, and return the captions and files."""
    judged = open_drawn(workspace.store, study)
    record, whole = judged.record, bool(judged.rungs)
    if whole and (others := [name for name in names if name != plots.LADDER]):
        raise ConfigError(
            f"{others[0]} is of a single rung. Instead: ablate plot {record.key} {others[0]}"
        )
    chosen = [plots.LADDER] if whole else names or plots.NAMES
    figures = plots.described(judged, chosen)
    key = study_key(record.name, record.one_of) if whole else record.key
    default = workspace.study_folder(key) / "pictures"
    target = Path(files.folder) if files.folder else default
    lines = []
    for name, figure in figures.items():
        lines += [f"{name}: {figure.caption}", *_saved(figure, target / name, files)]
    none = [name for name in chosen if name not in figures]
    lines += [f"{name}: nothing to draw; needs {plots.get(name).NEEDS}" for name in none]
    return "\n".join(lines)


def _saved(figure: Figure, path: Path, files: Files) -> Iterator[str]:
    """Write a figure in every format, and yield a line for each file."""
    picture = drawn(figure, files.style)
    for kind in files.formats:
        file = path.with_name(f"{path.name}.{kind}")
        save(file, written(picture, kind, files.style))
        yield f"  {file}"
