"""A SQLite file: a whole trial in one transaction, through MLflow's own table definitions.

MLflow's client needs three calls and nine commits for a small run (measured: 95 ms and more),
this one commit. A run's id is made from its identity, so that two writers cannot make two.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import math
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ablate.record import quiet
from ablate.record.client import ClientTracking, answering, local_folder, write_files
from ablate.record.places import check_uri, redacted
from ablate.record.tracking import (
    HOME,
    RUN_NAME,
    RUNNING,
    TRIAL,
    Placed,
    Point,
    Refused,
    Run,
    new_points,
)

LARGEST = 1.7976931348623157e308  # what MLflow writes for an infinity
STALE_SECONDS = 600.0  # a database that is being made for longer is not being made
BUSY_SECONDS = 20.0  # to wait for another writer, as MLflow does


class DatabaseTracking:
    """A `Tracking` on a SQLite file, which is made if it is not there."""

    def __init__(self, uri: str, artifacts: Path) -> None:
        self.uri = check_uri(uri)
        with answering(uri):
            _make_database(uri, artifacts)
        self._artifacts = artifacts
        self._client = ClientTracking(uri, artifacts)
        models = quiet.load("mlflow.store.tracking.dbmodels.models")
        self._runs, self._tags = models.SqlRun.__table__, models.SqlTag.__table__
        self._params, self._metrics = models.SqlParam.__table__, models.SqlMetric.__table__
        self._latest = models.SqlLatestMetric.__table__
        self._engine = _engine(uri)
        self._user = _user()
        self._locations: dict[str, str] = {}

    def open_experiment(self, name: str, tags: Mapping[str, str]) -> str:
        experiment_id = self._client.open_experiment(name, tags)
        with answering(self.uri):
            found = self._client.client.get_experiment(experiment_id)
        self._locations[experiment_id] = found.artifact_location
        return experiment_id

    def put(self, experiment_id: str, run: Run) -> Placed:
        with answering(self.uri), self._engine.begin() as db:
            row = self._find(db, run.identity)
            if row is None:
                run_id, place, found = self._insert(db, experiment_id, run), experiment_id, None
            else:
                run_id, place = row.run_uuid, str(row.experiment_id)
                found = self._pairs(db, self._tags, run_id)
            tags = run.all_tags(found)
            self._write_tags(db, run_id, found or {}, tags)
            self._write_params(db, run_id, run.params)
            self._write_points(db, run_id, run.points)
            self._write_status(db, run_id, run, tags.get(RUN_NAME))
            self._write_artifacts(self._artifact_uri(place, run_id), run.artifacts)
        home = {**tags, **(found or {})}.get(HOME, run.home[HOME])
        return Placed(run_id, place, home, created=row is None)

    def running(self, experiment_id: str) -> list[str]:
        runs, tags = self._runs.c, self._tags.c
        with answering(self.uri), self._engine.begin() as db:
            query = (
                quiet.load("sqlalchemy")
                .select(tags.value)
                .join(self._runs, runs.run_uuid == tags.run_uuid)
                .where(runs.experiment_id == int(experiment_id), runs.status == RUNNING)
                .where(runs.lifecycle_stage == "active", tags.key == TRIAL)
            )
            return [value for (value,) in db.execute(query)]

    def settle(self) -> None:
        """A transaction leaves nothing behind."""

    def _find(self, db: Any, identity: tuple[str, str]) -> Any:
        """The run of our making, or one that came through a server."""
        runs, tags = self._runs.c, self._tags.c
        row = db.execute(self._runs.select().where(runs.run_uuid == run_id_of(identity))).first()
        if row is not None:
            return row
        query = (
            self._runs.select()
            .join(self._tags, runs.run_uuid == tags.run_uuid)
            .where(tags.key == identity[0], tags.value == identity[1])
            .where(runs.lifecycle_stage == "active")
            .order_by(runs.start_time, runs.run_uuid)
        )
        return db.execute(query).first()

    def _insert(self, db: Any, experiment_id: str, run: Run) -> str:
        run_id = run_id_of(run.identity)
        row = {
            "run_uuid": run_id,
            "source_type": "UNKNOWN",
            "source_name": "",
            "entry_point_name": "",
            "source_version": "",
            "user_id": self._user,
            "start_time": run.start,
            "artifact_uri": self._artifact_uri(experiment_id, run_id),
            "experiment_id": int(experiment_id),
        }
        db.execute(self._runs.insert(), row)
        return run_id

    def _write_status(self, db: Any, run_id: str, run: Run, name: str | None) -> None:
        """Also brings back a run that somebody deleted in the UI: its trial is wanted again."""
        values = {"status": run.status, "end_time": run.end}
        named = {} if name is None else {"name": name}
        alive = {"lifecycle_stage": "active", "deleted_time": None}
        update = self._runs.update().where(self._runs.c.run_uuid == run_id)
        db.execute(update.values(**values, **named, **alive))

    def _write_tags(
        self, db: Any, run_id: str, found: Mapping[str, str], tags: Mapping[str, str]
    ) -> None:
        changed = {key: value for key, value in tags.items() if found.get(key) != value}
        table = self._tags
        for key in changed.keys() & found.keys():
            db.execute(table.delete().where(table.c.run_uuid == run_id, table.c.key == key))
        self._insert_pairs(db, table, run_id, changed)

    def _write_params(self, db: Any, run_id: str, params: Mapping[str, str]) -> None:
        found = self._pairs(db, self._params, run_id) if params else {}
        new = {key: value for key, value in params.items() if key not in found}
        self._insert_pairs(db, self._params, run_id, new)

    def _write_points(self, db: Any, run_id: str, points: Sequence[Point]) -> None:
        table = self._latest
        columns = table.select().with_only_columns(table.c.key, table.c.step)
        found = db.execute(columns.where(table.c.run_uuid == run_id)) if points else ()
        last_steps = dict(list(found))
        rows = [_metric_row(run_id, point) for point in new_points(points, last_steps)]
        latest = {row["key"]: row for row in rows}
        for key in latest.keys() & last_steps.keys():
            db.execute(table.delete().where(table.c.run_uuid == run_id, table.c.key == key))
        if rows:
            db.execute(self._metrics.insert(), rows)
            db.execute(table.insert(), list(latest.values()))

    def _pairs(self, db: Any, table: Any, run_id: str) -> dict[str, str]:
        query = table.select().with_only_columns(table.c.key, table.c.value)
        return dict(list(db.execute(query.where(table.c.run_uuid == run_id))))

    def _insert_pairs(self, db: Any, table: Any, run_id: str, pairs: Mapping[str, str]) -> None:
        rows = [{"run_uuid": run_id, "key": key, "value": value} for key, value in pairs.items()]
        if rows:
            db.execute(table.insert(), rows)

    def _artifact_uri(self, experiment_id: str, run_id: str) -> str:
        if experiment_id not in self._locations:
            found = self._client.client.get_experiment(experiment_id)
            self._locations[experiment_id] = found.artifact_location
        return f"{self._locations[experiment_id].rstrip('/')}/{run_id}/artifacts"

    def _write_artifacts(self, artifact_uri: str, artifacts: Mapping[str, bytes]) -> None:
        """Before the transaction ends, so that a run that looks whole is whole."""
        if artifact_uri.startswith("mlflow-artifacts:"):  # as `ablate ui` serves them
            write_files(self._artifacts / urlsplit(artifact_uri).path.lstrip("/"), artifacts)
            return
        folder = local_folder(artifact_uri)
        if folder is not None:
            write_files(folder, artifacts)
        elif artifacts:
            raise Refused(
                f"the artifacts of this experiment go to {artifact_uri.partition('://')[0]}, which "
                f"only its server reaches. Give the server's URI instead of {redacted(self.uri)}."
            )


def run_id_of(identity: tuple[str, str]) -> str:
    """32 hexadecimal digits, as MLflow's own ids are."""
    return hashlib.sha256("=".join(identity).encode()).hexdigest()[:32]


def _metric_row(run_id: str, point: Point) -> dict[str, Any]:
    """As MLflow writes what SQL has no word for."""
    value, is_nan = point.value, math.isnan(point.value)
    if is_nan:
        value = 0.0
    elif math.isinf(value):
        value = math.copysign(LARGEST, value)
    return {
        "run_uuid": run_id,
        "key": point.key,
        "value": value,
        "timestamp": point.timestamp,
        "step": point.step,
        "is_nan": is_nan,
    }


def _engine(uri: str) -> Any:
    """Transactions that lock before they read, so that nobody writes in between."""
    sqlalchemy = quiet.load("sqlalchemy")
    engine = sqlalchemy.create_engine(uri, connect_args={"timeout": BUSY_SECONDS})
    sqlalchemy.event.listen(
        engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None)
    )
    sqlalchemy.event.listen(engine, "begin", lambda db: db.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _make_database(uri: str, artifacts: Path) -> None:
    """MLflow's tables, whole or not there at all: a migration that is killed cannot go on."""
    database = quiet.load("sqlalchemy.engine").make_url(uri).database or ""
    place = Path(database)
    if place.exists() and place.stat().st_size:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    for left in place.parent.glob(f"{place.name}.*.partial*"):  # by one that was killed
        if time.time() - left.stat().st_mtime > STALE_SECONDS:
            left.unlink(missing_ok=True)
    partial = place.with_name(f"{place.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    try:
        with quiet.silent_warnings(), _unsynced(partial):
            stores = quiet.load("mlflow.store.tracking.sqlalchemy_store")
            store = stores.SqlAlchemyStore(f"sqlite:///{partial}", artifacts.absolute().as_uri())
        store.engine.dispose()
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(partial, place)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _unsynced(place: Path) -> Iterator[None]:
    """A file that is not there until it is whole: its thousand commits need not wait for the disk.

    MLflow opens it by an engine of its own, so all new connections are looked at.
    """
    sqlalchemy = quiet.load("sqlalchemy")

    def opened(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            files = [row[2] for row in connection.execute("PRAGMA database_list")]
            if files and os.path.realpath(files[0]) == os.path.realpath(place):
                connection.execute("PRAGMA synchronous = OFF")

    sqlalchemy.event.listen(sqlalchemy.engine.Engine, "connect", opened)
    try:
        yield
    finally:
        sqlalchemy.event.remove(sqlalchemy.engine.Engine, "connect", opened)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a passwd entry
        return "unknown"
