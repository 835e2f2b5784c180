"""Copy studies without their weights into a folder that can be committed and compared."""

from __future__ import annotations

import argparse
from pathlib import Path

from ablate.commands import _options

EXAMPLE = "ablate report publish doc_layer_mix --to results"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate report publish`."""
    parser.add_argument("studies", nargs="+", metavar="study", help=_options.STUDY)
    parser.add_argument(
        "--to", metavar="DIR", default="results", help="the folder to write (default: results)"
    )
    _options.add_locations(parser, "workspace", "store")


def run(options: argparse.Namespace) -> str:
    """Copy studies into a folder; return where they are and how to compare them."""
    from ablate.compare.publishing import README, publish
    from ablate.store.workspace import as_folder

    as_folder(options.to, "--to")  # refuses a URI, which may have a password in it
    folder = Path(options.to)
    records = publish(_options.workspace(options).store, options.studies, folder)
    names = dict.fromkeys(record.paper or record.key for record in records)
    return "\n".join(
        [
            *(f"{record.key}: published in {folder}" for record in records),
            f"Its tables: {folder / README}. Next to the papers' numbers:",
            *(f"  ablate table compare {name} --results {folder}" for name in names),
        ]
    )
