"""Look into finished trials: a table, and a plot.

An analysis is shown as a table and written as CSV, PNG and SVG into a folder of the workspace.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ablate.commands import _options
from ablate.compare.formats import text
from ablate.config import fields
from ablate.errors import ConfigError
from ablate.lm import analysis
from ablate.lm.analysis import Analysis, writing
from ablate.lm.analysis.subject import Subject
from ablate.lm.analysis.writing import range_text
from ablate.store.journal import find
from ablate.store.workspace import Workspace
from ablate.trial.provenance import trust

EXAMPLE = "ablate trial analyze next_words 3f2a9c 81bb02 --set num=5"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate trial analyze`."""
    parser.add_argument("analysis", nargs="?", help="name of the analysis (default: list them)")
    parser.add_argument(
        "trials", nargs="*", help=f"{_options.TRIALS}; without any, the analysis's options"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="set an option of the analysis",
    )
    _options.add_trust(parser)
    _options.add_locations(parser, "workspace", "store")


def run(options: argparse.Namespace) -> str:
    """Return the list of analyses, one analysis' page, or its findings on trials."""
    if options.analysis is None:
        return list_analyses()
    if not options.trials:
        return describe(options.analysis)
    workspace = _options.workspace(options)
    trusted = options.trust
    return analyze(options.analysis, options.trials, options.set, workspace, trusted=trusted)


WORDS = {"true": True, "false": False, "none": None}


def analyze(
    name: str,
    trials: Sequence[str],
    options: Sequence[str],
    workspace: Workspace,
    *,
    trusted: bool = False,
) -> str:
    """Run an analysis on the trials with these ids, and return the text to print.

    `trusted`: the user trusts the files of code that the trials' records name.
    """
    chosen = analysis.get(name)
    settings = _parse_options(chosen, name, options)
    writing.check_number(name, chosen, len(trials))
    journals = [find(workspace.store, trial) for trial in trials]
    if trusted:
        trust.remember(file for journal in journals for file in journal.trial.modules)
    subjects = [Subject(journal, workspace.store, workspace.data) for journal in journals]
    finding = chosen.run(*subjects, options=settings)
    folder = workspace.folder / "analyses" / "-".join(subject.id for subject in subjects)
    files = [f"  {file}" for file in writing.write(finding, folder, name)]
    return "\n".join([writing.shown(finding), "", *files])


def list_analyses() -> str:
    """Return a table of the analyses and their sources."""
    rows = []
    for name in analysis.names():
        listed = analysis.get(name)
        rows.append([name, range_text(*listed.num_subjects), _summary(listed), _source(listed)])
    titles = ["analysis", "trials", "what it shows", "source"]
    lines = text.aligned(titles, rows)
    return "\n".join(lines) + "\n\n`ablate trial analyze NAME` shows its formula and options."


def describe(name: str) -> str:
    """Return an analysis's page, taken from its code: formula, source, options and limits."""
    shown = analysis.get(name)
    module = sys.modules[shown.run.__module__]
    heading = f"analysis '{name}': {_summary(shown)}"
    about = [f"  trials   {range_text(*shown.num_subjects)}"]
    about += [f"  source   {_source(shown)}"] if shown.paper else []
    rows = [
        [info.name, info.allowed, _default(info), info.limits.doc]
        for info in fields.describe(shown.options)
    ]
    titles = ["option", "allowed", "default", "meaning"]
    table = ["", *text.aligned(titles, rows)] if rows else []
    return "\n".join([heading, *about, *table, "", (module.__doc__ or "").strip()])


def _summary(chosen: Analysis) -> str:
    return (chosen.run.__doc__ or "").strip().split("\n")[0]


def _source(chosen: Analysis) -> str:
    return " ".join(part for part in (chosen.paper, chosen.equation) if part)


def _default(info: fields.FieldInfo) -> str:
    default = fields.plain(info.default)
    if isinstance(default, list):
        return ",".join(map(str, default)) or "none"
    return "none" if default in (None, "") else str(default)


def _parse_options(chosen: Analysis, name: str, texts: Sequence[str]) -> object:
    """Convert each OPTION=VALUE from text to the type of its field."""
    types = {info.name: info.type for info in fields.describe(chosen.options)}
    values = {}
    for option in texts:
        key, equals, value = option.partition("=")
        if not equals:
            raise ConfigError(f"--set {option} has no value. Expected: --set OPTION=VALUE.")
        values[key] = _parsed(value, types.get(key, ""))
    return fields.build(chosen.options, values, f"analysis {name}")


def _parsed(text: str, kind: str) -> object:
    if kind.startswith("list of "):
        return [_parsed(part, kind.removeprefix("list of ")) for part in text.split(",") if part]
    if kind.startswith("text"):
        return text
    for convert in (int, float):  # in this order: a float would make 5.0 of 5
        try:
            return convert(text)
        except ValueError:
            continue
    return WORDS.get(text, text)
