"""Options that several commands share: locations, formats, counts."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ablate.compare import formats
from ablate.config.fields import LARGEST
from ablate.redaction import redacted

if TYPE_CHECKING:
    from ablate.compare.shown import Answer
    from ablate.store.workspace import Workspace
    from ablate.study.overrides import Overrides

LOCATIONS = {
    "workspace": ("DIR", "folder for all data (default: .ablate)"),
    "store": ("URI", "store trials and studies here instead of in the workspace"),
    "mlflow": ("URI", "MLflow tracking server (default: a database in the workspace)"),
    "searches": ("URL", "database for searches (default: files in the workspace)"),
}
MOST = 65_535  # workers; also the largest port
MOST_THREADS = 1024  # as a scale's `threads`
STUDY = "a study's name, name@scale, or its file"
TRIALS = "ids of finished trials (a unique prefix is enough)"


def add_earlier(parser: argparse.ArgumentParser) -> None:
    """Add the ways to treat trials of earlier code."""
    earlier = parser.add_mutually_exclusive_group()
    earlier.add_argument(
        "--keep",
        action="store_true",
        help="show trials that other code, defaults or data made than today's; the table says so",
    )
    earlier.add_argument(
        "--again", action="store_true", help="delete the results of such trials, and run them again"
    )


def add_locations(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add the location options with these names, or all of them."""
    group = parser.add_argument_group("locations")
    for name in names or LOCATIONS:
        metavar, explained = LOCATIONS[name]
        group.add_argument(f"--{name}", metavar=metavar, help=explained)


def add_code(parser: argparse.ArgumentParser, explained: str) -> None:
    """Add --code for files that register what the config or the space names."""
    parser.add_argument(
        "--code", action="append", default=[], metavar="FILE", help=f"{explained}; may be repeated"
    )


def executed_code(options: argparse.Namespace) -> tuple[str, ...]:
    """Execute the files of --code, and return their paths."""
    from ablate.trial.run import load_own

    # Absolute, since the trial's record names them.
    files = tuple(str(Path(file).resolve()) for file in options.code)
    load_own(files)
    return files


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add `--trust`, for commands that execute code which records name."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run files of code that the records name, and trust what they contain from now on",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add --format for a query's result; plain text is called `table` here."""
    parser.add_argument(
        "--format",
        choices=["table", *(name for name in formats.names() if name != "text")],
        default="table",
        help="output format (default: table)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add --format for output other than tables: text, or JSON with a documented schema."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="output format (default: text)"
    )


def table_format(options: argparse.Namespace) -> str:
    """Return the chosen format under the name of its writer."""
    return "text" if options.format == "table" else options.format


def count(text: str) -> int:
    """Read a number of workers, threads or the like from the command line."""
    number = int(text)
    if not 1 <= number <= MOST:
        # Cut, since a number may have thousands of digits.
        raise argparse.ArgumentTypeError(f"{text[:40]} is not from 1 to {MOST}")
    return number


def threads(text: str) -> int:
    """Read a number of threads from the command line."""
    number = count(text)
    if number > MOST_THREADS:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 to {MOST_THREADS}")
    return number


def seed(text: str) -> int:
    """Read a seed from the command line; a record holds 64 bits."""
    number = int(text)
    if abs(number) > LARGEST:
        raise argparse.ArgumentTypeError(f"{text[:40]}... is larger than 2**63 - 1")
    return number


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add --results: records of published results instead of the workspace's."""
    parser.add_argument(
        "--results",
        metavar="DIR",
        help="read results that `ablate report publish` wrote, instead of the workspace's records",
    )


def add_study(parser: argparse.ArgumentParser) -> None:
    """Add a study's file and scale, and what is changed of the study for this call."""
    parser.add_argument("file", help="the study file, or a shipped study's name")
    parser.add_argument("--scale", help="one of the study's scales (default: the first)")
    group = parser.add_argument_group("changes to the study, which is then one of its own")
    group.add_argument("--seeds", type=count, metavar="N", help="seeds per arm")
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="a value for every arm, such as training.epochs=2; may be repeated",
    )
    group.add_argument(
        "--arms",
        action="append",
        default=[],
        metavar="PATTERN",
        help='run only these arms and the base arm, such as "MoS*"; may be repeated',
    )


def overrides(options: argparse.Namespace) -> Overrides:
    """Read the changes of `add_study`."""
    from ablate.study.overrides import Overrides, read_values

    return Overrides(seeds=options.seeds, values=read_values(options.set), arms=tuple(options.arms))


def workspace(options: argparse.Namespace) -> Workspace:
    """Open the workspace that the options name; a location that they lack has its default."""
    from ablate.store.workspace import open_workspace

    folder, *names = LOCATIONS
    others = {name: getattr(options, name, None) for name in names}
    return open_workspace(getattr(options, folder, None), **others)


def stated(options: argparse.Namespace, *names: str) -> list[str]:
    """The words of those options that were given, for a command that repeats them, without secrets:
    the workspace has been opened, so that its locations' secrets are known."""
    given = ((name, getattr(options, name)) for name in names)
    pairs = ([f"--{name}", redacted(str(value))] for name, value in given if value is not None)
    return [word for pair in pairs for word in pair]


def there(options: argparse.Namespace) -> str:
    """The locations that were given, as the end of a command that is to find the same ones."""
    return "".join(f" {shlex.quote(word)}" for word in stated(options, *LOCATIONS))


def recorded(options: argparse.Namespace, *, of_store: bool = False) -> Workspace:
    """Open the workspace, with its records, those of --results, or (`of_store`) those of --store if
    no server is named."""
    from ablate.compare.across.asked import asked_of

    alone = options.store if of_store and options.mlflow is None else None
    return asked_of(workspace(options), options.results, alone)


def answered(answer: Answer, form: str) -> str:
    """Return an answer in a format; what the format has no place for goes to standard error."""

    for note in (*answer.notes, *(answer.besides if formats.is_exact(form) else ())):
        print(f"ablate: {note}", file=sys.stderr)
    return answer.written(form)


def show_progress(text: str, over: bool) -> None:
    """Show progress on a terminal, on one line. `over`: this is the last text of it."""
    if sys.stderr.isatty():
        print(f"\r{text}", end="\n" if over else "", file=sys.stderr, flush=True)


def settle_cluster(options: argparse.Namespace) -> None:
    """Replace a cluster's name with its address, and fill in the locations set for it."""
    if options.cluster is None:
        return
    from ablate.commands import _clusters
    from ablate.store.workspace import open_workspace

    known = _clusters.named(options.cluster, open_workspace(options.workspace).folder)
    options.cluster = known.pop("address")
    for name, value in known.items():
        # What the command names wins; a command without the option needs no value.
        if getattr(options, name, value) is None:
            setattr(options, name, value)
