"""Write everything about a study on one HTML page."""

from __future__ import annotations

import argparse

from ablate.commands import _options
from ablate.engine.reading import write_report
from ablate.store import study_record
from ablate.store.workspace import Workspace

EXAMPLE = "ablate report doc_layer_mix"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate report`."""
    parser.add_argument("study", help=_options.STUDY)
    parser.add_argument(
        "--static", action="store_true", help="still pictures (SVG) and no script: a smaller file"
    )
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Write a study's page, and return where it is."""
    return report(_options.workspace(options), options.study, still=options.static)


def report(workspace: Workspace, study: str, *, still: bool = False) -> str:
    """Write the page, or one for each corpus or rung of a scale; return each path with its size."""
    several = study_record.parts_of(workspace.store, study)
    names = [record.key for record in several] or [study]
    return "\n".join(_report(workspace, name, still) for name in names)


def _report(workspace: Workspace, study: str, still: bool) -> str:
    file = write_report(workspace, study, static=still)
    num = file.stat().st_size
    size = f"{num / 1e6:.1f} MB" if num >= 1e6 else f"{num / 1e3:.0f} kB"
    script = "" if still else ", with the script that draws its pictures; --static: without"
    return f"{file}\n(one file of {size}{script}; open it in any browser)"
