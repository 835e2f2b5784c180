"""`ablate analyze`: an analysis as a table on screen, and as CSV, PNG and SVG in a folder."""

from __future__ import annotations

import csv
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from ablate import analysis, fields
from ablate.analysis import Analysis, Cell, Finding
from ablate.analysis.subject import Subject
from ablate.errors import ConfigError
from ablate.journal import LISTED
from ablate.layout import Grid, paragraph
from ablate.single import find
from ablate.workspace import Workspace

WIDTH = 100
WORDS = {"true": True, "false": False, "none": None}


def analyze(name: str, trials: Sequence[str], options: Sequence[str], workspace: Workspace) -> str:
    """Run an analysis on trials given by their ids; the text to print."""
    chosen = analysis.get(name)
    given = _options(chosen, name, options)
    _check_number(name, chosen, len(trials))
    journals = [find(workspace.store, trial) for trial in trials]
    subjects = [Subject(journal, workspace.store, workspace.data) for journal in journals]
    finding = chosen.run(*subjects, options=given)
    folder = workspace.folder / "analyses" / "-".join(subject.id for subject in subjects)
    lines = _lines(finding)
    return "\n".join([*lines, "", *_write(finding, lines, folder, name)])


def list_analyses() -> str:
    """Every analysis with its source."""
    rows = []
    for name in analysis.names():
        found = analysis.get(name)
        rows.append([name, _range(*found.num_subjects), _summary(found), _source(found)])
    titles = ["analysis", "trials", "what it shows", "source"]
    text = "\n".join(Grid(titles, rows, left=titles).lines(WIDTH + 60, "-"))
    return f"{text}\n\n`ablate analyze NAME` shows its formula and its options."


def describe(name: str) -> str:
    """An analysis's page, from the code itself: formula, source, options with their limits."""
    found = analysis.get(name)
    module = sys.modules[found.run.__module__]
    heading = f"analysis '{name}': {_summary(found)}"
    about = [f"  trials   {_range(*found.num_subjects)}"]
    about += [f"  source   {_source(found)}"] if found.paper else []
    rows = [
        [info.name, info.allowed, _default(info), info.limits.doc]
        for info in fields.describe(found.options)
    ]
    titles = ["option", "allowed", "default", "meaning"]
    table = ["", *Grid(titles, rows, left=titles).lines(WIDTH + 60, "-")] if rows else []
    return "\n".join([heading, *about, *table, "", (module.__doc__ or "").strip()])


def _summary(found: Analysis) -> str:
    return (found.run.__doc__ or "").strip().split("\n")[0]


def _source(found: Analysis) -> str:
    return " ".join(part for part in (found.paper, found.equation) if part)


def _default(info: fields.FieldInfo) -> str:
    default = fields.plain(info.default)
    if isinstance(default, list):
        return ",".join(map(str, default)) or "none"
    return "none" if default in (None, "") else str(default)


def _check_number(name: str, chosen: Analysis, num: int) -> None:
    low, high = chosen.num_subjects
    if not low <= num <= high:
        raise ConfigError(
            f"the analysis '{name}' takes {_range(low, high)} trial{'s' * (high > 1)}, and was "
            f"given {num}. "
            f"{LISTED} `ablate analyze {name}` shows its options."
        )


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _options(chosen: Analysis, name: str, given: Sequence[str]) -> object:
    """Options come as text, and are what their field's type makes of them."""
    types = {info.name: info.type for info in fields.describe(chosen.options)}
    values = {}
    for option in given:
        key, equals, value = option.partition("=")
        if not equals:
            raise ConfigError(f"--set {option} has no value. Allowed: --set OPTION=VALUE.")
        values[key] = _parsed(value, types.get(key, ""))
    return fields.build(chosen.options, values, f"analysis {name}")


def _parsed(text: str, kind: str) -> object:
    if kind.startswith("list of "):
        return [_parsed(part, kind.removeprefix("list of ")) for part in text.split(",") if part]
    if kind.startswith("text"):
        return text
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return WORDS.get(text, text)


def _lines(finding: Finding) -> list[str]:
    rows = [[_text(cell) for cell in row] for row in finding.rows]
    columns = list(finding.columns)
    left = [
        name
        for place, name in enumerate(columns)
        if any(isinstance(row[place], str) for row in finding.rows)
    ]
    notes = [line for note in finding.notes for line in paragraph(note, WIDTH, "  ")]
    between = [""] if notes else []
    return [finding.title, "", *Grid(columns, rows, left=left).lines(WIDTH, "-"), *between, *notes]


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.4g}" if abs(cell) < 1e4 or math.isinf(cell) else f"{cell:,.0f}"


def _write(finding: Finding, lines: Sequence[str], folder: Path, name: str) -> list[str]:
    """What is shown, the table as CSV, a picture as PNG and SVG. Gives lines that say where."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = folder / f"{name}.txt"
    shown.write_text("\n".join([*lines, ""]), encoding="utf-8")
    table = folder / f"{name}.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([finding.columns, *finding.rows])
    try:
        pictures = _pictures(finding, folder / name)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        return [
            f"  {shown}",
            f"  {table}",
            "  (no picture without matplotlib: pip install 'ablate[study]')",
        ]
    return [f"  {path}" for path in (shown, table, *pictures)]


def _pictures(finding: Finding, path: Path) -> list[Path]:
    """The same bytes for the same finding: no date in it, and no random names."""
    if finding.draw is None:
        return []
    import matplotlib
    from matplotlib.figure import Figure

    from ablate.analysis.drawing import label

    written = [path.with_suffix(f".{kind}") for kind in ("png", "svg")]
    with matplotlib.rc_context({"svg.hashsalt": path.name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a word in other letters
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        finding.draw(axes)
        axes.set_title(label(finding.title), fontsize="medium", wrap=True)
        for file, nothing in zip(written, ({"Software": None}, {"Date": None}), strict=True):
            figure.savefig(file, dpi=150, metadata=nothing)
    return written
