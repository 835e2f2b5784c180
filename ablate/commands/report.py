"""Write everything about a study on one HTML page."""

from __future__ import annotations

import argparse

from ablate.commands import _options
from ablate.compare.material import open_begun
from ablate.compare.page import FILE, page
from ablate.compare.plots.static import save
from ablate.store.workspace import Workspace

EXAMPLE = "ablate report doc_layer_mix"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate report`."""
    parser.add_argument("study", help=_options.STUDY)
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Write a study's page, and return where it is."""
    return report(_options.workspace(options), options.study)


def report(workspace: Workspace, study: str) -> str:
    """Write the page, and return its path."""
    material = open_begun(workspace.store, study)
    file = workspace.study_folder(material.record.key) / FILE
    save(file, page(material, workspace.store).encode())
    return f"{file}\n(one file; open it in any browser)"
