"""Show a study's results table (works while it is running)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ablate.commands import _options
from ablate.compare import formats
from ablate.errors import ConfigError, TrialError
from ablate.store.workspace import Workspace

if TYPE_CHECKING:
    from ablate.compare.formats import Table
    from ablate.compare.judged import Judged

EXAMPLE = "ablate table doc_layer_mix --format markdown"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate table`."""
    parser.add_argument("study", help=_options.STUDY)
    parser.add_argument(
        "--format",
        choices=formats.names(),
        default="text",
        help="output format (default: text); others have a hash for `ablate table provenance`",
    )
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument(
        "--effects",
        action="store_true",
        help="with csv or json: one row for each effect of a factorial instead of each arm",
    )
    parts.add_argument("--seeds", action="store_true", help="show the value of every seed instead")
    parts.add_argument(
        "--cost",
        action="store_true",
        help="show the training tokens, operations and seconds of each arm instead",
    )
    parts.add_argument(
        "--columns", action="store_true", help="show every column, without a word below"
    )
    parts.add_argument(
        "--notes", action="store_true", help="show every column, and how the numbers were made"
    )
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Return a study's table in the chosen format."""
    parts = ("effects", "seeds", "cost", "columns", "notes")
    part = next((name for name in parts if getattr(options, name)), "")
    workspace, there = _options.workspace(options), _options.there(options)
    return show_table(workspace, options.study, options.format, part, there)


def show_table(workspace: Workspace, name: str, form: str, part: str = "", there: str = "") -> str:
    """Return the table of a study's results so far, or a part of it: effects, seeds or cost.
    `there`: options with which a command that a terminal shows finds the same store."""
    from ablate.compare.study_summary import open_begun, open_parts
    from ablate.compare.table import provenance

    if several := open_parts(workspace.store, name):
        return _over_parts(several, form, part)
    judged = open_begun(workspace.store, name)
    if part == "effects":
        _check_effects(judged, form)
    # A table on a terminal is not quoted, so nothing is saved to look its hash up by.
    key = ""
    if form != "text":
        key = provenance.save(workspace.store, judged)
    if formats.is_exact(form):
        table = _exact(judged, part, key, workspace)
    else:
        table = _for_people(judged, part, key, workspace, there if form == "text" else "")
    return formats.writer(form).write(table)


def _over_parts(several: Sequence[Judged], form: str, part: str) -> str:
    """The table over corpora or rungs, which has no parts of its own."""
    first = several[0].record
    if part not in ("", "notes"):
        each = "rung" if first.rungs else "corpus"
        raise ConfigError(
            f"--{part} is of a single {each}. Instead: ablate table {first.key} --{part}"
        )
    if not any(one.journals for one in several):
        raise TrialError(f"{first.name}@{first.one_of}: no trial has been run yet.")
    over = partial(_over_rungs, full=part == "notes") if first.rungs else _over_corpora
    return formats.writer(form).write(over(several, formats.is_exact(form)))


def _over_corpora(summaries: Sequence[Judged], exact: bool) -> Table:
    from ablate.compare.statistics.over_corpora import over_corpora
    from ablate.compare.table import corpora_table as tables

    write = tables.over_corpora_numbers if exact else tables.over_corpora_table
    return write(over_corpora(summaries))


def _over_rungs(summaries: Sequence[Judged], exact: bool, *, full: bool) -> Table:
    from ablate.compare.statistics.ladder import over_rungs
    from ablate.compare.table import ladder_table as tables

    found = over_rungs(summaries)
    return tables.over_rungs_numbers(found) if exact else tables.over_rungs_table(found, full=full)


def _exact(judged: Judged, part: str, key: str, workspace: Workspace) -> Table:
    """The rows for programs; those of arms have their cost, too."""
    from ablate.compare.table import numbers, seeds

    if part == "seeds":
        return seeds.numbers(judged, key)
    return (numbers.effects if part == "effects" else numbers.arms)(judged, key)


def _for_people(judged: Judged, part: str, key: str, workspace: Workspace, there: str) -> Table:
    from ablate.compare.table import costs, provenance, seeds
    from ablate.compare.table.full_table import full_table
    from ablate.compare.table.other_scales import tables_of_other_scales
    from ablate.compare.table.study_table import study_table

    if part == "seeds":
        return seeds.seed_table(judged)
    if part == "cost":
        return costs.cost_table(judged)
    reference = provenance.reference(key) if key else ""
    if part == "columns":
        return full_table(judged).rows_alone()
    if part == "notes":
        others = tables_of_other_scales(judged, workspace.store)
        return full_table(judged, other_scales=others, reference=reference)
    return study_table(judged, reference=reference, there=there)


def _check_effects(judged: Judged, form: str) -> None:
    """Refuse --effects for a format that shows them anyway, or a study without effects."""
    if not formats.is_exact(form):
        raise ConfigError(
            f"--effects goes with --format csv or json; {form} shows the effects below "
            "the table of arms."
        )
    if judged.effects is None:
        raise ConfigError(
            f"{judged.record.key} has no effects: its design is '{judged.record.design}'. "
            "Expected one of: factorial, fractional_factorial."
        )
