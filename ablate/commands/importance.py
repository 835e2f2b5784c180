"""Show which hyperparameters mattered in a search."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ablate.commands import _options
from ablate.compare.formats import table_of, text
from ablate.compare.text.plain import paragraph
from ablate.store import study_record

if TYPE_CHECKING:
    from ablate.tune.search.importance import Importance

EXAMPLE = "ablate plot importance my_study"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate plot importance`."""
    parser.add_argument("study", help=_options.STUDY)
    _options.add_locations(parser, "workspace", "store", "searches")


def run(options: argparse.Namespace) -> str:
    """Return how much each hyperparameter mattered, for each search of a study."""
    from ablate.tune.search.importance import importances

    workspace = _options.workspace(options)
    record = study_record.read(workspace.store, options.study)
    return plain_text(record.key, importances(record, workspace.searches))


def plain_text(key: str, importances: Sequence[Importance]) -> str:
    """Return a table for each search of a study, the most important hyperparameter first."""
    from ablate.tune.search.importance import READING

    lines = [f"{key}: which hyperparameters mattered", ""]
    for one in importances:
        search = f"{one.arm}, search {one.repeat + 1}"
        lines.append(f"{search}: {one.num_completed} completed trials, {one.num_other} others")
        lines += [f"  {one.note}."] if one.note else _grid(one)
        lines.append("")
    return "\n".join([*lines, *paragraph(READING, text.terminal_width(), "  ")])


def _grid(importance: Importance) -> list[str]:
    headings = ["hyperparameter", *importance.shares, "trials with it"]
    rows: list[list[str | int]] = [
        [name, *(importance.shown(of, name) for of in importance.shares), importance.num_with[name]]
        for name in importance.ranked
    ]
    if importance.floors:
        floors = [f"{importance.floors[of]:.3f}" for of in importance.shares]
        rows.append(["a random number, at most", *floors, ""])
    return text.lines(table_of(headings, rows))
