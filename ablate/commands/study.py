"""Run a study, or resume it where it stopped."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ablate.commands import _options
from ablate.commands.table import show_table
from ablate.compare.formats import text
from ablate.engine.failures import troubles
from ablate.errors import Interrupted, TrialError
from ablate.redaction import redacted
from ablate.store.study_record import study_key
from ablate.store.workspace import Workspace
from ablate.study.file import load
from ablate.study.overrides import overridden
from ablate.study.several import scales_of

if TYPE_CHECKING:
    from ablate.engine.drive import RunOptions
    from ablate.engine.run import Ended
    from ablate.study.study import Study

EXAMPLE = "ablate study studies/x.py"
UI_PORT = 5050  # of `ablate ui`


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate study`."""
    _options.add_study(parser)
    parser.add_argument("--local", action="store_true", help="run in this process, without Ray")
    parser.add_argument(
        "--workers",
        type=_options.count,
        metavar="N",
        help="trials to run at a time (default: as many as fit the cores)",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS|NAME",
        help="a Ray cluster, or its name in clusters.toml (default: $RAY_ADDRESS)",
    )
    parser.add_argument(
        "--replicate",
        nargs="?",
        type=_options.count,
        const=1,
        metavar="N",
        help="run it on seeds that it has not used, as a study of its own (N: for the Nth time)",
    )
    _options.add_earlier(parser)
    parser.add_argument(
        "--ui", action="store_true", help="open a page that shows the study while it runs"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show Ray's and Tune's own messages"
    )
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> int:
    """Run a study and print its table; return the exit status."""
    from ablate.engine.drive import RunOptions, workers_prepared
    from ablate.study.replicate import replicated
    from ablate.tune.choice import choice

    changes = _options.overrides(options)
    command = resume_command(options)  # before the cluster's name becomes an address
    _options.settle_cluster(options)
    chosen = RunOptions(
        local=options.local,
        workers=options.workers,
        address=options.cluster,
        verbose=options.verbose,
        earlier=choice(keep=options.keep, again=options.again),
    )
    workspace = _options.workspace(options)
    with _interruptible(command), workers_prepared(chosen) as chosen:
        study, scale = overridden(load(options.file), options.scale, changes)
        several = scales_of(scale, study.scale(scale)[1])
        runs = [(study, one) for one in several]
        if options.replicate is not None:
            runs = [replicated(*one, options.replicate, workspace.store) for one in runs]
        first, of = runs[0]
        page = _page(workspace, study_key(first.name, of)) if options.ui else None
        with page or contextlib.nullcontext():
            there = _options.there(options)
            if len(several) > 1:
                return _run_on_each(runs, workspace, chosen, command, there)
            return run_and_show(*runs[0], workspace, chosen, command, there)


def _run_on_each(
    runs: Sequence[tuple[Study, str]],
    workspace: Workspace,
    options: RunOptions,
    command: str,
    there: str = "",
) -> int:
    """Run the study on one corpus or rung after another, then print the table over them.

    A failure on one is raised when the others have been run.
    """
    failed = []
    for study, scale in runs:
        try:
            run_and_show(study, scale, workspace, options, command, there)
        except TrialError as error:
            failed.append(str(error))
        print(flush=True)
    study, scale = runs[-1]
    key = study_key(study.name, study.scale(scale)[1].one_of)
    print(show_table(workspace, key, "text"), flush=True)
    if failed:
        raise TrialError("\n".join(failed))
    return 0


@contextlib.contextmanager
def _page(workspace: Workspace, key: str) -> Iterator[None]:
    """Serve the page of `ablate ui` from a child process while the study runs."""
    from ablate.commands.ui import PORT, TOKEN, has_window
    from ablate.live.ports import free_port
    from ablate.live.server import LOOPBACK, address
    from ablate.record import attended
    from ablate.store.workspace import make_folders

    make_folders(workspace)
    port, token = free_port(PORT), secrets.token_urlsafe(24)
    words = [sys.executable, "-m", "ablate", "ui", "--port", str(port), "--awaited", key]
    words += [] if has_window() else ["--no-browser"]
    # In the environment, since all users of a machine can read the arguments of a process.
    locations = {
        "ABLATE_WORKSPACE": str(workspace.folder),
        "ABLATE_STORE": workspace.store_uri,
        "MLFLOW_TRACKING_URI": workspace.mlflow_uri,
        "ABLATE_SEARCHES": workspace.searches_url,
        TOKEN: token,
    }
    known = {name: value for name, value in locations.items() if value is not None}
    with (workspace.folder / "ui.log").open("w") as log:
        environment = {**os.environ, **known}
        # What it prints is its address with the token; other users may be able to read the log.
        page = attended.start(words, env=environment, stdout=subprocess.DEVNULL, stderr=log)
    print(f"The page is at {address(LOOPBACK, port, key, token)} while the study runs", flush=True)
    try:
        yield
    finally:
        attended.stop(page)


def resume_command(options: argparse.Namespace) -> str:
    """Return the command that resumes a study, with secrets removed."""
    _options.workspace(options)  # its locations' secrets are known from here on
    words = ["ablate", "study", options.file]
    words += _options.stated(options, "scale", "workers", "cluster", *_options.LOCATIONS)
    words += _options.overrides(options).words
    words += [] if options.replicate is None else ["--replicate", str(options.replicate)]
    words += [f"--{name}" for name in ("local", "keep") if getattr(options, name)]
    return shlex.join(words)


def run_and_show(
    study: Study,
    scale: str,
    workspace: Workspace,
    options: RunOptions,
    command: str,
    there: str = "",
) -> int:
    """Run the study, then print its table; raise an error that lists its failures.

    `there`: options that the commands which it names need to find the same store.
    """
    from ablate.engine.run import run_study

    ended = run_study(study, scale, workspace, options, command)
    _print(ended, workspace, there)
    if ended.interrupted:
        raise _interrupted(ended.interrupted, command)
    if lost := troubles(ended.record, ended.summary.journals, there):
        raise TrialError(lost)
    return 0


def _print(ended: Ended, workspace: Workspace, there: str) -> None:
    """Print the table. A closed pipe is not a failure of the study."""
    from ablate.compare.table.study_table import study_table

    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    steps = _where_to_look(ended, workspace, there)
    unicode = encoding.lower().startswith("utf")
    try:
        print(text.write(study_table(ended.summary, there=there), unicode=unicode), end="\n\n")
        # Flushed, so that a closed pipe is noticed here.
        print("Where to look next", *steps, sep="\n  ", flush=True)
    except BrokenPipeError:
        # Else Python prints an error when it flushes the closed pipe at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupted(why: str, command: str) -> Interrupted:
    return Interrupted(f"{why}. Everything that was saved is kept; resume with: {command}")


@contextlib.contextmanager
def _interruptible(command: str) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM while no trial runs: before the first, or after the last."""
    # SIGTERM then raises KeyboardInterrupt, too: both end with the command that resumes.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise _interrupted("stopped", command) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def page_by_arm(page: str, tracking_uri: str, there: str) -> str:
    """Where to see the trials grouped by arm: on the server, or on the one that `ablate ui` starts
    for a database."""
    if tracking_uri.startswith(("http://", "https://")):
        return f"{redacted(tracking_uri).rstrip('/')}/{page}"
    served = f"http://127.0.0.1:{UI_PORT}/{page}"
    return f"{served} (trials by arm, while `ablate ui --mlflow{there}` runs)"


def _where_to_look(ended: Ended, workspace: Workspace, there: str) -> list[str]:
    steps = [
        f"table:    {workspace.study_folder(ended.record.key) / 'table.md'}",
        f"curves:   ablate ui{there}",
        f"details:  ablate status {ended.record.key}{there}",
    ]
    if ended.page:
        steps.append(f"MLflow:   {page_by_arm(ended.page, workspace.tracking_uri, there)}")
    if ended.closed:
        steps.append(ended.closed)
    if ended.unrecorded:
        steps.append(f"not recorded yet: {ended.unrecorded}; later: ablate report sync{there}")
    return steps
