"""`ablate analyze`: an analysis as a table on screen, and as CSV, PNG and SVG in a folder."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from ablate import analysis, fields
from ablate.analysis import Analysis, Cell, Finding
from ablate.analysis.subject import subject
from ablate.errors import ConfigError
from ablate.layout import Grid
from ablate.single import find
from ablate.workspace import Workspace

WIDTH = 100


def analyze(
    name: str, trials: Sequence[str], options: Mapping[str, str], workspace: Workspace
) -> str:
    """Run an analysis on trials given by their ids; the text to print."""
    chosen = analysis.get(name)
    if len(trials) != chosen.num_subjects:
        raise ConfigError(
            f"the analysis '{name}' looks at {chosen.num_subjects} trial(s), and was given "
            f"{len(trials)}."
        )
    journals = [find(workspace.store, trial) for trial in trials]
    subjects = [subject(journal, workspace.store, workspace.data) for journal in journals]
    finding = chosen.run(*subjects, _options(chosen, name, options))
    folder = Path(workspace.folder) / "analyses" / "-".join(j.trial.id for j in journals)
    return "\n".join(
        [*_lines(finding), "", *(f"  {path}" for path in _write(finding, folder, name))]
    )


def list_analyses() -> str:
    """Every analysis with its paper and its options."""
    rows = []
    for name in analysis.names():
        found = analysis.get(name)
        options = ", ".join(info.name for info in fields.describe(found.options))
        about = (found.run.__doc__ or "").strip().split("\n")[0]
        source = " ".join(part for part in (found.paper, found.equation) if part)
        rows.append([name, about, source, options])
    titles = ["analysis", "what it shows", "source", "options"]
    return "\n".join(Grid(titles, rows, left=titles).lines(140, "-"))


def _options(chosen: Analysis, name: str, given: Mapping[str, str]) -> object:
    """Options come as text, and are what their field's type makes of them."""
    types = {info.name: info.type for info in fields.describe(chosen.options)}
    values = {key: _parsed(value, types.get(key, "")) for key, value in given.items()}
    return fields.build(chosen.options, values, f"analysis {name}")


def _parsed(text: str, kind: str) -> object:
    if "text" in kind:
        return text
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _lines(finding: Finding) -> list[str]:
    rows = [[_text(cell) for cell in row] for row in finding.rows]
    return [finding.title, "", *Grid(list(finding.columns), rows).lines(WIDTH, "-"), *finding.notes]


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _write(finding: Finding, folder: Path, name: str) -> list[Path]:
    """The table as CSV; the picture as PNG and SVG, if there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / f"{name}.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([finding.columns, *finding.rows])
    return [table, *_pictures(finding, folder / name)]


def _pictures(finding: Finding, path: Path) -> list[Path]:
    if finding.draw is None:
        return []
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    finding.draw(axes)
    axes.set_title(finding.title, fontsize="medium")
    written = [path.with_suffix(f".{kind}") for kind in ("png", "svg")]
    for file in written:
        figure.savefig(file, dpi=150)
    return written
