"""Writes runs to an MLflow server or database through MLflow's own client, and alone does so.

A run is found by its identity tag, which is searched for on the whole server before a run is made.
An interrupted update is recognised: only a complete run has the wanted mark *and* the wanted
status, and a run is RUNNING while it is updated, so that a crash between two calls never looks
complete. After any failure the run is read again before anything else is sent.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ablate.record import quiet
from ablate.record.client import (
    PAGE,
    make_database,
    open_client,
    read_experiments,
    read_pages,
    server_lock,
    translate_errors,
)
from ablate.record.places import check_uri, is_server, local_folder
from ablate.record.tracking import (
    ARM_RUN,
    HOME,
    MARK,
    RUNNING,
    TRIAL,
    RunToWrite,
    new_values,
)
from ablate.results.facts import STUDY_RUN

MOST_CHARACTERS = 400_000  # of tags and params in a request, of which a server takes a million
SHORT = 500  # characters of a tag that a run is created with
ACTIVE, ALL = 1, 3  # MLflow's ViewType: without the runs that somebody deleted, and with them
OURS = f"tags.`{HOME}` LIKE '%'"  # experiments
IDENTITIES = (TRIAL, ARM_RUN, STUDY_RUN)
PLAIN = re.compile(r"[\w@.,()+/ -]+")  # a value that MLflow's search can quote
Identity = tuple[str, str]  # a tag that only one run of the server has


@dataclass
class Known:
    """What a server has of a run."""

    run_id: str
    experiment_id: str
    start: int  # milliseconds
    status: str
    artifact_uri: str
    tags: dict[str, str]
    is_active: bool = True  # False: somebody deleted it
    params: set[str] = field(default_factory=set)
    metrics: list[str] = field(default_factory=list)  # those whose last steps are still unknown
    last_steps: dict[str, int] = field(default_factory=dict)

    def shows(self, mark: str, status: str) -> bool:
        """Return whether the run is complete up to a mark."""
        return self.tags.get(MARK) == mark and self.status == status


class Server:
    """A server or database, and what is known of its runs. Raises `Away` or `Refused`."""

    def __init__(self, uri: str, artifacts: Path) -> None:
        self.uri, self._artifacts = check_uri(uri), artifacts
        with translate_errors(uri):
            if uri.startswith("sqlite:"):
                make_database(uri)
        self._entities = quiet.load("mlflow.entities")
        self.client = open_client(uri, quiet.load("mlflow.tracking"))
        self._known: dict[Identity, Known] = {}

    def open_experiment(self, name: str, tags: Mapping[str, str]) -> str:
        """Return the id of the experiment with this name, made if there is none; read its runs."""
        with translate_errors(self.uri):
            experiment = self.client.get_experiment_by_name(name)
            if experiment is None:
                return self._create_experiment(name, tags)
            found = experiment.experiment_id
            if experiment.lifecycle_stage == "deleted":
                self.client.restore_experiment(found)
            for key, value in tags.items():
                if experiment.tags.get(key) != value:
                    self.client.set_experiment_tag(found, key, value)
            self._known = _by_identity(self._search([found], "", ALL))
            return found

    def _create_experiment(self, name: str, tags: Mapping[str, str]) -> str:
        location = None  # a server chooses its own
        if not is_server(self.uri):
            location = (self._artifacts / re.sub(r"[^\w.@-]", "_", name)).absolute().as_uri()
        return self.client.create_experiment(name, location, dict(tags))

    def known(self, identity: Identity) -> Known | None:
        """The run as the server has it, as far as this process has read or written it."""
        return self._known.get(identity)

    def running(self, experiment_id: str) -> list[str]:
        """The trials of an experiment whose runs are marked as running."""
        return [
            value
            for (key, value), known in self._known.items()
            if key == TRIAL and known.is_active
            if (known.experiment_id, known.status) == (experiment_id, RUNNING)
        ]

    def put(self, experiment_id: str, run: RunToWrite) -> bool:
        """Create the run, or add what it lacks; return whether anything was written."""
        known = self._known.pop(run.identity, None)  # forgotten if anything fails now
        with translate_errors(self.uri):
            if known is None or not known.is_active or _starts_over(known, run):
                known = self._found_or_made(experiment_id, run)
            written = self._update(known, run)
        self._known[run.identity] = known
        return written

    def delete(self, identities: Iterable[Identity]) -> int:
        """Mark the runs with these tags as deleted; return how many there were."""
        with translate_errors(self.uri), server_lock(self.uri):
            found = [run for run in map(self._find, identities) if run is not None]
            for known in found:
                self.client.delete_run(known.run_id)
        return len(found)

    def _found_or_made(self, experiment_id: str, run: RunToWrite) -> Known:
        """Under a lock, so that `ablate report sync` during a study creates no second run."""
        with server_lock(self.uri):
            known = self._find(run.identity)
            if known is None:
                return self._create(experiment_id, run, run.all_tags(None))
            if not _starts_over(known, run):
                return known
            # The trial has started over, and MLflow deletes no values of an attempt that failed.
            self.client.delete_run(known.run_id)
            tags = {**known.tags, **run.all_tags(known.tags)}
            return self._create(known.experiment_id, run, tags)

    def _find(self, identity: Identity) -> Known | None:
        """The run with this tag, the oldest of several."""
        key, value = identity
        condition = f"= '{value}'" if PLAIN.fullmatch(value) else "LIKE '%'"
        # Listed now: another driver may have made one for a study that shares the trial.
        ours = [each.experiment_id for each in read_experiments(self.client, OURS)]
        return _by_identity(self._search(ours, f"tags.`{key}` {condition}")).get(identity)

    def _create(self, experiment_id: str, run: RunToWrite, tags: Mapping[str, str]) -> Known:
        """Make the run with its short tags; without the mark, which only a run that shows the
        journal has."""
        short = {k: v for k, v in tags.items() if k == run.identity[0] or len(v) <= SHORT}
        short.pop(MARK, None)
        return _known(self.client.create_run(experiment_id, start_time=run.start, tags=short))

    def _update(self, known: Known, run: RunToWrite) -> bool:
        """Make the known run match the wanted one, its status last."""
        tags = run.all_tags(known.tags)
        changed = {key: value for key, value in tags.items() if known.tags.get(key) != value}
        if run.status != RUNNING and known.shows(run.tags[MARK], run.status):
            self._log(known, {}, [], changed)  # nothing but tags can be missing
            return bool(changed)
        if known.status != RUNNING:  # a crash in the middle then leaves no complete run
            self.client.update_run(known.run_id, status=RUNNING)
            known.status = RUNNING
        params = {key: value for key, value in run.params.items() if key not in known.params}
        self._log(known, params, new_values(run.metric_values, self._last_steps(known)), changed)
        self._write_artifacts(known, run.artifacts)
        if run.dataset is not None:
            self._log_dataset(known.run_id, *run.dataset)
        if run.status != RUNNING:
            self.client.set_terminated(known.run_id, run.status, run.end)
            known.status = run.status
        return True

    def _last_steps(self, known: Known) -> dict[str, int]:
        while known.metrics:  # an epoch that is repeated takes other seconds, and has one value
            key = known.metrics.pop()
            history = self.client.get_metric_history(known.run_id, key)
            known.last_steps[key] = max((value.step for value in history), default=-1)
        return known.last_steps

    def _log(
        self,
        known: Known,
        params: Mapping[str, str],
        values: Sequence[Any],
        tags: Mapping[str, str],
    ) -> None:
        """Log all that is missing, in one request if it is not too long; the mark last."""
        entities, log = self._entities, self.client.log_batch
        long = sum(map(len, (*params.values(), *tags.values()))) > MOST_CHARACTERS
        first = {key: value for key, value in tags.items() if long and key != MARK}
        for key, value in first.items():
            log(known.run_id, tags=[entities.RunTag(key, value)])
        rest = [entities.RunTag(key, value) for key, value in tags.items() if key not in first]
        metrics = [entities.Metric(v.key, v.value, v.timestamp, v.step) for v in values]
        log(known.run_id, metrics, [entities.Param(k, v) for k, v in params.items()], rest)
        known.last_steps |= {value.key: value.step for value in values}
        known.params |= set(params)
        known.tags |= tags

    def _log_dataset(self, run_id: str, name: str, digest: str) -> None:
        """Add a run's dataset, if it does not have it yet: MLflow compares name and digest."""
        entities = self._entities
        read = entities.Dataset(name, digest, "local", json.dumps({"uri": name}))
        tag = entities.InputTag("mlflow.data.context", "training")
        self.client.log_inputs(run_id, [entities.DatasetInput(read, [tag])])

    def _write_artifacts(self, known: Known, artifacts: Mapping[str, bytes]) -> None:
        if not artifacts:
            return
        folder = self._folder(known.artifact_uri)
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

    def _folder(self, artifact_uri: str) -> Path | None:
        """Where artifacts are on this host, if they are; those that `ablate ui` serves too."""
        if artifact_uri.startswith("mlflow-artifacts:") and not is_server(self.uri):
            return self._artifacts / urlsplit(artifact_uri).path.lstrip("/")
        return local_folder(artifact_uri)

    def _search(self, experiment_ids: list[str], condition: str, view: int = ACTIVE) -> list[Any]:
        return read_pages(
            lambda token: self.client.search_runs(
                experiment_ids, condition, view, max_results=PAGE, page_token=token
            )
        )


def _known(run: Any) -> Known:
    info, data = run.info, run.data
    return Known(
        info.run_id,
        info.experiment_id,
        info.start_time,
        info.status,
        info.artifact_uri,
        dict(data.tags),
        info.lifecycle_stage == "active",
        set(data.params),
        list(data.metrics),
    )


def _by_identity(runs: Iterable[Any]) -> dict[Identity, Known]:
    """What is known of runs; of several with the same identity, the oldest active one."""
    known = sorted(map(_known, runs), key=lambda k: (not k.is_active, k.start, k.run_id))
    return {
        (key, one.tags[key]): one
        for one in reversed(known)
        for key in IDENTITIES
        if key in one.tags
    }


def _starts_over(known: Known, run: RunToWrite) -> bool:
    return known.start != run.start and run.restarts and bool(run.metric_values)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, and make the folders between."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
