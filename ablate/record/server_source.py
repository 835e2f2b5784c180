"""Reads the records of any MLflow server: what has changed, without relying on clocks.

A server returns whole runs, one page at a time, newest start first, and has no query for "changed
since". Reading all of 20,000 runs takes a minute; assuming that new runs have the latest start
misses what a machine with a wrong clock recorded, or a study that was delivered late. So the order
of starts only decides where to look first; *positions* prove that nothing was missed (see
`listing`).

A known run may still change: runs that had not ended with a result (by their mark, see
`runs.mark_of`) are read again by id; a trial with a result that is run again has another start. A
study's run with a new mark may share trials of other studies: these trials are queried by the tag
that shares them.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ablate.record import quiet, runs
from ablate.record.client import open_client, pages, read_experiments, read_pages, translate_errors
from ablate.record.listing import PAGE, Entry, Listing, Span
from ablate.record.places import is_server
from ablate.record.tracking import (
    ALSO_IN,
    ARM_RUN,
    FINAL,
    HOME,
    MARK,
    NUM_PARAMETERS,
    STUDY_RUN,
    TRIAL,
    Seen,
    StoredRun,
    unlimited,
)

BULK = 100  # runs whose histories a server returns in one response ...
BULK_VALUES = 25_000  # ... of at most this many values
THREADS = 4  # concurrent queries of histories: a server has 4 processes by default
IDS = 200  # in one query
SETTLED = ("completed:", "pruned:")  # marks of trials that change only if they are run again


class ServerSource:
    """The same as `DatabaseSource` for any server. Raises `Away` if the server does not answer."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        tracking = quiet.load("mlflow.tracking")
        self._tokens = quiet.load("mlflow.utils.search_utils").SearchUtils
        self._views = quiet.load("mlflow.entities").ViewType
        # Loaded here: `quiet` admits one thread at a time, and several query histories.
        self._rest = quiet.load("mlflow.utils.rest_utils")
        self._credentials = quiet.load("mlflow.utils.credentials")
        self._client = open_client(uri, tracking)
        self._runs: dict[str, Any] = {}

    def changes(self, known: Mapping[str, Seen]) -> tuple[dict[str, Seen], list[str]]:
        """Return the runs that are new or changed, and the ids of those that are gone."""
        with translate_errors(self.uri), quiet.silent_warnings():
            experiments = read_experiments(self._client)
            self._experiments = [e.experiment_id for e in experiments if HOME in e.tags]  # ours
            if not self._experiments:
                return {}, list(known)
            entries = [Entry(seen.start, run_id) for run_id, seen in known.items()]
            entries.sort(key=lambda entry: entry.sort_key)
            gone = Listing(self._fetch_page, entries, self._runs, self._deleted()).reconcile()
            self._find_changed({k: v for k, v in known.items() if k not in gone})
            self._find_shared(known)
        # The numbers of an arm's run are made of its trials', which are read themselves.
        trials = {i: run for i, run in self._runs.items() if ARM_RUN not in run.data.tags}
        seen = {run_id: _seen(run) for run_id, run in trials.items() if run_id not in gone}
        return {i: now for i, now in seen.items() if known.get(i) != now}, gone

    def _fetch_page(self, span: Span, offset: int, limit: int) -> tuple[list[Any], bool]:
        token = self._tokens.create_page_token(offset) if offset else None
        bounds = (("<", span.newest), (">=", span.oldest))
        conditions = [f"attributes.start_time {sign} {at}" for sign, at in bounds if at is not None]
        page = self._search(" AND ".join(conditions), limit, token)
        return list(page), bool(page.token)

    def _deleted(self) -> Iterator[set[str]]:
        """The ids of the runs that were deleted and not yet purged, by page."""
        view = self._views.DELETED_ONLY
        for page in pages(lambda token: self._search("", PAGE, token, view)):
            yield {run.info.run_id for run in page}

    def _search(self, condition: str, limit: int, token: Any, view: Any = None) -> Any:
        view = self._views.ACTIVE_ONLY if view is None else view
        return self._client.search_runs(
            self._experiments, condition, view, max_results=limit, page_token=token
        )

    def _read_runs(self, condition: str) -> None:
        matches = read_pages(lambda token: self._search(condition, PAGE, token))
        self._runs |= {run.info.run_id: run for run in matches}

    def _find_changed(self, known: Mapping[str, Seen]) -> None:
        """Read the runs that may have changed since, by the marks and statuses that they had.

        A run that is delivered has its mark before all its numbers, and its status last.
        """
        run_ids = []
        for run_id, seen in known.items():
            mark, status, *_ = seen.signature.split("|")
            is_trial = mark.count(":") > 1  # a study's mark has one colon
            settled = mark.startswith(SETTLED) and status != "RUNNING"
            if is_trial and not settled and run_id not in self._runs:
                run_ids.append(run_id)
        for first in range(0, len(run_ids), IDS):
            ids = ", ".join(f"'{run_id}'" for run_id in run_ids[first : first + IDS])
            self._read_runs(f"attributes.run_id IN ({ids})")

    def _find_shared(self, known: Mapping[str, Seen]) -> None:
        """Read the runs of studies, and the trials that changed studies share with others."""
        self._read_runs(f"tags.`{STUDY_RUN}` LIKE '%'")
        for run in list(self._runs.values()):
            key = run.data.tags.get(STUDY_RUN)
            if key and known.get(run.info.run_id) != _seen(run):
                self._read_runs(f"tags.`{ALSO_IN}{runs.tag_key(key)}` LIKE '%'")

    def read(self, run_ids: list[str]) -> Iterator[list[StoredRun]]:
        """Yield runs in batches, their learning curves fetched in bulk."""
        for first in range(0, len(run_ids), BULK):
            chunk = [self._runs[run_id] for run_id in run_ids[first : first + BULK]]
            with translate_errors(self.uri), quiet.silent_warnings():
                steps = self._steps(chunk)
                batch = [self._stored_run(run, steps[run.info.run_id]) for run in chunk]
            yield batch

    def _stored_run(self, run: Any, steps: dict[int, dict[str, float]]) -> StoredRun:
        return StoredRun(
            run_id=run.info.run_id,
            start=run.info.start_time,
            end=run.info.end_time,
            tags=dict(run.data.tags),
            params=dict(run.data.params),
            numbers={name: unlimited(value) for name, value in run.data.metrics.items()},
            steps=[{"epoch": step, **numbers} for step, numbers in sorted(steps.items())],
            study_json=self._study_json(run),
        )

    def _steps(self, chunk: list[Any]) -> dict[str, dict[int, dict[str, float]]]:
        """The metrics by run and step."""
        steps: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        by_name: dict[str, list[str]] = defaultdict(list)
        for run in (run for run in chunk if TRIAL in run.data.tags):
            for name in run.data.metrics:
                if not name.startswith(FINAL) and name != NUM_PARAMETERS:
                    by_name[name].append(run.info.run_id)
        with ThreadPoolExecutor(THREADS) as threads:
            histories = threads.map(self._history, by_name, by_name.values())
            for name, history in zip(by_name, histories, strict=True):
                for run_id, step, value in history:
                    steps[run_id][step][name] = unlimited(value)
        return steps

    def _history(self, name: str, run_ids: list[str]) -> list[tuple[str, int, float]]:
        """Return a metric's values in many runs, by a single request if the server can."""
        found = self._bulk(name, run_ids) if is_server(self.uri) else None
        if found is not None and len(found) < BULK_VALUES:  # a full response may have been cut
            return [(v["run_id"], int(v["step"]), float(v["value"])) for v in found]
        return [
            (run_id, value.step, value.value)
            for run_id in run_ids
            for value in self._client.get_metric_history(run_id, name)
        ]

    def _bulk(self, name: str, run_ids: list[str]) -> list[dict[str, Any]] | None:
        response = self._rest.http_request(
            self._credentials.get_default_host_creds(self.uri),
            "/ajax-api/2.0/mlflow/metrics/get-history-bulk",  # for MLflow's UI; its client has none
            "GET",
            params={"metric_key": name, "run_id": run_ids, "max_results": BULK_VALUES},
        )
        return response.json().get("metrics", []) if response.status_code == 200 else None

    def _study_json(self, run: Any) -> str | None:
        """A study's record, which is an artifact once the study has paused or ended."""
        if STUDY_RUN not in run.data.tags or run.info.status == "RUNNING":
            return None
        exceptions = quiet.load("mlflow.exceptions")
        with tempfile.TemporaryDirectory() as folder:
            try:
                path = self._client.download_artifacts(run.info.run_id, "study.json", folder)
                return Path(path).read_text(encoding="utf-8")
            except (exceptions.MlflowException, OSError):  # the run's tags have to do (`arms`)
                return None

    def close(self) -> None:
        """Nothing to close."""


def _seen(run: Any) -> Seen:
    tags = run.data.tags
    shared = [f"{key}={tags[key]}" for key in sorted(tags) if key.startswith(ALSO_IN)]
    parts = (tags.get(MARK, ""), run.info.status, str(run.info.end_time), *shared)
    return Seen(run.info.start_time or 0, "|".join(parts))
