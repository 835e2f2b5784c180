"""Query all records in SQL."""

from __future__ import annotations

import argparse

from ablate.commands import _options
from ablate.store.workspace import Workspace

EXAMPLE = "ablate query \"SELECT study, arm, ppl FROM arms WHERE corpus = 'ptb'\""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate query`."""
    parser.add_argument("sql", help="a SELECT over trials, epochs, arms, studies, published")
    _options.add_results(parser)
    _options.add_format(parser)
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Return the result of a query."""
    return query(
        _options.recorded(options, of_store=True), options.sql, _options.table_format(options)
    )


def query(workspace: Workspace, sql: str, form: str) -> str:
    """Return the result of a query in a format, brought up to date with the records."""
    from ablate.compare.across import asked

    return _options.answered(asked.query(workspace, sql), form)
