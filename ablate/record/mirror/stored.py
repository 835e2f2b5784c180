"""Reads records straight from a store: published results, which no MLflow server needs to have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ablate.record import runs
from ablate.record.runs import StudyStatus
from ablate.record.tracking import ALSO_IN, MARK, RunToWrite, Seen, StoredRun
from ablate.results.labels import labels_of
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord


class StoreSource:
    """The same as `DatabaseSource` for a store. A run's id is its trial's id or its study's key."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[str, RunToWrite] = {}

    def changes(self, known: Mapping[str, Seen]) -> tuple[dict[str, Seen], list[str]]:
        """Return the runs that are new or changed, in their current state, and the deleted ones."""
        for key in study_record.names(self._store):
            self._add_study(study_record.read(self._store, key))
        seen = {run_id: _seen(run) for run_id, run in self._runs.items()}
        changed = {run_id: now for run_id, now in seen.items() if known.get(run_id) != now}
        return changed, [run_id for run_id in known if run_id not in seen]

    def _add_study(self, record: StudyRecord) -> None:
        known = journals.read_all(self._store, record.trial_ids())
        labels, starts = labels_of(record), list[int]()
        for trial_id, journal in known.items():
            run = runs.trial_run(record, record.key, journal, labels.get(trial_id), running=False)
            elsewhere = self._runs.get(trial_id)  # its run, if a study read before shares the trial
            tags = run.all_tags(None) if elsewhere is None else {**elsewhere.tags, **run.guest}
            self._runs[trial_id] = replace(run, tags=tags)
            starts.append(run.start)
        self._runs[record.key] = _study_run(record, known, min(starts, default=0))

    def read(self, run_ids: list[str]) -> Iterator[list[StoredRun]]:
        """Yield the runs, read from the trials' journals."""
        yield [_stored_run(run_id, self._runs[run_id]) for run_id in run_ids]

    def close(self) -> None:
        """Drop the runs that were read."""
        self._runs.clear()


def _study_run(record: StudyRecord, known: Mapping[str, Journal], start: int) -> RunToWrite:
    counts: Counter[str] = Counter(
        Status.LEFT if trial_id not in known else runs.status_of(known[trial_id], running=False)
        for trial_id in record.trial_ids()
    )
    whole = not {Status.LEFT, Status.INTERRUPTED} & counts.keys()
    status = StudyStatus.FINISHED if whole else StudyStatus.INTERRUPTED
    run = runs.study_run(record, status, start, {}, "", counts)
    return replace(run, tags=run.all_tags(None))


def _seen(run: RunToWrite) -> Seen:
    shared = [f"{key}={value}" for key, value in run.tags.items() if key.startswith(ALSO_IN)]
    return Seen(0, "|".join((run.tags[MARK], run.status, *shared)))  # no listing is ordered by it


def _stored_run(run_id: str, run: RunToWrite) -> StoredRun:
    steps: dict[int, dict[str, Any]] = {}
    numbers: dict[str, float] = {}
    for metric in sorted(run.metric_values, key=lambda metric: metric.step):
        steps.setdefault(metric.step, {"epoch": metric.step})[metric.key] = metric.value
        numbers[metric.key] = metric.value
    study = run.artifacts.get("study.json")
    return StoredRun(
        run_id=run_id,
        start=run.start,
        end=run.end,
        tags=run.tags,
        params=run.params,
        numbers=numbers,
        steps=list(steps.values()),
        study_json=None if study is None else study.decode(),
    )
