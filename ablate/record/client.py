"""Any MLflow server, through MLflow's own client.

The whole server is searched for a run's identity tag before the run is created. An interrupted
update is recognised: only a complete run has the wanted mark *and* the wanted status, and a run is
RUNNING while it is updated, so that a crash between two calls never looks complete. After any
failure the run is read again before anything else is sent.
"""

from __future__ import annotations

import contextlib
import re
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablate.record import quiet
from ablate.record.places import digest, is_server, local_folder
from ablate.record.tracking import (
    ARM_RUN,
    HOME,
    MARK,
    RUNNING,
    TRIAL,
    Away,
    Dataset,
    Recorded,
    Refused,
    RunLocation,
    RunToWrite,
    new_values,
)
from ablate.redaction import redacted
from ablate.store.files import own_temporary
from ablate.store.locks import locked

ORIGIN = "ablate.origin"  # who created a run: only its creator deletes duplicates
EXPERIMENTS_SECONDS = 30.0  # after which the server's list of experiments is queried again
PAGE = 1000
ACTIVE = 1  # MLflow's ViewType.ACTIVE_ONLY: runs that nobody has deleted
CONNECT_SECONDS = 10  # to wait for a database's host
DATASET_KIND = "local"  # MLflow's type of a dataset's source
CONTEXT, TRAINING = "mlflow.data.context", "training"  # a tag that says what a dataset is for
REFUSALS = (  # MLflow's codes of errors that the same request would meet again
    "INVALID_PARAMETER_VALUE",
    "INVALID_STATE",
    "RESOURCE_ALREADY_EXISTS",
    "RESOURCE_DOES_NOT_EXIST",
)


@dataclass
class RemoteRun:
    """The known state of a run on the server."""

    run_id: str
    experiment_id: str
    start: int  # milliseconds
    status: str
    artifact_uri: str
    tags: dict[str, str]
    params: set[str] = field(default_factory=set)
    metrics: tuple[str, ...] = ()  # the metrics whose last steps are still unknown
    last_steps: dict[str, int] = field(default_factory=dict)
    created: bool = False

    def is_complete(self, run: RunToWrite) -> bool:
        """Return whether nothing but tags can be missing."""
        ended = run.status != RUNNING and self.status == run.status
        return ended and self.tags.get(MARK) == run.tags[MARK]


class ClientTracking:
    """A server or database. Its errors are raised as `Away` or `Refused`."""

    batch = 1  # runs that `put_all` is given at a time

    def __init__(self, uri: str, artifacts: Path) -> None:
        self.uri, self._artifacts = uri, artifacts
        tracking = quiet.load("mlflow.tracking")
        self._entities = quiet.load("mlflow.entities")
        self.client = open_client(uri, tracking)
        self._origin = f"{socket.gethostname()}:{artifacts}"
        self._running: dict[tuple[str, str], RemoteRun] = {}
        self._uncertain: set[tuple[str, str]] = set()  # perhaps created twice
        self._experiments: tuple[float, list[str]] = (-EXPERIMENTS_SECONDS, [])

    def open_experiment(self, name: str, tags: Mapping[str, str]) -> str:
        """Return the id of the experiment with this name, creating it if there is none."""
        with translate_errors(self.uri):
            experiment = self.client.get_experiment_by_name(name)
            if experiment is None:
                return self._create_experiment(name, tags)
            if experiment.lifecycle_stage == "deleted":
                self.client.restore_experiment(experiment.experiment_id)
            for key, value in tags.items():
                if experiment.tags.get(key) != value:
                    self.client.set_experiment_tag(experiment.experiment_id, key, value)
            return experiment.experiment_id

    def _create_experiment(self, name: str, tags: Mapping[str, str]) -> str:
        location = None  # a server chooses its own
        if not is_server(self.uri):
            location = (self._artifacts / re.sub(r"[^\w.@-]", "_", name)).absolute().as_uri()
        self._experiments = (-EXPERIMENTS_SECONDS, [])  # the list lacks the new experiment
        return self.client.create_experiment(name, location, dict(tags))

    def put(self, experiment_id: str, run: RunToWrite) -> RunLocation:
        """Create the run, or update it to match."""
        with translate_errors(self.uri):
            known = self._running.pop(run.identity, None)  # forgotten if anything fails now
            known = known or self._find_or_create(experiment_id, run)
            self._update(known, run)
        if run.status == RUNNING:
            self._running[run.identity] = known
        home = known.tags.get(HOME, run.home[HOME])
        return RunLocation(known.run_id, known.experiment_id, home, known.created)

    def put_all(self, experiment_id: str, runs: Sequence[RunToWrite]) -> list[RunLocation]:
        """Write runs one after another; return where each of them is."""
        return [self.put(experiment_id, run) for run in runs]

    def running(self, experiment_id: str) -> list[str]:
        """The trials of an experiment whose runs are marked as running."""
        with translate_errors(self.uri):
            running = self._search([experiment_id], "attributes.status = 'RUNNING'")
        return [run.data.tags[TRIAL] for run in running if TRIAL in run.data.tags]

    def recorded(self, experiments: Collection[str]) -> list[Recorded]:
        """The trials and arms in the experiments of these names, deleted ones included."""
        with translate_errors(self.uri):
            found = [self.client.get_experiment_by_name(name) for name in sorted(experiments)]
            ids = [experiment.experiment_id for experiment in found if experiment is not None]
            runs = self._search(ids, "", self._entities.ViewType.ALL) if ids else []
        known = [Recorded(r.info.run_id, r.info.status, dict(r.data.tags)) for r in runs]
        return [run for run in known if {TRIAL, ARM_RUN} & run.tags.keys()]

    def delete(self, identities: Sequence[tuple[str, str]]) -> int:
        """Mark the runs with these tags as deleted; return how many there were."""
        with translate_errors(self.uri), server_lock(self.uri):
            known = [run for run in map(self._read, identities) if run is not None]
            for run in known:
                self.client.delete_run(run.run_id)
        return len(known)

    def settle(self) -> None:
        """Clean up what calls that got no answer may have left behind."""
        for identity in list(self._uncertain):
            with translate_errors(self.uri):
                self._read(identity)
            self._uncertain.discard(identity)

    def _find_or_create(self, experiment_id: str, run: RunToWrite) -> RemoteRun:
        """Under a lock, so that `ablate sync` during a study does not create the same run."""
        with server_lock(self.uri):
            known = self._read(run.identity) or self._read_in_new_ones(run.identity)
            if known is None:
                return self._create(experiment_id, run, run.all_tags(None))
            if known.start == run.start or not (run.restarts and run.metric_values):
                return known
            # The trial has started over, and MLflow deletes no values of an attempt that failed.
            self.client.delete_run(known.run_id)
            tags = {**known.tags, **run.all_tags(known.tags)}
            return self._create(known.experiment_id, run, tags)

    def _create(
        self, experiment_id: str, run: RunToWrite, all_tags: Mapping[str, str]
    ) -> RemoteRun:
        tags = {**all_tags, ORIGIN: self._origin}
        del tags[MARK]  # which only a run that shows the journal has
        self._uncertain.add(run.identity)  # without an answer, the run may exist all the same
        info = self.client.create_run(experiment_id, start_time=run.start, tags=tags).info
        self._uncertain.discard(run.identity)
        made = (info.run_id, info.experiment_id, run.start, RUNNING, info.artifact_uri, tags)
        return RemoteRun(*made, created=True)

    def _read(self, identity: tuple[str, str]) -> RemoteRun | None:
        """The run on the server; duplicates that we created after unanswered calls are deleted."""
        key, value = identity
        matches = self._search(self._all_experiments(), f"tags.`{key}` = {_quote(value)}")
        if not matches:
            return None
        first, *others = sorted(matches, key=lambda run: (run.info.start_time, run.info.run_id))
        for other in others:
            if other.data.tags.get(ORIGIN) == self._origin:
                self.client.delete_run(other.info.run_id)
        info, data = first.info, first.data
        return RemoteRun(
            info.run_id,
            info.experiment_id,
            info.start_time,
            info.status,
            info.artifact_uri,
            dict(data.tags),
            set(data.params),
            tuple(data.metrics),
        )

    def _update(self, known: RemoteRun, run: RunToWrite) -> None:
        """Make the known run match the wanted one, its status last."""
        tags = run.all_tags(None if known.created else known.tags)
        changed = {key: value for key, value in tags.items() if known.tags.get(key) != value}
        if known.is_complete(run):
            self._log(known, None, changed)
            return
        if known.status != RUNNING:  # a crash in the middle then leaves no complete run
            self.client.update_run(known.run_id, status=RUNNING)
            known.status = RUNNING
        for key in known.metrics:
            history = self.client.get_metric_history(known.run_id, key)
            known.last_steps[key] = max((value.step for value in history), default=-1)
        known.metrics = ()
        self._log(known, run, changed)
        self._write_artifacts(known, run.artifacts)
        if run.dataset is not None:
            self._log_dataset(known.run_id, run.dataset)
        if run.status != RUNNING:
            self.client.set_terminated(known.run_id, run.status, run.end)
            known.status = run.status

    def _log(self, known: RemoteRun, run: RunToWrite | None, tags: Mapping[str, str]) -> None:
        """Log all that is missing in one call (the client splits it if necessary)."""
        entities = self._entities
        values = [] if run is None else new_values(run.metric_values, known.last_steps)
        params = {} if run is None else run.params
        new_params = {key: value for key, value in params.items() if key not in known.params}
        if values or new_params or tags:
            self.client.log_batch(
                known.run_id,
                [entities.Metric(v.key, v.value, v.timestamp, v.step) for v in values],
                [entities.Param(key, value) for key, value in new_params.items()],
                [entities.RunTag(key, value) for key, value in tags.items()],
            )
        known.last_steps |= {value.key: value.step for value in values}
        known.params |= set(new_params)
        known.tags |= tags

    def _log_dataset(self, run_id: str, dataset: Dataset) -> None:
        """Add a run's dataset, if it does not have it yet: MLflow compares name and digest."""
        entities = self._entities
        read = entities.Dataset(dataset.name, dataset.digest, DATASET_KIND, dataset.source)
        tag = entities.InputTag(CONTEXT, TRAINING)
        self.client.log_inputs(run_id, [entities.DatasetInput(read, [tag])])

    def _write_artifacts(self, known: RemoteRun, artifacts: Mapping[str, bytes]) -> None:
        if not artifacts:
            return
        folder = local_folder(known.artifact_uri)
        try:
            if folder is not None:
                write_files(folder, artifacts)
                return
        except OSError as error:
            if not is_server(self.uri):
                raise
            # The server named a folder of its own host, so nothing can be sent there.
            reason = f"not written: {folder} is not on this host ({error.strerror})"
            self.client.set_tag(known.run_id, "ablate.artifacts", reason)
            return
        with tempfile.TemporaryDirectory() as buffer:
            write_files(Path(buffer), artifacts)
            self.client.log_artifacts(known.run_id, buffer)

    def _search(self, experiment_ids: list[str], condition: str, view: int = ACTIVE) -> list[Any]:
        return read_pages(
            lambda token: self.client.search_runs(
                experiment_ids, condition, view, max_results=PAGE, page_token=token
            )
        )

    def _read_in_new_ones(self, identity: tuple[str, str]) -> RemoteRun | None:
        """The run, if it is in an experiment that another driver has created since experiments were
        listed."""
        listed = self._all_experiments()
        self._experiments = (-EXPERIMENTS_SECONDS, [])
        return self._read(identity) if self._all_experiments() != listed else None

    def _all_experiments(self) -> list[str]:
        queried, ids = self._experiments
        if time.monotonic() - queried >= EXPERIMENTS_SECONDS:
            ids = [experiment.experiment_id for experiment in read_experiments(self.client)]
            self._experiments = (time.monotonic(), ids)
        return ids


def open_client(uri: str, tracking: Any) -> Any:
    """MLflow's client of a server or a database that answers."""
    with translate_errors(uri), quiet.silent_warnings():
        if not is_server(uri):
            with connected(uri):
                pass
        # By default, the registry is whatever MLFLOW_REGISTRY_URI names.
        return tracking.MlflowClient(uri, registry_uri=uri)


def status_of(uri: str) -> int:
    """The HTTP status of a server's answer to a request that only users with access may send."""
    login = quiet.load("mlflow.utils.credentials").get_default_host_creds(uri)
    ask = quiet.load("mlflow.utils.rest_utils").http_request
    query, how = {"max_results": 1}, {"raise_on_status": False}
    return ask(login, "/api/2.0/mlflow/experiments/search", "GET", params=query, **how).status_code


@contextlib.contextmanager
def connected(uri: str) -> Iterator[Any]:
    """Connect to a database once. MLflow tries ten times, for 100 seconds, before it gives up."""
    sqlalchemy, dialect = quiet.load("sqlalchemy"), uri.partition("://")[0].partition("+")[0]
    limits = {"connect_timeout": CONNECT_SECONDS} if dialect in ("postgresql", "mysql") else {}
    engine = sqlalchemy.create_engine(uri, connect_args=limits)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def read_experiments(client: Any) -> list[Any]:
    """The active experiments of a server."""
    return read_pages(lambda token: client.search_experiments(max_results=PAGE, page_token=token))


def read_pages(search: Callable[[Any], Any]) -> list[Any]:
    """All results of a search that returns one page for a token (None for the first)."""
    return [item for page in pages(search) for item in page]


def pages(search: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield the pages of a search, one at a time."""
    page = search(None)
    yield page
    while page.token:
        page = search(page.token)
        yield page


@contextlib.contextmanager
def translate_errors(uri: str) -> Iterator[None]:
    """Raise the errors of MLflow, its database and the network as `Away` or `Refused`."""
    try:
        yield
    except Exception as error:
        translated = _translate(error, uri)
        if translated is None:
            raise
        raise translated from error


def _translate(error: Exception, uri: str) -> Away | Refused | None:
    """Our error for an error of MLflow, its database or the network; None for any other."""
    mlflow = quiet.load("mlflow.exceptions")
    database = quiet.load("sqlalchemy.exc").SQLAlchemyError
    if not isinstance(error, mlflow.MlflowException | database | OSError):
        return None
    shown = redacted(uri)
    text = redacted(str(error)).strip().split("\n")[0][:300] or repr(error)
    if "out-of-date database schema" in text:
        return Away(
            f"the database {shown} was made by another version of MLflow. Keep a copy of it, then "
            f"run: mlflow db upgrade {shown}"
        )
    if getattr(error, "error_code", None) in REFUSALS:
        return Refused(f"{shown} refused a record: {text}")
    return Away(f"{shown} cannot store records now: {text}")


def server_lock(uri: str) -> contextlib.AbstractContextManager[None]:
    """Lock a server among this user's processes on this host."""
    return locked(own_temporary() / f"{digest(uri)}.lock", remove=True)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, and make the folders between."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _quote(value: str) -> str:
    return f'"{value}"' if "'" in value else f"'{value}'"
