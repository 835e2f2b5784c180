"""Show which hyperparameters mattered in a search."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ablate.commands import _options
from ablate.compare.formats import table_of, text
from ablate.compare.text.figures import NONE
from ablate.compare.text.plain import paragraph
from ablate.store import study_record

if TYPE_CHECKING:
    from ablate.tune.search.importance import Importance

EXAMPLE = "ablate importance my_study"
READING = (
    "Each evaluator's shares sum to 1. PED-ANOVA: what sets the best trials apart. fANOVA: what "
    "explains the spread over all trials. Trials that were stopped early are not counted."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate importance`."""
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
    lines = [f"{key}: which hyperparameters mattered", ""]
    for one in importances:
        search = f"{one.arm}, search {one.repeat + 1}"
        lines.append(f"{search}: {one.num_completed} completed trials, {one.num_other} others")
        lines += [f"  {one.note}."] if one.note else _grid(one)
        lines.append("")
    return "\n".join([*lines, *paragraph(READING, text.terminal_width(), "  ")])


def _grid(importance: Importance) -> list[str]:
    def total(name: str) -> float:
        return sum(shares.get(name, 0.0) for shares in importance.shares.values())

    names = sorted(importance.num_with, key=lambda name: (-total(name), name))
    headings = ["hyperparameter", *importance.shares, "trials with it"]
    shown = importance.shares.values()
    rows = [
        [name, *(_share(shares.get(name)) for shares in shown), importance.num_with[name]]
        for name in names
    ]
    return text.lines(table_of(headings, rows))


def _share(share: float | None) -> str:
    return NONE if share is None else f"{share:.3f}"
