"""A SQLite file: a whole trial in one transaction, through MLflow's own table definitions.

MLflow's client needs three calls and nine commits for a small run (95 ms and more, measured); this
module needs one commit. A run's id is derived from its identity, so two writers cannot create two.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import math
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ablate.record import quiet
from ablate.record.client import ClientTracking, translate_errors, write_files
from ablate.record.places import check_uri, local_folder
from ablate.record.tracking import (
    HOME,
    LARGEST,
    RUN_NAME,
    TRIAL,
    Point,
    Recorded,
    Refused,
    Run,
    RunLocation,
    new_points,
)
from ablate.redaction import redacted
from ablate.store.files import PARTIAL

BUSY_SECONDS = 20.0  # to wait for another writer; the same as in MLflow


class DatabaseTracking(ClientTracking):
    """Tracking in a SQLite file, which is created if it does not exist."""

    def __init__(self, uri: str, artifacts: Path) -> None:
        check_uri(uri)
        with translate_errors(uri):
            _make_database(uri, artifacts)
        super().__init__(uri, artifacts)
        models = quiet.load("mlflow.store.tracking.dbmodels.models")
        self._runs, self._tags = models.SqlRun.__table__, models.SqlTag.__table__
        self._params, self._metrics = models.SqlParam.__table__, models.SqlMetric.__table__
        self._latest = models.SqlLatestMetric.__table__
        self._experiments_table = models.SqlExperiment.__table__
        self._engine = _engine(uri)
        self._user = _user()
        self._locations: dict[str, str] = {}  # of artifacts, by experiment

    def put(self, experiment_id: str, run: Run) -> RunLocation:
        with translate_errors(self.uri), self._engine.begin() as db:
            existing = self._find(db, run.identity)
            row = existing or self._create_row(db, experiment_id, run)
            run_id, experiment_id = row["run_uuid"], str(row["experiment_id"])
            old_tags = self._select(db, self._tags, run_id, "value") if existing else None
            tags = run.all_tags(old_tags)
            old_tags = old_tags or {}
            changed = {key: value for key, value in tags.items() if old_tags.get(key) != value}
            self._write_pairs(db, self._tags, "REPLACE", run_id, changed)
            self._write_pairs(db, self._params, "IGNORE", run_id, run.params)
            if row.get("start_time") != run.start:
                self._delete_points(db, run_id)
            self._write_points(db, run_id, run.points)
            self._write_status(db, run_id, run, tags.get(RUN_NAME))
            self._store_artifacts(row["artifact_uri"], run.artifacts)
        home = {**tags, **old_tags}.get(HOME, run.home[HOME])
        return RunLocation(run_id, experiment_id, home, created=existing is None)

    def recorded(self, experiments: Collection[str]) -> list[Recorded]:
        runs, tags, known = self._runs.c, self._tags.c, self._experiments_table.c
        query = (
            self._tags.select()
            .with_only_columns(runs.run_uuid, runs.status, tags.key, tags.value)
            .join(self._runs, runs.run_uuid == tags.run_uuid)
            .join(self._experiments_table, runs.experiment_id == known.experiment_id)
            .where(known.name.in_(sorted(experiments)))
        )
        with translate_errors(self.uri), self._engine.begin() as db:
            rows = list(db.execute(query))
        result: dict[str, Recorded] = {}
        for run_id, status, key, value in rows:
            run = result.setdefault(run_id, Recorded(status, {}))
            run.tags[key] = value
        return [run for run in result.values() if TRIAL in run.tags]

    def _find(self, db: Any, identity: tuple[str, str]) -> Mapping[str, Any] | None:
        """The row with our id for the run, or of one that was created through a server."""
        runs, tags = self._runs.c, self._tags.c
        ours = self._runs.select().where(runs.run_uuid == run_id_of(identity))
        tagged = (
            self._runs.select()
            .join(self._tags, runs.run_uuid == tags.run_uuid)
            .where(tags.key == identity[0], tags.value == identity[1])
            .where(runs.lifecycle_stage == "active")
            .order_by(runs.start_time, runs.run_uuid)
        )
        return db.execute(ours).mappings().first() or db.execute(tagged).mappings().first()

    def _create_row(self, db: Any, experiment_id: str, run: Run) -> Mapping[str, Any]:
        run_id = run_id_of(run.identity)
        if experiment_id not in self._locations:
            experiment = self.client.get_experiment(experiment_id)
            self._locations[experiment_id] = experiment.artifact_location.rstrip("/")
        row = {
            "run_uuid": run_id,
            "source_type": "UNKNOWN",
            "source_name": "",
            "entry_point_name": "",
            "source_version": "",
            "user_id": self._user,
            "start_time": run.start,
            "artifact_uri": f"{self._locations[experiment_id]}/{run_id}/artifacts",
            "experiment_id": int(experiment_id),
        }
        db.execute(self._runs.insert(), row)
        return row

    def _write_status(self, db: Any, run_id: str, run: Run, name: str | None) -> None:
        """Set the status; restores a run deleted in the UI, since its trial is delivered again.

        A trial that has started over began later; a study keeps the start of its first run.
        """
        values: dict[str, Any] = {"status": run.status, "end_time": run.end}
        if run.identity[0] == TRIAL:
            values["start_time"] = run.start
        name_column = {} if name is None else {"name": name}
        active = {"lifecycle_stage": "active", "deleted_time": None}
        update = self._runs.update().where(self._runs.c.run_uuid == run_id)
        db.execute(update.values(**values, **name_column, **active))

    def _write_points(self, db: Any, run_id: str, points: Sequence[Point]) -> None:
        last_steps = self._select(db, self._latest, run_id, "step") if points else {}
        rows = [_metric_row(run_id, point) for point in new_points(points, last_steps)]
        _insert(db, self._metrics, "ABORT", rows)
        _insert(db, self._latest, "REPLACE", list({row["key"]: row for row in rows}.values()))

    def _delete_points(self, db: Any, run_id: str) -> None:
        """Delete what an attempt has left behind: the trial has started over."""
        for table in (self._metrics, self._latest):
            db.execute(table.delete().where(table.c.run_uuid == run_id))

    def _select(self, db: Any, table: Any, run_id: str, column: str) -> dict[str, Any]:
        """A column of a run's rows, by key."""
        query = table.select().with_only_columns(table.c.key, table.c[column])
        return dict(list(db.execute(query.where(table.c.run_uuid == run_id))))

    def _write_pairs(
        self, db: Any, table: Any, conflict: str, run_id: str, pairs: Mapping[str, str]
    ) -> None:
        rows = [{"run_uuid": run_id, "key": key, "value": value} for key, value in pairs.items()]
        _insert(db, table, conflict, rows)

    def _store_artifacts(self, artifact_uri: str, artifacts: Mapping[str, bytes]) -> None:
        """Write before the transaction ends, so that a run that looks complete is complete."""
        if artifact_uri.startswith("mlflow-artifacts:"):  # the artifacts that `ablate ui` serves
            folder = self._artifacts / urlsplit(artifact_uri).path.lstrip("/")
        else:
            folder = local_folder(artifact_uri)
        if folder is not None:
            write_files(folder, artifacts)
        elif artifacts:
            scheme = artifact_uri.partition("://")[0]
            raise Refused(
                f"the artifacts of this experiment are stored in {scheme}, which only its server "
                f"can reach. Pass the server's URI instead of {redacted(self.uri)}."
            )


def _insert(db: Any, table: Any, conflict: str, rows: list[dict[str, Any]]) -> None:
    """Insert rows; `conflict`: what SQLite does with one whose key exists."""
    if rows:
        db.execute(table.insert().prefix_with(f"OR {conflict}"), rows)


def run_id_of(identity: tuple[str, str]) -> str:
    """A run id of 32 hexadecimal digits, like MLflow's own."""
    return hashlib.sha256("=".join(identity).encode()).hexdigest()[:32]


def _metric_row(run_id: str, point: Point) -> dict[str, Any]:
    """The row of a point, with NaN and infinity stored the way MLflow does."""
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
    """An engine whose transactions lock before they read, so that no other writer comes between."""
    sqlalchemy = quiet.load("sqlalchemy")
    engine = sqlalchemy.create_engine(uri, connect_args={"timeout": BUSY_SECONDS})
    sqlalchemy.event.listen(
        engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None)
    )
    sqlalchemy.event.listen(engine, "begin", lambda db: db.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _make_database(uri: str, artifacts: Path) -> None:
    """Create MLflow's tables, completely or not at all: a killed migration cannot be resumed."""
    path = Path(quiet.load("sqlalchemy.engine").make_url(uri).database or "")
    if path.exists() and path.stat().st_size:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        with partial.open("wb") as file:
            file.write(_empty_database(artifacts))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _empty_database(artifacts: Path) -> bytes:
    """MLflow's tables, created in memory: on disk it takes a thousand synced commits."""
    stores = quiet.load("mlflow.store.tracking.sqlalchemy_store")
    with quiet.silent_warnings():
        store = stores.SqlAlchemyStore("sqlite:///:memory:", artifacts.absolute().as_uri())
    try:
        return store.engine.raw_connection().driver_connection.serialize()
    finally:
        store.engine.dispose()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a passwd entry
        return "unknown"
