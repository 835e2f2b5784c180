"""Forgetting a study: what only it has is deleted, and its runs in MLflow are marked as deleted.

Trials that another study on record has, or whose weights such a trial builds on, stay with their
runs. MLflow restores a run that is marked as deleted until `mlflow gc` purges it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ablate.errors import AblateError
from ablate.record.server import Server
from ablate.record.tracking import TRIAL
from ablate.results.facts import STUDY_RUN
from ablate.store import study_record
from ablate.store.claims import Claims
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord
from ablate.store.workspace import Workspace, held, log_held


@dataclass(frozen=True)
class Forgotten:
    """The trials and runs that forgetting a study deletes, and those that stay."""

    record: StudyRecord
    trials: tuple[str, ...]  # in the store, and of no other study
    shared: int  # trials that stay, since other studies have them
    running: tuple[str, ...] = ()  # trials that stay, since another process runs them now
    num_runs: int = 0  # that were marked as deleted in MLflow
    unmarked: str = ""  # why no run was


def foresee(workspace: Workspace, name: str) -> Forgotten:
    """Return what would be deleted; nothing is, yet."""
    store = workspace.store
    record = study_record.read(store, name)
    others = set(_of_others(store, record.key))
    own = [trial_id for trial_id in record.trial_ids() if trial_id not in others]
    there = tuple(one for one in own if store.exists(f"trials/{one}/journal.json"))
    return Forgotten(record, there, len(record.trial_ids()) - len(own))


def forget(workspace: Workspace, key: str) -> Forgotten:
    """Delete the study; an error if a driver runs it now."""
    with ExitStack() as stack:
        stack.enter_context(held(workspace, key))
        stack.enter_context(log_held(workspace, key))
        found = foresee(workspace, key)
        deleted = _delete_trials(workspace.store, found.trials)
        workspace.store.delete(f"studies/{key}")
        shutil.rmtree(workspace.study_folder(key), ignore_errors=True)
        if log := workspace.search_log(key):
            for file in (log, log.with_name(f"{key}.driver.json")):
                file.unlink(missing_ok=True)
    running = tuple(one for one in found.trials if one not in deleted)
    found = replace(found, trials=deleted, running=running)
    try:
        return replace(found, num_runs=_mark_deleted(workspace, key, deleted))
    except AblateError as error:  # the study is gone all the same; the runs are easy to delete
        return replace(found, unmarked=str(error))


def _of_others(store: Store, key: str) -> Iterator[str]:
    """The trials of all other studies, and those that they build on."""
    for name in study_record.names(store):
        if name != key:
            record = study_record.read(store, name)
            yield from record.trial_ids()
            yield from (parent for trial in record.trials for parent in trial.parents)


def _delete_trials(store: Store, trials: tuple[str, ...]) -> tuple[str, ...]:
    """Delete the trials that no other process runs; return their ids."""
    claims, deleted = Claims(store), []
    for trial_id in trials:
        if claims.claim(trial_id):
            store.delete(f"trials/{trial_id}")
            claims.release(trial_id)
            deleted.append(trial_id)
    claims.close()
    return tuple(deleted)


def _mark_deleted(workspace: Workspace, key: str, trials: tuple[str, ...]) -> int:
    """Mark the runs of the study and of its trials as deleted; return how many there were."""
    if not workspace.has_records:
        return 0
    tracking = Server(workspace.tracking_uri, workspace.artifacts)
    return tracking.delete([(STUDY_RUN, key), *((TRIAL, trial_id) for trial_id in trials)])
