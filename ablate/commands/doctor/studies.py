"""Checks of `ablate doctor` of corpora, stopped studies, and leftovers of killed runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ablate.commands.doctor.finding import FAIL, OK, WARN, Finding
from ablate.errors import AblateError
from ablate.store import glance, study_record
from ablate.store.files import PARTIAL
from ablate.store.store import Store
from ablate.store.workspace import Workspace, running_driver


def corpora(workspace: Workspace) -> Iterator[Finding]:
    """List the corpora, and find those that differ from the published texts."""
    from ablate.data import sources

    good = []
    for corpus in sources.listing(workspace.data):
        if corpus.state == "damaged":
            again = f"`ablate data get {corpus.name}` fetches it again."
            yield Finding(FAIL, f"{corpus.name} is not the published text", again, 3)
        else:
            good.append(f"{corpus.name} {corpus.state}")
    yield Finding(OK, ", ".join(good))


def studies(workspace: Workspace) -> Iterator[Finding]:
    """Find every unfinished study, with the command that resumes it."""
    store, num_finished = workspace.store, 0
    for key in study_record.names(store):
        try:
            finding = _study(workspace, store, key)
        except AblateError as error:
            finding = Finding(FAIL, f"{key}: {error}", exit_code=error.exit_code)
        if finding is None:
            num_finished += 1
        else:
            yield finding
    yield Finding(OK, f"{num_finished} finished")


def _study(workspace: Workspace, store: Store, key: str) -> Finding | None:
    record = study_record.read(store, key)
    driver = running_driver(workspace, key)
    if driver is not None:
        return Finding(OK, f"{key} is being run by {driver}")
    ids = record.trial_ids()
    known = glance.read_all(store, ids)
    left = [trial_id for trial_id in ids if trial_id not in known or not known[trial_id].status]
    num_left = len(left) + record.to_come.total()
    if not num_left:
        return None
    stopped = f"{key} stopped with {num_left} of {record.num_trials()} trials left"
    return Finding(WARN, stopped, f"Resume with: {record.resume}")


def leftovers(workspace: Workspace) -> Iterator[Finding]:
    """Find what killed processes left behind, unless a study is running."""
    store = workspace.store
    if any(running_driver(workspace, key) for key in study_record.names(store)):
        yield Finding(OK, "not checked while a study runs")
        return
    paths = list((workspace.folder / "ray").glob("tune-*"))
    paths += workspace.folder.glob(f"*{PARTIAL}")
    if store.folder is not None:
        paths += store.folder.glob(f"trials/*/*{PARTIAL}")
    if paths:
        remedy = f"They may be deleted: rm -r {_shortened(paths)}"
        yield Finding(WARN, f"{len(paths)} unfinished files of killed runs", remedy)
    else:
        yield Finding(OK, "none")


def _shortened(paths: list[Path]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return " ".join(map(str, paths[:3])) + more
