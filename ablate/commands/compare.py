"""Set studies next to papers, or ask what one change bought over all records."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ablate.commands import _mirror, _options
from ablate.errors import ConfigError
from ablate.store.workspace import Workspace

if TYPE_CHECKING:
    from ablate.compare.formats import Table

EXAMPLE = "ablate compare --except head"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate compare`."""
    parser.add_argument("names", nargs="*", help="studies and papers, for one table")
    parser.add_argument(
        "--except",
        dest="except_",
        metavar="SLOT",
        help="compare all pairs of trials that differ only in this: a slot or a field, or several "
        "separated by commas",
    )
    parser.add_argument(
        "--split",
        choices=("valid", "test"),
        help="compare only this split (default: both; with --except: valid)",
    )
    _options.add_results(parser)
    _options.add_format(parser)
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Return studies next to papers, or the effect of a change over all records."""
    names, form = list(options.names), _options.table_format(options)
    opened = _options.recorded(options)
    if options.results is not None and names:
        names = [*_studies_of(opened, names), *names]
    return compare(opened, names, options.except_, options.split, form)


def _studies_of(published: Workspace, names: Sequence[str]) -> list[str]:
    """The published studies of the papers named, unless studies are named too."""
    from ablate import papers
    from ablate.store import study_record

    if not set(names) <= set(papers.ids()):
        return []
    store = published.store
    records = (study_record.read(store, key) for key in study_record.names(store))
    return [record.key for record in records if record.paper in names]


def _verdicts(workspace: Workspace, key: str) -> Mapping[tuple[str, str, str], str]:
    """The verdicts on a study's published numbers; none if the store does not have its trials."""
    from ablate.compare.material import open_study
    from ablate.store import study_record

    if not study_record.exists(workspace.store, key):
        return {}
    material = open_study(workspace.store, key)
    return material.summary.verdicts if material.journals else {}


def _with_claims(
    workspace: Workspace, table: Table, names: Sequence[str], split: str | None
) -> Table:
    """The comparison with the differences that a paper's tables print beside ours."""
    from ablate.compare.table.claimed import claims_of_studies

    claimed = claims_of_studies(workspace.store, names, split)
    return replace(table, further=[*claimed, *table.further])


def compare(
    workspace: Workspace, names: Sequence[str], slots: str | None, split: str | None, form: str
) -> str:
    """Return the comparison in a format, brought up to date with the records."""
    from ablate.compare import formats
    from ablate.compare.across import matched, matched_table, side_by_side
    from ablate.compare.across import query as queries

    if (slots is None) == (not names):
        raise ConfigError(
            "compare: give either studies and papers, or --except with what may differ."
        )
    if slots is None:
        # Exact formats have the numbers alone, and no study needs to be opened.
        verdicts = None if formats.is_exact(form) else partial(_verdicts, workspace)
        table = _mirror.ask(
            workspace, lambda mirror: side_by_side.side_by_side(mirror, names, split, verdicts)
        )
        if verdicts is not None:
            table = _with_claims(workspace, table, names, split)
        return formats.writer(form).write(table)
    wanted = [name.strip() for name in slots.split(",") if name.strip()]
    if not wanted:
        raise ConfigError(
            "--except names no slot. Expected: a slot or a field, or several separated by commas."
        )
    result = _mirror.ask(
        workspace, lambda mirror: matched.exchange(mirror, wanted, split or "valid")
    )
    if form == "text":
        return matched_table.plain_text(result)
    # On stderr, since a format that programs read has no place for them.
    _mirror.warn([*matched_table.other_trials(result), *matched_table.other_values(result)])
    return queries.written(matched_table.table(result), form)
