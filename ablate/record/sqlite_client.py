"""A SQLite file: whole trials in one transaction, through MLflow's own table definitions.

MLflow's client needs three calls and nine commits for a small run (95 ms and more, measured); this
module needs one commit, however many runs it writes. A run's id is derived from its identity, so
two writers cannot create two.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import math
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ablate.record import quiet
from ablate.record.client import (
    CONTEXT,
    DATASET_KIND,
    TRAINING,
    ClientTracking,
    translate_errors,
    write_files,
)
from ablate.record.places import check_uri, local_folder
from ablate.record.tracking import (
    ALSO_IN,
    ARM_RUN,
    HOME,
    LARGEST,
    MARK,
    RUN_NAME,
    TRIAL,
    Dataset,
    MetricValue,
    Recorded,
    Refused,
    RunLocation,
    RunToWrite,
    new_values,
)
from ablate.redaction import redacted
from ablate.store.files import partial_file

BUSY_SECONDS = 20.0  # to wait for another writer; the same as in MLflow


@dataclass(frozen=True)
class _Wanted:
    """A run to write, with its row in the database."""

    run: RunToWrite
    row: Mapping[str, Any]
    old_tags: Mapping[str, str] | None  # None: the row is new

    @property
    def run_id(self) -> str:
        return self.row["run_uuid"]

    @cached_property
    def tags(self) -> dict[str, str]:
        return self.run.all_tags(self.old_tags)

    @property
    def changed_tags(self) -> dict[str, str]:
        old = self.old_tags or {}
        return {key: value for key, value in self.tags.items() if old.get(key) != value}

    @property
    def location(self) -> RunLocation:
        home = {**self.tags, **(self.old_tags or {})}.get(HOME, self.run.home[HOME])
        experiment = str(self.row["experiment_id"])
        return RunLocation(self.run_id, experiment, home, created=self.old_tags is None)


class DatabaseTracking(ClientTracking):
    """Tracking in a SQLite file, which is created if it does not exist."""

    batch = 200  # runs in a transaction: other writers wait for it, about a second

    def __init__(self, uri: str, artifacts: Path) -> None:
        check_uri(uri)
        with translate_errors(uri):
            _make_database(uri, artifacts)
        super().__init__(uri, artifacts)
        models = quiet.load("mlflow.store.tracking.dbmodels.models")
        self._runs, self._tags = models.SqlRun.__table__, models.SqlTag.__table__
        self._params, self._metrics = models.SqlParam.__table__, models.SqlMetric.__table__
        self._latest = models.SqlLatestMetric.__table__
        self._datasets, self._inputs = models.SqlDataset.__table__, models.SqlInput.__table__
        self._input_tags = models.SqlInputTag.__table__
        self._experiments_table = models.SqlExperiment.__table__
        self._engine = _engine(uri)
        self._user = _user()
        self._locations: dict[str, str] = {}  # of artifacts, by experiment

    def put(self, experiment_id: str, run: RunToWrite) -> RunLocation:
        return self.put_all(experiment_id, [run])[0]

    def put_all(self, experiment_id: str, runs: Sequence[RunToWrite]) -> list[RunLocation]:
        """Create or update all of these runs, or none of them if that fails."""
        with translate_errors(self.uri), self._engine.begin() as db:
            wanted = self._rows(db, experiment_id, runs)
            _insert(db, self._tags, "REPLACE", _pairs((w.run_id, w.changed_tags) for w in wanted))
            # A param is written once: in MLflow, params never change.
            _insert(db, self._params, "IGNORE", _pairs((w.run_id, w.run.params) for w in wanted))
            restarted = (w for w in wanted if w.run.restarts)
            self._delete_values(db, [w for w in restarted if w.row["start_time"] != w.run.start])
            self._write_values(db, wanted)
            self._write_datasets(db, wanted)
            for one in wanted:
                self._write_status(db, one.run_id, one.run, one.tags.get(RUN_NAME))
                self._store_artifacts(one.row["artifact_uri"], one.run.artifacts)
        return [one.location for one in wanted]

    def _rows(self, db: Any, experiment_id: str, runs: Sequence[RunToWrite]) -> list[_Wanted]:
        """The runs with their rows, which are made where there are none."""
        found = self._find(db, [run.identity for run in runs])
        missing = [run for run in runs if run.identity not in found]
        new = {run.identity: self._new_row(experiment_id, run) for run in missing}
        _insert(db, self._runs, "ABORT", [*new.values()])
        tags = self._select(db, self._tags, [r["run_uuid"] for r in found.values()], "value")
        known = {identity: tags[row["run_uuid"]] for identity, row in found.items()}
        rows = {**found, **new}
        return [_Wanted(run, rows[run.identity], known.get(run.identity)) for run in runs]

    def recorded(self, experiments: Collection[str]) -> list[Recorded]:
        runs, tags, known = self._runs.c, self._tags.c, self._experiments_table.c
        query = (
            self._tags.select()
            .with_only_columns(runs.run_uuid, runs.status, tags.key, tags.value)
            .join(self._runs, runs.run_uuid == tags.run_uuid)
            .join(self._experiments_table, runs.experiment_id == known.experiment_id)
            .where(known.name.in_(sorted(experiments)))
            .where(
                tags.key.in_((TRIAL, ARM_RUN, MARK, HOME))
                | tags.key.startswith(ALSO_IN, autoescape=True)
            )
        )
        with translate_errors(self.uri), self._engine.begin() as db:
            rows = list(db.execute(query))
        result: dict[str, Recorded] = {}
        for run_id, status, key, value in rows:
            run = result.setdefault(run_id, Recorded(run_id, status, {}))
            run.tags[key] = value
        return [run for run in result.values() if {TRIAL, ARM_RUN} & run.tags.keys()]

    def _find(
        self, db: Any, identities: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], Mapping[str, Any]]:
        """The rows with our ids for the runs; else the oldest row that a server created."""
        runs, tags = self._runs.c, self._tags.c
        by_id = {run_id_of(identity): identity for identity in identities}
        tagged = (
            self._runs.select()
            .add_columns(tags.key, tags.value)
            .join(self._tags, runs.run_uuid == tags.run_uuid)
            .where(tags.key.in_({key for key, _ in identities}))
            .where(tags.value.in_([value for _, value in identities]))
            .where(runs.lifecycle_stage == "active")
            .order_by(runs.start_time.desc(), runs.run_uuid.desc())
        )
        ours = self._runs.select().where(runs.run_uuid.in_(by_id))
        # Of several rows, the last one stays in the dictionary: the oldest run.
        found = {(row["key"], row["value"]): row for row in db.execute(tagged).mappings()}
        found |= {by_id[row["run_uuid"]]: row for row in db.execute(ours).mappings()}
        return {identity: found[identity] for identity in identities if identity in found}

    def _new_row(self, experiment_id: str, run: RunToWrite) -> dict[str, Any]:
        run_id = run_id_of(run.identity)
        if experiment_id not in self._locations:
            experiment = self.client.get_experiment(experiment_id)
            self._locations[experiment_id] = experiment.artifact_location.rstrip("/")
        return {  # as MLflow's client would make it: the tests compare every field
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

    def _write_status(self, db: Any, run_id: str, run: RunToWrite, name: str | None) -> None:
        """Set the status; restores a run deleted in the UI, since its trial is delivered again.

        A trial that has started over began later; a study keeps the start of its first run.
        """
        values: dict[str, Any] = {"status": run.status, "end_time": run.end}
        if run.restarts:
            values["start_time"] = run.start
        # A study that shares the trial has no name for it: the run keeps its own.
        name_column = {} if name is None else {"name": name}
        active = {"lifecycle_stage": "active", "deleted_time": None}
        update = self._runs.update().where(self._runs.c.run_uuid == run_id)
        db.execute(update.values(**values, **name_column, **active))

    def _write_values(self, db: Any, wanted: Sequence[_Wanted]) -> None:
        old = [one.run_id for one in wanted if one.old_tags is not None]
        last_steps = self._select(db, self._latest, old, "step")
        rows = [
            _metric_row(one.run_id, value)
            for one in wanted
            for value in new_values(one.run.metric_values, last_steps[one.run_id])
        ]
        _insert(db, self._metrics, "ABORT", rows)
        last = {(row["run_uuid"], row["key"]): row for row in rows}
        _insert(db, self._latest, "REPLACE", [*last.values()])

    def _write_datasets(self, db: Any, wanted: Sequence[_Wanted]) -> None:
        """Add the datasets of runs that lack them, as MLflow's client would."""
        read = [(w, w.run.dataset) for w in wanted if w.run.dataset is not None]
        keys = {(w.row["experiment_id"], dataset) for w, dataset in read}
        ids = {key: self._dataset_id(db, *key) for key in keys}
        inputs = self._inputs.c
        query = self._inputs.select().with_only_columns(inputs.source_id, inputs.destination_id)
        runs_of = inputs.destination_id.in_([w.run_id for w, _ in read])
        known = {tuple(row) for row in db.execute(query.where(runs_of))} if read else set()
        pairs = [(ids[w.row["experiment_id"], dataset], w.run_id) for w, dataset in read]
        rows = [
            {
                "input_uuid": run_id_of(pair),
                "source_type": "DATASET",
                "source_id": pair[0],
                "destination_type": "RUN",
                "destination_id": pair[1],
            }
            for pair in pairs
            if pair not in known
        ]
        _insert(db, self._inputs, "IGNORE", rows)
        named = {"name": CONTEXT, "value": TRAINING}
        tags = [{"input_uuid": row["input_uuid"], **named} for row in rows]
        _insert(db, self._input_tags, "IGNORE", tags)

    def _dataset_id(self, db: Any, experiment_id: int, dataset: Dataset) -> str:
        """The id of a dataset of an experiment, which is made if there is none."""
        key = {"experiment_id": experiment_id, "name": dataset.name, "digest": dataset.digest}
        new = {
            "dataset_uuid": run_id_of(tuple(map(str, key.values()))),
            "dataset_source_type": DATASET_KIND,
            "dataset_source": dataset.source,
        }
        _insert(db, self._datasets, "IGNORE", [{**key, **new}])
        query = self._datasets.select().with_only_columns(self._datasets.c.dataset_uuid)
        for name, value in key.items():
            query = query.where(self._datasets.c[name] == value)
        return db.execute(query).scalar_one()

    def _delete_values(self, db: Any, restarted: Sequence[_Wanted]) -> None:
        """Delete what an attempt has left behind: these trials have started over."""
        for table in (self._metrics, self._latest) if restarted else ():
            ids = [one.run_id for one in restarted]
            db.execute(table.delete().where(table.c.run_uuid.in_(ids)))

    def _select(
        self, db: Any, table: Any, run_ids: Sequence[str], column: str
    ) -> dict[str, dict[str, Any]]:
        """A column of the runs' rows, by run and key."""
        selected: dict[str, dict[str, Any]] = defaultdict(dict)
        query = table.select().with_only_columns(table.c.run_uuid, table.c.key, table.c[column])
        query = query.where(table.c.run_uuid.in_(run_ids))
        for run_id, key, value in db.execute(query) if run_ids else ():
            selected[run_id][key] = value
        return selected

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
    """Insert rows; `conflict`: what SQLite does with a row whose key exists."""
    if rows:
        db.execute(table.insert().prefix_with(f"OR {conflict}"), rows)


def _pairs(by_run: Iterable[tuple[str, Mapping[str, str]]]) -> list[dict[str, Any]]:
    """The rows of tags or params."""
    return [
        {"run_uuid": run_id, "key": key, "value": value}
        for run_id, pairs in by_run
        for key, value in pairs.items()
    ]


def run_id_of(identity: tuple[str, ...]) -> str:
    """An id of 32 hexadecimal digits, like MLflow's own."""
    return hashlib.sha256("=".join(identity).encode()).hexdigest()[:32]


def _metric_row(run_id: str, metric: MetricValue) -> dict[str, Any]:
    """The row of a value, with NaN and infinity stored the way MLflow does."""
    value, is_nan = metric.value, math.isnan(metric.value)
    if is_nan:
        value = 0.0
    elif math.isinf(value):
        value = math.copysign(LARGEST, value)
    return {
        "run_uuid": run_id,
        "key": metric.key,
        "value": value,
        "timestamp": metric.timestamp,
        "step": metric.step,
        "is_nan": is_nan,
    }


def _engine(uri: str) -> Any:
    """An engine whose transactions lock before they read, so that no other writer comes between."""
    sqlalchemy = quiet.load("sqlalchemy")
    engine = sqlalchemy.create_engine(uri, connect_args={"timeout": BUSY_SECONDS})
    # Otherwise Python's sqlite3 begins transactions itself, and locks only at the first write.
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
    with partial_file(path) as file:
        file.write(_empty_database(artifacts))
        file.flush()
        os.fsync(file.fileno())
        # A link, unlike a rename, replaces no database that another process has just made.
        with contextlib.suppress(FileExistsError):
            os.link(file.name, path)


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
