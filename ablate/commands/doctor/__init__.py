"""Check versions, devices, disk, workspace and servers."""

from __future__ import annotations

import argparse
import os

from ablate.commands import _options

EXAMPLE = "ablate doctor"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate doctor`."""
    parser.add_argument(
        "--cluster",
        nargs="?",
        const="",
        metavar="ADDRESS|NAME",
        help="also check every host of a Ray cluster (default: $RAY_ADDRESS, else the local one)",
    )
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> int:
    """Print the checks; return the exit status of the gravest one."""
    from ablate.commands.doctor import examine

    if options.cluster == "":
        # "auto" is Ray's name for the cluster of this host.
        options.cluster = os.environ.get("RAY_ADDRESS") or "auto"
    else:
        _options.settle_cluster(options)
    return examine.examine(_options.workspace(options), options.cluster)
