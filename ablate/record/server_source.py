"""The records of any MLflow server, for the mirror: what has changed, found without a clock.

A server tells runs a page at a time, whole, newest start first, and has no word for "changed
since". Reading all of 20,000 takes a minute; believing that what is new has the latest start
misses what a machine with a wrong clock recorded, or a study that was delivered late. So the
order of starts is only where we look first; what proves that nothing was missed is *position*.
Both sides sort alike (start, then id), so when we hold exactly the server's runs, ours at place k
is the server's at place k, for every k:

1. a page from the top, and more as long as they show runs that we do not know;
2. the server's last place is asked for, and some between. Where one shows another run than ours,
   bisection finds the first place that does (15 questions for 20,000), and the page there shows
   which run came in between, or which of ours is gone. Again, until all places agree.

A run that we know may still change: those that have not come to their end (by their mark, see
`runs.mark_of`) are asked for by id, with "and has another mark than this". A study's run whose
mark is new may have taken in trials of others: these are asked for by the tag that says so. Runs
deleted in the UI are asked for as such.
"""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.record import quiet, runs
from ablate.record.client import answering
from ablate.record.places import is_server
from ablate.record.recorded import ALSO_IN, FINAL, NUM_PARAMETERS, Record, Seen
from ablate.record.tracking import HOME, MARK, STUDY_RUN

FIRST_PAGE, PAGE = 25, 200  # runs; a server takes 5 ms and more for each of them
BULK = 100  # runs whose histories a server gives in one answer ...
BULK_POINTS = 25_000  # ... of so many points at most
PROBES = 4  # less one: places between the ends that are compared too
ROUNDS = 40  # of looking for a difference, before all pages are read
IDS = 200  # named in one question
SETTLED = ("completed:", "pruned:")  # marks of trials that change no more


@dataclass(frozen=True)
class Entry:
    """A run in the order of the server: newest start first, then by id."""

    start: int
    run_id: str

    @property
    def place(self) -> tuple[int, str]:
        return (-self.start, self.run_id)


@dataclass
class Listing:
    """A list of ours made equal to the server's, which shows `limit` runs from any place."""

    show: Callable[[int, int], list[Any]]  # (offset, limit) -> runs
    entries: list[Entry]
    found: dict[str, Any]  # the runs that the server has shown, by id

    def reconcile(self) -> list[str]:
        """Take in what is new; the ids of those that are gone."""
        before = {entry.run_id for entry in self.entries}
        if not self.entries:
            self._sweep()
            return []
        agreed, limit = 0, FIRST_PAGE
        for turn in range(ROUNDS):
            near = agreed + limit  # what came late often lies together: no need to look for it
            if turn == 0 or (near < len(self.entries) and not self._agrees(near)):
                place = agreed
            else:
                place = self._first_difference(agreed)
            if place is None:
                break
            known = len(self.entries)
            agreed = self._take_in(place, limit)
            many = 4 * (len(self.entries) - known) >= limit
            limit = min(PAGE, 2 * limit) if many else FIRST_PAGE
        else:
            self._sweep()
        return sorted(before - {entry.run_id for entry in self.entries})

    def _sweep(self) -> None:
        """Every page: too much lies elsewhere to look for it one by one."""
        self.entries, offset = [], 0
        while page := self._shown(offset, PAGE):
            self.entries += page
            offset += len(page)
        self.entries = sorted(set(self.entries), key=lambda entry: entry.place)

    def _first_difference(self, agreed: int) -> int | None:
        """The first place from `agreed` on that shows another run than ours, if there is one."""
        num = len(self.entries)
        parts = {agreed + (num - agreed) * part // PROBES for part in range(1, PROBES)}
        last = agreed - 1
        for place in sorted({*parts, num - 1, num}):
            if place < agreed:
                continue
            if not self._agrees(place):
                return self._bisected(last, place)
            last = place
        return None

    def _bisected(self, agrees: int, differs: int) -> int:
        while differs - agrees > 1:
            middle = (agrees + differs) // 2
            if self._agrees(middle):
                agrees = middle
            else:
                differs = middle
        return max(0, differs)

    def _agrees(self, place: int) -> bool:
        """Whether the server has the run there that we have; after our last, none."""
        ours = self.entries[place : place + 1]
        return [e.run_id for e in self._shown(place, 1)] == [e.run_id for e in ours]

    def _take_in(self, place: int, limit: int) -> int:
        """From the first difference on, as far as the page goes, the server is right."""
        page = self._shown(place, limit)
        until = page[-1].place if len(page) == limit else None
        shown = {entry.run_id for entry in page}
        later = [e for e in self.entries[place:] if until is not None and e.place > until]
        kept = [e for e in (*self.entries[:place], *later) if e.run_id not in shown]
        self.entries = sorted([*kept, *page], key=lambda entry: entry.place)
        return place + len(page)

    def _shown(self, offset: int, limit: int) -> list[Entry]:
        page = self.show(offset, limit)
        self.found |= {run.info.run_id: run for run in page}
        return [Entry(run.info.start_time or 0, run.info.run_id) for run in page]


class ServerSource:
    """A `Source` through MLflow's client. Raises `Away` where the server does not answer."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        tracking = quiet.load("mlflow.tracking")
        self._tokens = quiet.load("mlflow.utils.search_utils").SearchUtils
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
            gone = Listing(self._show, entries, self._found).reconcile()
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

    def _show(self, offset: int, limit: int) -> list[Any]:
        token = self._tokens.create_page_token(offset) if offset else None
        return self._search("", limit, token)

    def _search(self, words: str, limit: int, token: str | None = None) -> list[Any]:
        return self._client.search_runs(
            self._experiments, words, max_results=limit, page_token=token
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
        for name, run_ids in by_name.items():
            for run_id, step, value in self._history(name, run_ids):
                found[run_id][step][name] = _finite(value)
        return found

    def _history(self, name: str, run_ids: list[str]) -> Iterator[tuple[str, int, float]]:
        """A metric of many runs in one answer where the server gives that, else one by one."""
        points = self._bulk(name, run_ids) if is_server(self.uri) else None
        if points is not None and len(points) < BULK_POINTS:
            for point in points:
                yield point["run_id"], int(point["step"]), float(point["value"])
            return
        for run_id in run_ids:
            for point in self._client.get_metric_history(run_id, name):
                yield run_id, point.step, point.value

    def _bulk(self, name: str, run_ids: list[str]) -> list[dict[str, Any]] | None:
        rest = quiet.load("mlflow.utils.rest_utils")
        creds = quiet.load("mlflow.utils.credentials")
        answer = rest.http_request(
            creds.get_default_host_creds(self.uri),
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
