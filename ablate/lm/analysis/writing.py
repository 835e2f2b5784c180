"""A finding as text and as files, for `ablate trial analyze` and for the analyses of a study."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from ablate.compare.formats import csv, table_of_values, text
from ablate.errors import ConfigError, needs
from ablate.lm.analysis import Analysis, Cell, Finding
from ablate.lm.analysis.drawing import save_pictures
from ablate.store.journal import LISTED

WIDTH = 100


def check_number(name: str, chosen: Analysis, num: int) -> None:
    """Check that an analysis takes this number of trials."""
    low, high = chosen.num_subjects
    if not low <= num <= high:
        raise ConfigError(
            f"the analysis '{name}' takes {range_text(low, high)} trial{'s' * (high > 1)}, not "
            f"{num}. {LISTED} `ablate trial analyze {name}` shows its options."
        )


def range_text(low: int, high: int) -> str:
    """Return `low to high`, or the one number."""
    return str(low) if low == high else f"{low} to {high}"


def text_rows(finding: Finding) -> list[list[str]]:
    """The rows of a finding as they are shown."""
    return [[cell_text(cell) for cell in row] for row in finding.rows]


def cell_text(cell: Cell) -> str:
    """Return a cell as text, with four digits."""
    if cell is None:
        return ""
    if not isinstance(cell, float):
        return str(cell)
    # `.4g` would write larger numbers with an exponent.
    return f"{cell:.4g}" if abs(cell) < 1e4 or math.isinf(cell) else f"{cell:,.0f}"


def shown(finding: Finding) -> str:
    """A finding's table, as it is printed."""
    table = table_of_values(finding.columns, finding.rows, title=finding.title, notes=finding.notes)
    return text.write(replace(table, rows=text_rows(finding)), WIDTH)


def write(finding: Finding, folder: Path, name: str) -> list[Path | str]:
    """Write a finding's table as text and CSV, and its plot as PNG and SVG; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    table = table_of_values(finding.columns, finding.rows, title=finding.title, notes=finding.notes)
    files: list[Path | str] = []
    for suffix, content in {"txt": shown(finding), "csv": csv.write(table)}.items():
        file = folder / f"{name}.{suffix}"
        # `newline=""`: CSV has line ends of its own.
        file.write_text(f"{content}\n", encoding="utf-8", newline="")
        files.append(file)
    try:
        return [*files, *save_pictures(finding, folder / name)]
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        # The table needs no picture, so this is no error.
        return [*files, f"({needs('a picture needs', 'matplotlib')})"]
