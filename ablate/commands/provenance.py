"""Show what is behind an exported table."""

from __future__ import annotations

import argparse

from ablate.commands import _options

EXAMPLE = "ablate table provenance 3f2a9c81d5e60b74"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate table provenance`."""
    parser.add_argument("hash", help="table hash from the footnote (a unique prefix is enough)")
    _options.add_locations(parser, "workspace", "store")


def run(options: argparse.Namespace) -> str:
    """Return the trials, code and machines behind an exported table."""
    from ablate.compare.table import provenance

    return provenance.show(_options.workspace(options).store, options.hash)
