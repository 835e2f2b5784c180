"""The records of a SQLite file, read by SQL in bulk; MLflow's own search takes minutes for them.

What has changed is told by what the runs show, never by when they say it was written. A trial's
run carries a mark of how much of the journal it shows (`completed:50:1`); mark, status and
lifecycle of every run, and which studies share it, are read anew each time (a tenth of a second
for 20,000 runs) and compared with those seen before. No clock has a part in it. All is read in
one transaction, so that a study that is being recorded meanwhile is seen at one moment.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ablate.errors import RecordError
from ablate.record.recorded import ALSO_IN, Record, Seen
from ablate.record.tracking import MARK

BATCH = 500  # runs read at a time; SQLite takes 999 values in a query
BUSY_SECONDS = 20.0
LARGEST = 1.7976931348623157e308  # what MLflow writes for an infinity
AFTER_ALSO_IN = ALSO_IN[:-1] + chr(ord(ALSO_IN[-1]) + 1)  # the first key that is none of them


class DatabaseSource:
    """A `Source` on MLflow's SQLite file. One that is not there has no records."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = self._opened() if path.exists() and path.stat().st_size else None

    def _opened(self) -> sqlite3.Connection:
        with self._answering():
            place = f"file:{quote(str(self._path.absolute()))}?mode=ro"
            db = sqlite3.connect(place, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
            db.execute("BEGIN")
            return db

    def changes(self, known: Mapping[str, Seen]) -> tuple[dict[str, Seen], list[str]]:
        if self._db is None:
            return {}, list(known)
        with self._answering():
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
        return {
            run_id: Seen(start or 0, "|".join((marks[run_id], status, str(end), *shared[run_id])))
            for run_id, start, status, end in runs
            if run_id in marks
        }

    def read(self, run_ids: list[str]) -> Iterator[list[Record]]:
        for first in range(0, len(run_ids), BATCH):
            if self._db is not None:
                with self._answering():
                    yield self._batch(self._db, run_ids[first : first + BATCH])

    def _batch(self, db: sqlite3.Connection, run_ids: list[str]) -> list[Record]:
        among = f"run_uuid IN ({', '.join('?' * len(run_ids))})"
        tags, params = (_pairs(db, table, among, run_ids) for table in ("tags", "params"))
        latest = _latest(db, among, run_ids)
        steps = _steps(db, among, run_ids, latest)
        columns = "run_uuid, start_time, end_time, artifact_uri"
        runs = db.execute(f"SELECT {columns} FROM runs WHERE {among}", run_ids).fetchall()
        return [
            Record(
                run_id=run_id,
                start=start,
                end=end,
                tags=tags[run_id],
                params=params[run_id],
                numbers=latest[run_id],
                steps=steps[run_id],
                study_json=_study_json(uri, tags[run_id]),
            )
            for run_id, start, end, uri in runs
        ]

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise RecordError(
                f"the records in {self._path} cannot be read: {error}. Is it a database of MLflow?"
            ) from error

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


def _pairs(
    db: sqlite3.Connection, table: str, among: str, run_ids: Sequence[str]
) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    query = f"SELECT run_uuid, key, value FROM {table} WHERE {among}"
    for run_id, key, value in db.execute(query, run_ids):
        found[run_id][key] = value
    return found


def _latest(
    db: sqlite3.Connection, among: str, run_ids: Sequence[str]
) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    query = f"SELECT run_uuid, key, value, is_nan FROM latest_metrics WHERE {among}"
    for run_id, key, value, is_nan in db.execute(query, run_ids):
        found[run_id][key] = math.nan if is_nan else _number(value)
    return found


def _steps(
    db: sqlite3.Connection,
    among: str,
    run_ids: Sequence[str],
    latest: Mapping[str, Mapping[str, float]],
) -> dict[str, list[dict[str, Any]]]:
    """Every step of every run as one row: SQLite turns the points round, ten to a row."""
    names = sorted({name for numbers in latest.values() for name in numbers})
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    if not names:
        return found
    one = "MAX(CASE WHEN key = ? THEN CASE WHEN is_nan THEN 'nan' ELSE value END END)"
    query = (
        f"SELECT run_uuid, step, {', '.join([one] * len(names))} FROM metrics "
        f"WHERE {among} GROUP BY run_uuid, step ORDER BY run_uuid, step"
    )
    for run_id, step, *values in db.execute(query, [*names, *run_ids]):
        numbers = {n: _number(v) for n, v in zip(names, values, strict=True) if v is not None}
        found[run_id].append({"epoch": step, **numbers})
    return found


def _number(value: Any) -> float:
    if isinstance(value, str):
        return math.nan
    return math.copysign(math.inf, value) if abs(value) >= LARGEST else float(value)


def _study_json(artifact_uri: str | None, tags: Mapping[str, str]) -> str | None:
    """A study's record, where its artifacts are files of this machine."""
    if tags.get("ablate.kind") != "study" or not artifact_uri:
        return None
    parts = urlsplit(artifact_uri)
    if parts.scheme not in ("file", ""):
        return None
    try:
        return (Path(unquote(parts.path)) / "study.json").read_text(encoding="utf-8")
    except OSError:  # it is written when the study pauses or ends
        return None
