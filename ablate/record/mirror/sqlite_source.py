"""Reads the records of a SQLite file in bulk, by SQL; MLflow's own search would take minutes.

Changes are detected from the contents of runs, never from timestamps. A trial's run has a mark of
what it shows of the journal (`completed:50:1:<hash>`); the mark, status and lifecycle of every run,
and which studies share it, are read each time (a tenth of a second for 20,000 runs) and compared
with those of the last time. No clock is involved. Everything is read in one transaction, so that a
study that is being recorded is seen at a single moment.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ablate.errors import RecordError
from ablate.record.places import local_folder
from ablate.record.tracking import ALSO_IN, ARM_RUN, MARK, STUDY_RUN, Seen, StoredRun, unlimited

BATCH = 500  # runs read at a time
MOST_COLUMNS = 1000  # metrics in one query: SQLite allows 2,000 columns
# One parameter for any number of runs: SQLite limits how many parameters a statement has.
CHOSEN = "run_uuid IN (SELECT value FROM json_each(?))"
OF_ARMS = "SELECT run_uuid FROM tags WHERE key = ?"
# A study's run has metrics of its arms, which would be columns of no trial.
CHOSEN_TRIALS = (
    f"{CHOSEN} AND run_uuid NOT IN (SELECT run_uuid FROM tags WHERE key = '{STUDY_RUN}')"
)
BUSY_SECONDS = 20.0  # to wait for a writer
AFTER_ALSO_IN = ALSO_IN[:-1] + chr(ord(ALSO_IN[-1]) + 1)  # the first key after those tags


class DatabaseSource:
    """MLflow's SQLite file. A missing file has no records."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = self._open() if path.exists() and path.stat().st_size else None

    def _open(self) -> sqlite3.Connection:
        with self._translate_errors():
            uri = f"file:{quote(str(self._path.absolute()))}?mode=ro"
            db = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
            db.execute("BEGIN")
            return db

    def changes(self, known: Mapping[str, Seen]) -> tuple[dict[str, Seen], list[str]]:
        """Return the runs that are new or changed, in their current state, and the deleted ones."""
        if self._db is None:
            return {}, list(known)
        with self._translate_errors():
            seen = self._seen(self._db)
        changed = {run_id: now for run_id, now in seen.items() if known.get(run_id) != now}
        return changed, [run_id for run_id in known if run_id not in seen]

    def _seen(self, db: sqlite3.Connection) -> dict[str, Seen]:
        marks = dict(db.execute("SELECT run_uuid, value FROM tags WHERE key = ?", (MARK,)))
        shared: dict[str, list[str]] = defaultdict(list)
        query = "SELECT run_uuid, key, value FROM tags WHERE key >= ? AND key < ? ORDER BY key"
        for run_id, key, value in db.execute(query, (ALSO_IN, AFTER_ALSO_IN)):
            shared[run_id].append(f"{key}={value}")
        runs = db.execute(
            "SELECT run_uuid, start_time, status, end_time FROM runs "
            "WHERE lifecycle_stage = 'active'"
        )
        # Of arms, the mirror has what the study's table counts.
        arms = {run_id for (run_id,) in db.execute(OF_ARMS, (ARM_RUN,))}
        return {
            run_id: Seen(start or 0, "|".join((marks[run_id], status, str(end), *shared[run_id])))
            for run_id, start, status, end in runs
            if run_id in marks and run_id not in arms
        }

    def read(self, run_ids: list[str]) -> Iterator[list[StoredRun]]:
        """Yield these runs in batches."""
        for first in range(0, len(run_ids), BATCH):
            if self._db is not None:
                with self._translate_errors():
                    yield _batch(self._db, json.dumps(run_ids[first : first + BATCH]))

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise RecordError(
                f"the records in {self._path} cannot be read: {error}. Is it an MLflow database?"
            ) from error

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._db is not None:
            self._db.close()


def _batch(db: sqlite3.Connection, ids: str) -> list[StoredRun]:
    """The runs with these ids, which are a list as JSON."""
    tags, params = _pairs(db, "tags", ids), _pairs(db, "params", ids)
    latest = _latest(db, ids)
    steps = _steps(db, ids, latest)
    columns = "run_uuid, start_time, end_time, artifact_uri"
    runs = db.execute(f"SELECT {columns} FROM runs WHERE {CHOSEN}", (ids,)).fetchall()
    return [
        StoredRun(
            run_id=run_id,
            start=start,
            end=end,
            tags=tags[run_id],
            params=params[run_id],
            numbers=latest[run_id],
            steps=[*steps[run_id].values()],
            study_json=_study_json(uri, tags[run_id]),
        )
        for run_id, start, end, uri in runs
    ]


def _pairs(db: sqlite3.Connection, table: str, ids: str) -> dict[str, dict[str, str]]:
    pairs: dict[str, dict[str, str]] = defaultdict(dict)
    query = f"SELECT run_uuid, key, value FROM {table} WHERE {CHOSEN}"
    for run_id, key, value in db.execute(query, (ids,)):
        pairs[run_id][key] = value
    return pairs


def _latest(db: sqlite3.Connection, ids: str) -> dict[str, dict[str, float]]:
    latest: dict[str, dict[str, float]] = defaultdict(dict)
    query = f"SELECT run_uuid, key, value, is_nan FROM latest_metrics WHERE {CHOSEN_TRIALS}"
    for run_id, key, value, is_nan in db.execute(query, (ids,)):
        latest[run_id][key] = math.nan if is_nan else unlimited(value)
    return latest


def _steps(
    db: sqlite3.Connection, ids: str, latest: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[int, dict[str, Any]]]:
    """Every step of every run as one row: SQLite pivots the values."""
    every = sorted({name for numbers in latest.values() for name in numbers})
    steps: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    # NaN as text: SQLite has NULL for it, which here says that the step has no value.
    metric = "MAX(CASE WHEN key = ? THEN CASE WHEN is_nan THEN 'nan' ELSE value END END)"
    for first in range(0, len(every), MOST_COLUMNS):
        names = every[first : first + MOST_COLUMNS]
        query = (
            f"SELECT {', '.join(['run_uuid', 'step', *[metric] * len(names)])} FROM metrics "
            f"WHERE {CHOSEN_TRIALS} GROUP BY run_uuid, step ORDER BY run_uuid, step"
        )
        for run_id, step, *values in db.execute(query, [*names, ids]):
            numbers = {n: _number(v) for n, v in zip(names, values, strict=True) if v is not None}
            steps[run_id].setdefault(step, {"epoch": step}).update(numbers)
    return steps


def _number(value: Any) -> float:
    return math.nan if isinstance(value, str) else unlimited(value)


def _study_json(artifact_uri: str | None, tags: Mapping[str, str]) -> str | None:
    """A study's record, if its artifacts are local files."""
    if tags.get("ablate.kind") != "study" or not artifact_uri:
        return None
    folder = local_folder(artifact_uri)
    try:
        return None if folder is None else (folder / "study.json").read_text(encoding="utf-8")
    except OSError:  # it is written when the study pauses or ends
        return None
