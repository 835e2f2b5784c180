"""The records of any MLflow server, for the mirror: what has changed, found without a clock.

A server tells runs a page at a time, whole, newest start first, and has no word for "changed
since". Reading all of 20,000 takes a minute; believing that what is new has the latest start
misses what a machine with a wrong clock recorded, or a study that was delivered late. So the
order of starts is only where we look first; what proves that nothing was missed is *position*:
`listing` has how.

A run that we know may still change: those that have not come to their end (by their mark, see
`runs.mark_of`) are asked for by id, with "and has another mark than this". A study's run whose
mark is new may have taken in trials of others: these are asked for by the tag that says so.
"""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ablate.record import quiet, runs
from ablate.record.client import answering
from ablate.record.listing import PAGE, Entry, Listing, Span
from ablate.record.places import is_server
from ablate.record.recorded import ALSO_IN, FINAL, NUM_PARAMETERS, Record, Seen
from ablate.record.tracking import HOME, MARK, STUDY_RUN

BULK = 100  # runs whose histories a server gives in one answer ...
BULK_POINTS = 25_000  # ... of so many points at most
ANSWERS = 4  # histories asked for at once: as many processes a server has, if not told otherwise
IDS = 200  # named in one question
SETTLED = ("completed:", "pruned:")  # marks of trials that change no more


class ServerSource:
    """A `Source` through MLflow's client. Raises `Away` where the server does not answer."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        tracking = quiet.load("mlflow.tracking")
        self._tokens = quiet.load("mlflow.utils.search_utils").SearchUtils
        self._views = quiet.load("mlflow.entities").ViewType
        # Here, for `quiet` lets one thread in at a time, and histories are asked for by several.
        self._rest = quiet.load("mlflow.utils.rest_utils")
        self._credentials = quiet.load("mlflow.utils.credentials")
        with answering(uri), quiet.silent_warnings():
            self._client = tracking.MlflowClient(uri, registry_uri=uri)
        self._found: dict[str, Any] = {}

    def changes(self, known: Mapping[str, Seen]) -> tuple[dict[str, Seen], list[str]]:
        with answering(self.uri), quiet.silent_warnings():
            self._experiments = self._ours()
            if not self._experiments:
                return {}, list(known)
            entries = [Entry(seen.start, run_id) for run_id, seen in known.items()]
            entries.sort(key=lambda entry: entry.place)
            gone = Listing(self._show, entries, self._found, self._deleted()).reconcile()
            self._ask_again({k: v for k, v in known.items() if k not in gone})
            self._ask_guests(known)
        seen = {run_id: _seen(run) for run_id, run in self._found.items() if run_id not in gone}
        return {i: now for i, now in seen.items() if known.get(i) != now}, gone

    def _ours(self) -> list[str]:
        """The experiments that hold studies."""
        found, token = [], None
        while True:
            page = self._client.search_experiments(max_results=1000, page_token=token)
            found += [each.experiment_id for each in page if HOME in each.tags]
            token = page.token
            if not token:
                return found

    def _show(self, span: Span, offset: int, limit: int) -> tuple[list[Any], bool]:
        token = self._tokens.create_page_token(offset) if offset else None
        bounds = (("<", span.newest), (">=", span.oldest))
        words = [f"attributes.start_time {sign} {at}" for sign, at in bounds if at is not None]
        page: Any = self._search(" AND ".join(words), limit, token)
        return list(page), bool(page.token)

    def _deleted(self) -> Iterator[set[str]]:
        """The ids of the runs that were deleted, and not yet purged."""
        token = None
        while True:
            page: Any = self._search("", PAGE, token, self._views.DELETED_ONLY)
            yield {run.info.run_id for run in page}
            token = page.token
            if not token:
                return

    def _search(self, words: str, limit: int, token: Any = None, view: Any = None) -> list[Any]:
        view = self._views.ACTIVE_ONLY if view is None else view
        return self._client.search_runs(
            self._experiments, words, view, max_results=limit, page_token=token
        )

    def _all(self, words: str) -> None:
        token = None
        while True:
            page: Any = self._search(words, PAGE, token)
            self._found |= {run.info.run_id: run for run in page}
            token = page.token
            if not token:
                return

    def _ask_again(self, known: Mapping[str, Seen]) -> None:
        """Runs that may have changed, by the marks that they had."""
        by_mark: dict[str, list[str]] = defaultdict(list)
        for run_id, seen in known.items():
            mark = seen.signature.split("|")[0]
            is_trial = mark.count(":") == 2
            if is_trial and not mark.startswith(SETTLED) and run_id not in self._found:
                by_mark[mark].append(run_id)
        for mark, run_ids in by_mark.items():
            for first in range(0, len(run_ids), IDS):
                named = ", ".join(f"'{run_id}'" for run_id in run_ids[first : first + IDS])
                self._all(f"attributes.run_id IN ({named}) AND tags.`{MARK}` != '{mark}'")

    def _ask_guests(self, known: Mapping[str, Seen]) -> None:
        """Studies, and the trials that they share with those they took them over from."""
        self._all(f"tags.`{STUDY_RUN}` LIKE '%'")
        for run in list(self._found.values()):
            key = run.data.tags.get(STUDY_RUN)
            if key and known.get(run.info.run_id) != _seen(run):
                self._all(f"tags.`{ALSO_IN}{runs.tag_key(key)}` LIKE '%'")

    def read(self, run_ids: list[str]) -> Iterator[list[Record]]:
        for first in range(0, len(run_ids), BULK):
            some = [self._found[run_id] for run_id in run_ids[first : first + BULK]]
            with answering(self.uri), quiet.silent_warnings():
                steps = self._steps(some)
                batch = [self._record(run, steps[run.info.run_id]) for run in some]
            yield batch

    def _record(self, run: Any, steps: dict[int, dict[str, float]]) -> Record:
        return Record(
            run_id=run.info.run_id,
            start=run.info.start_time,
            end=run.info.end_time,
            tags=dict(run.data.tags),
            params=dict(run.data.params),
            numbers={name: _finite(value) for name, value in run.data.metrics.items()},
            steps=[{"epoch": step, **numbers} for step, numbers in sorted(steps.items())],
            study_json=self._study_json(run),
        )

    def _steps(self, some: list[Any]) -> dict[str, dict[int, dict[str, float]]]:
        """The numbers by run and step."""
        found: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        by_name: dict[str, list[str]] = defaultdict(list)
        for run in some:
            for name in run.data.metrics:
                if not name.startswith(FINAL) and name != NUM_PARAMETERS:
                    by_name[name].append(run.info.run_id)
        with ThreadPoolExecutor(ANSWERS) as threads:
            histories = threads.map(self._history, by_name, by_name.values())
            for name, points in zip(by_name, histories, strict=True):
                for run_id, step, value in points:
                    found[run_id][step][name] = _finite(value)
        return found

    def _history(self, name: str, run_ids: list[str]) -> list[tuple[str, int, float]]:
        """A metric of many runs in one answer where the server gives that, else one by one."""
        points = self._bulk(name, run_ids) if is_server(self.uri) else None
        if points is not None and len(points) < BULK_POINTS:
            return [(p["run_id"], int(p["step"]), float(p["value"])) for p in points]
        return [
            (run_id, point.step, point.value)
            for run_id in run_ids
            for point in self._client.get_metric_history(run_id, name)
        ]

    def _bulk(self, name: str, run_ids: list[str]) -> list[dict[str, Any]] | None:
        answer = self._rest.http_request(
            self._credentials.get_default_host_creds(self.uri),
            "/ajax-api/2.0/mlflow/metrics/get-history-bulk",
            "GET",
            params={"metric_key": name, "run_id": run_ids, "max_results": BULK_POINTS},
        )
        return answer.json().get("metrics", []) if answer.status_code == 200 else None

    def _study_json(self, run: Any) -> str | None:
        """A study's record; it is among the artifacts once the study has paused or ended."""
        if STUDY_RUN not in run.data.tags or run.info.status == "RUNNING":
            return None
        exceptions = quiet.load("mlflow.exceptions")
        with tempfile.TemporaryDirectory() as place:
            try:
                path = self._client.download_artifacts(run.info.run_id, "study.json", place)
                return Path(path).read_text(encoding="utf-8")
            except (exceptions.MlflowException, OSError):
                return None

    def close(self) -> None:
        """A client holds nothing."""


def _seen(run: Any) -> Seen:
    tags = run.data.tags
    shared = [f"{key}={tags[key]}" for key in sorted(tags) if key.startswith(ALSO_IN)]
    parts = (tags.get(MARK, ""), run.info.status, str(run.info.end_time), *shared)
    return Seen(run.info.start_time or 0, "|".join(parts))


def _finite(value: float) -> float:
    """An infinity is recorded as the largest number there is."""
    return math.copysign(math.inf, value) if abs(value) >= 1.7976931348623157e308 else value
