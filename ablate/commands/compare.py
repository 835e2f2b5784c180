"""Set studies next to papers, or ask what one change bought over all records."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ablate.commands import _options
from ablate.errors import ConfigError
from ablate.store.workspace import Workspace

EXAMPLE = "ablate table compare --except head"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate table compare`."""
    from ablate import papers

    known = ", ".join(papers.ids())
    parser.add_argument("names", nargs="*", help=f"studies, and papers among {known}")
    parser.add_argument(
        "--except",
        dest="except_",
        metavar="SLOT",
        help="compare all pairs of trials that differ only in this: a slot or a field, or several "
        "separated by commas",
    )
    parser.add_argument(
        "--with-searches",
        action="store_true",
        help="with --except: also pair trials of searches, whose settings were not chosen yet",
    )
    parser.add_argument(
        "--split",
        choices=("valid", "test"),
        help="compare this split (default: the one that decides; with --except: valid)",
    )
    _options.add_results(parser)
    _options.add_format(parser)
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Return studies next to papers, or the effect of a change over all records."""
    form = _options.table_format(options)
    opened = _options.recorded(options, of_store=True)
    names, slots = options.names, options.except_
    return compare(opened, names, slots, options.split, form, options.with_searches)


def compare(
    workspace: Workspace,
    names: Sequence[str],
    slots: str | None,
    split: str | None,
    form: str,
    searches: bool = False,
) -> str:
    """Return the comparison in a format, brought up to date with the records."""
    from ablate.compare.across import asked

    if (slots is None) == (not names):
        raise ConfigError(
            "compare: give either studies and papers, or --except with what may differ."
        )
    if slots is None:
        if searches:
            raise ConfigError(
                "--with-searches pairs trials of searches. Instead: use it with --except SLOT."
            )
        return _options.answered(asked.side_by_side(workspace, names, split), form)
    wanted = [name.strip() for name in slots.split(",") if name.strip()]
    if not wanted:
        raise ConfigError(
            "--except names no slot. Expected: a slot or a field, or several separated by commas."
        )
    return _options.answered(asked.exchange(workspace, wanted, split or "valid", searches), form)
