"""Any MLflow server, through MLflow's own client.

A run is looked for on the whole server by its identity tag before it is made. What was begun and
not finished is recognised: a run that shows its wish whole has the wish's mark *and* its status,
and while it is changed it is RUNNING, so that a crash between two calls never looks whole. After
any failure a run is read again before more is said.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ablate.record import quiet
from ablate.record.places import digest, is_server, redacted
from ablate.record.tracking import (
    HOME,
    MARK,
    RUNNING,
    TRIAL,
    Away,
    Placed,
    Refused,
    Run,
    new_points,
)

ORIGIN = "ablate.origin"  # who made a run: only its maker removes a double
EXPERIMENTS_SECONDS = 30.0  # the server's list of experiments is asked for again after so long
PAGE = 1000
REFUSALS = (
    "INVALID_PARAMETER_VALUE",
    "INVALID_STATE",
    "RESOURCE_ALREADY_EXISTS",
    "RESOURCE_DOES_NOT_EXIST",
)


@dataclass
class Known:
    """A run on the server, as far as we know it."""

    run_id: str
    experiment_id: str
    status: str
    artifact_uri: str
    tags: dict[str, str]
    params: set[str] = field(default_factory=set)
    metrics: tuple[str, ...] = ()  # those whose last steps are not known yet
    last_steps: dict[str, int] = field(default_factory=dict)
    created: bool = False

    def shows(self, run: Run) -> bool:
        """Whether nothing but tags can be missing."""
        ended = run.status != RUNNING and self.status == run.status
        return ended and self.tags.get(MARK) == run.tags[MARK]


class ClientTracking:
    """A `Tracking` by MLflow's client; `artifacts` is where a database's experiments put theirs."""

    def __init__(self, uri: str, artifacts: Path | None) -> None:
        self.uri = uri
        self._artifacts = None if is_server(uri) else artifacts
        tracking = quiet.load("mlflow.tracking")
        self._entities = quiet.load("mlflow.entities")
        with answering(uri), quiet.silent_warnings():
            self.client = tracking.MlflowClient(uri, registry_uri=uri)
        self._origin = f"{socket.gethostname()}:{artifacts}"
        self._known: dict[tuple[str, str], Known] = {}  # the running ones
        self._doubtful: set[tuple[str, str]] = set()  # made perhaps twice
        self._experiments: tuple[float, list[str]] = (-EXPERIMENTS_SECONDS, [])

    def open_experiment(self, name: str, tags: Mapping[str, str]) -> str:
        with answering(self.uri):
            found = self.client.get_experiment_by_name(name)
            if found is None:
                return self._make_experiment(name, tags)
            if found.lifecycle_stage == "deleted":
                self.client.restore_experiment(found.experiment_id)
            for key, value in tags.items():
                if found.tags.get(key) != value:
                    self.client.set_experiment_tag(found.experiment_id, key, value)
            return found.experiment_id

    def _make_experiment(self, name: str, tags: Mapping[str, str]) -> str:
        location = None
        if self._artifacts is not None:
            location = (self._artifacts / re.sub(r"[^\w.@-]", "_", name)).absolute().as_uri()
        self._experiments = (-EXPERIMENTS_SECONDS, [])
        return self.client.create_experiment(name, location, dict(tags))

    def put(self, experiment_id: str, run: Run) -> Placed:
        with answering(self.uri):
            known = self._known.pop(run.identity, None)  # gone, should anything fail now
            known = known or self._find_or_make(experiment_id, run)
            self._bring(known, run)
        if run.status == RUNNING:
            self._known[run.identity] = known
        home = known.tags.get(HOME, run.home[HOME])
        return Placed(known.run_id, known.experiment_id, home, known.created)

    def running(self, experiment_id: str) -> list[str]:
        with answering(self.uri):
            found = self._search([experiment_id], "attributes.status = 'RUNNING'")
        return [run.data.tags[TRIAL] for run in found if TRIAL in run.data.tags]

    def settle(self) -> None:
        for identity in list(self._doubtful):
            with answering(self.uri):
                self._read(identity)
            self._doubtful.discard(identity)

    def _find_or_make(self, experiment_id: str, run: Run) -> Known:
        """Alone, so that `ablate sync` beside a running study does not make the same run."""
        with alone(self.uri):
            return self._read(run.identity) or self._create(experiment_id, run)

    def _create(self, experiment_id: str, run: Run) -> Known:
        tags = {**run.all_tags(None), ORIGIN: self._origin}
        del tags[MARK]
        self._doubtful.add(run.identity)
        made = self.client.create_run(experiment_id, start_time=run.start, tags=tags)
        self._doubtful.discard(run.identity)
        info = made.info
        return Known(
            info.run_id, info.experiment_id, RUNNING, info.artifact_uri, tags, created=True
        )

    def _read(self, identity: tuple[str, str]) -> Known | None:
        """The run on the server; doubles that we made, after a call without an answer, go."""
        key, value = identity
        found = self._search(self._all_experiments(), f"tags.`{key}` = {_quoted(value)}")
        if not found:
            return None
        first, *doubles = sorted(found, key=lambda run: (run.info.start_time, run.info.run_id))
        for double in doubles:
            if double.data.tags.get(ORIGIN) == self._origin:
                self.client.delete_run(double.info.run_id)
        info, data = first.info, first.data
        return Known(
            info.run_id,
            info.experiment_id,
            info.status,
            info.artifact_uri,
            dict(data.tags),
            set(data.params),
            tuple(data.metrics),
        )

    def _bring(self, known: Known, run: Run) -> None:
        """From what is known to what is wished; the status last."""
        tags = run.all_tags(None if known.created else known.tags)
        changed = {key: value for key, value in tags.items() if known.tags.get(key) != value}
        if known.shows(run):
            self._log(known, None, changed)
            return
        if known.status != RUNNING:
            self.client.update_run(known.run_id, status=RUNNING)
            known.status = RUNNING
        for key in known.metrics:
            history = self.client.get_metric_history(known.run_id, key)
            known.last_steps[key] = max((point.step for point in history), default=-1)
        known.metrics = ()
        self._log(known, run, changed)
        self._write_artifacts(known, run.artifacts)
        if run.status != RUNNING:
            self.client.set_terminated(known.run_id, run.status, run.end)
            known.status = run.status

    def _log(self, known: Known, run: Run | None, tags: Mapping[str, str]) -> None:
        """All that is missing in one call (the client cuts it into more where it must)."""
        make = self._entities
        points = [] if run is None else new_points(run.points, known.last_steps)
        params = {} if run is None else run.params
        new_params = {key: value for key, value in params.items() if key not in known.params}
        if points or new_params or tags:
            self.client.log_batch(
                known.run_id,
                [make.Metric(p.key, p.value, p.timestamp, p.step) for p in points],
                [make.Param(key, value) for key, value in new_params.items()],
                [make.RunTag(key, value) for key, value in tags.items()],
            )
        known.last_steps |= {point.key: point.step for point in points}
        known.params |= set(new_params)
        known.tags |= tags

    def _write_artifacts(self, known: Known, artifacts: Mapping[str, bytes]) -> None:
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
            # The server told us a folder of its own host, so nothing can be sent there.
            reason = f"not written: {folder} is not on this host ({error.strerror})"
            self.client.set_tag(known.run_id, "ablate.artifacts", reason)
            return
        with tempfile.TemporaryDirectory() as place:
            write_files(Path(place), artifacts)
            self.client.log_artifacts(known.run_id, place)

    def _search(self, experiment_ids: list[str], words: str) -> list[Any]:
        found, token = [], None
        while True:
            page = self.client.search_runs(
                experiment_ids, words, max_results=PAGE, page_token=token
            )
            found += page
            token = page.token
            if not token:
                return found

    def _all_experiments(self) -> list[str]:
        asked, ids = self._experiments
        if time.monotonic() - asked < EXPERIMENTS_SECONDS:
            return ids
        ids, token = [], None
        while True:
            page = self.client.search_experiments(max_results=PAGE, page_token=token)
            ids += [experiment.experiment_id for experiment in page]
            token = page.token
            if not token:
                break
        self._experiments = (time.monotonic(), ids)
        return ids


@contextlib.contextmanager
def answering(uri: str) -> Iterator[None]:
    """Whatever MLflow, its database or the network raise, as `Away` or `Refused`."""
    try:
        yield
    except Exception as error:
        told = _told(error, uri)
        if told is None:
            raise
        raise told from error


def _told(error: Exception, uri: str) -> Away | Refused | None:
    """Our error for one of theirs; None for one that is not theirs."""
    mlflow = quiet.load("mlflow.exceptions")
    database = quiet.load("sqlalchemy.exc").SQLAlchemyError
    if not isinstance(error, mlflow.MlflowException | database | OSError):
        return None
    place = redacted(uri)
    text = redacted(str(error).replace(uri, place)).strip().split("\n")[0][:300] or repr(error)
    if "out-of-date database schema" in text:
        return Away(
            f"the database {place} was made by another version of MLflow. Keep a copy of it, then "
            f"run: mlflow db upgrade {place}"
        )
    if getattr(error, "error_code", None) in REFUSALS:
        return Refused(f"{place} does not take a record: {text}")
    return Away(f"{place} does not take records now: {text}")


@contextlib.contextmanager
def alone(uri: str) -> Iterator[None]:
    """One process of this user and host at a time; a process that dies lets go."""
    place = Path(tempfile.gettempdir()) / f"ablate-{os.getuid()}-{digest(uri)}.lock"
    with place.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def local_folder(artifact_uri: str) -> Path | None:
    """The folder of a local artifact URI, None for any other."""
    parts = urlsplit(artifact_uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(artifact_uri) if parts.scheme == "" else None


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _quoted(value: str) -> str:
    return f'"{value}"' if "'" in value else f"'{value}'"
