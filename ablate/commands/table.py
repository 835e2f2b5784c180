"""Show a study's results table (works while it is running)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ablate.commands import _options
from ablate.compare import formats
from ablate.errors import ConfigError
from ablate.store.workspace import Workspace

if TYPE_CHECKING:
    from ablate.compare.table.rows import Summary

EXAMPLE = "ablate table doc_layer_mix --format markdown"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate table`."""
    parser.add_argument("study", help=_options.STUDY)
    parser.add_argument(
        "--format",
        choices=formats.names(),
        default="text",
        help="output format (default: text); all others include a hash for `ablate provenance`",
    )
    parser.add_argument(
        "--effects",
        action="store_true",
        help="with csv or json: one row for each effect of a factorial instead of each arm",
    )
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Return a study's table in the chosen format."""
    return show_table(_options.workspace(options), options.study, options.format, options.effects)


def show_table(workspace: Workspace, name: str, form: str, effects: bool = False) -> str:
    """Return the table of a study's results so far."""
    from ablate.compare.material import open_begun
    from ablate.compare.table import numbers, provenance
    from ablate.compare.table.other_scales import tables_of_other_scales
    from ablate.compare.table.study_table import study_table

    material = open_begun(workspace.store, name)
    summary = material.summary
    if effects:
        _check_effects(summary, form)
    write = formats.writer(form).write
    # A table on a terminal is not quoted, so nothing is saved to look its hash up by.
    key = "" if form == "text" else provenance.save(workspace.store, summary, material.journals)
    if formats.is_exact(form):
        return write((numbers.effects if effects else numbers.arms)(summary, key))
    others = tables_of_other_scales(summary, workspace.store)
    reference = provenance.reference(key) if key else ""
    return write(study_table(summary, other_scales=others, reference=reference))


def _check_effects(summary: Summary, form: str) -> None:
    """Refuse --effects for a format that shows them anyway, or a study without effects."""
    if not formats.is_exact(form):
        raise ConfigError(
            f"--effects goes with --format csv or json; {form} shows the effects below "
            "the table of arms."
        )
    if summary.effects is None:
        raise ConfigError(
            f"{summary.record.key} has no effects: its design is '{summary.record.design}'. "
            "Expected one of: factorial, fractional_factorial."
        )
