"""Delete a study, and the trials that no other study has."""

from __future__ import annotations

import argparse
import shlex

from ablate.commands import _options
from ablate.record.forget import Forgotten, foresee, forget
from ablate.redaction import redacted
from ablate.store.replication import counted
from ablate.store.workspace import Workspace, running_driver

EXAMPLE = "ablate forget my_study@small --yes"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate forget`."""
    parser.add_argument("study", help=_options.STUDY)
    parser.add_argument(
        "--yes", action="store_true", help="delete; without it, only say what would be deleted"
    )
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Say what is deleted, and delete it if told so."""
    workspace = _options.workspace(options)
    found = foresee(workspace, options.study)
    if not options.yes:
        return "\n".join([*_plan(found, workspace), "", f"Do it: {_again(options, found)}"])
    return "\n".join(_report(forget(workspace, found.record.key), workspace))


def _plan(found: Forgotten, workspace: Workspace) -> list[str]:
    key = found.record.key
    driver = running_driver(workspace, key)
    searches = [
        f"  {file} (its searches)" for file in [workspace.search_log(key)] if file and file.exists()
    ]
    return [
        *([f"{key} is being run by {driver}: stop it first.", ""] if driver else []),
        "Nothing has been deleted yet. This would delete for good:",
        f"  the record of {key}, in the store {workspace.store.uri}",
        f"  {counted(len(found.trials), 'trial')}, with checkpoints and weights{_left(found)}",
        f"  {workspace.study_folder(key)} (tables and plots)",
        *searches,
        "and mark as deleted in MLflow (`mlflow gc` purges them):",
        "  the run of the study, and those of these trials",
    ]


def _report(found: Forgotten, workspace: Workspace) -> list[str]:
    key = found.record.key
    lines = [f"{key}: deleted, with {counted(len(found.trials), 'trial')}{_left(found)}"]
    if found.running:
        lines.append(
            f"{counted(len(found.running), 'trial')} stay: another process runs them now: "
            f"{', '.join(found.running)}"
        )
    if found.unmarked:
        lines.append(f"its runs in MLflow are left as they are: {found.unmarked}")
    else:
        lines.append(f"{counted(found.num_runs, 'run')} marked as deleted in MLflow")
    if workspace.search_log(key) is None and found.record.searches:
        lines.append("its searches are in a database, and stay there")
    return lines


def _left(found: Forgotten) -> str:
    return f" ({found.shared} more stay: other studies have them)" if found.shared else ""


def _again(options: argparse.Namespace, found: Forgotten) -> str:
    words = ["ablate", "forget", found.record.key, "--yes"]
    for name in ("workspace", "store", "mlflow", "searches"):
        if value := getattr(options, name):
            words += [f"--{name}", redacted(value)]
    return shlex.join(words)
