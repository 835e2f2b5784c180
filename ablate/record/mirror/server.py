"""Reads the rows of trials and studies from a server, where `ablate report sync` has exported them.

Each run has its rows in tags, as JSON: `ablate.row` and `ablate.epochs` of a trial, `ablate.study`
(the study's record) of a study; what a tag has no room for goes on in `ablate.row.2`, and so on.
So pages of runs say everything, through MLflow's public client.

A server has no query for "changed since". But whoever exports a trial exports its study's run too:
trials are read again where any tag of their study's run is another one, and while the study runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ablate.record import quiet
from ablate.record.client import open_client, read_experiments, read_pages, translate_errors
from ablate.record.tracking import ALSO_IN, EPOCHS, ROW, STUDY, in_one
from ablate.redaction import redacted
from ablate.results.facts import HOME, NUMBER, STUDY_RUN, TEXT, TRIAL, TRUTH, WHOLE
from ablate.results.rows import (
    EPOCH_COLUMNS,
    TRIAL_COLUMNS,
    Recorded,
    Row,
    StudyStatus,
    study_row,
    tag_key,
)
from ablate.store import study_record
from ablate.store.numbers import number, without_nan
from ablate.store.study_record import StudyRecord

OF_STUDIES, OF_TRIALS = f"tags.`{STUDY_RUN}` LIKE '%'", f"tags.`{TRIAL}` LIKE '%'"
PAGE = 200  # runs
FACTS = {name: kind for name, kind in TRIAL_COLUMNS.items() if name not in EPOCH_COLUMNS}
TYPES: dict[str, type] = {TEXT: str, WHOLE: int, TRUTH: bool}


class SeenStudy(NamedTuple):
    """A study's run as it was read, with the runs of its trials."""

    tags: str = ""  # a hash
    trials: Sequence[str] = ()
    unread: int = 0  # runs without rows


class ServerSource:
    """The same as `StoreSource` for a server. Raises `Away` if the server does not answer."""

    records: Mapping[str, StudyRecord] = {}

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._client = open_client(uri, quiet.load("mlflow.tracking"))
        views = quiet.load("mlflow.entities").ViewType
        self._active, self._deleted = views.ACTIVE_ONLY, views.DELETED_ONLY
        self._experiments: list[str] = []
        self._studies: dict[str, SeenStudy] = {}
        self._due: dict[str, Any] = {}  # the runs of studies whose trials are read

    def changes(self, known: Mapping[str, Any]) -> tuple[set[str], set[str]]:
        """The runs whose rows may be new, and the runs that are gone."""
        before = {run_id: SeenStudy(*entry) for run_id, entry in known.items()}
        with translate_errors(self._uri), quiet.silent_warnings():
            experiments = read_experiments(self._client)
        self._experiments = [e.experiment_id for e in experiments if HOME in e.tags]  # ours
        deleted = {run.info.run_id for run in self._search("", self._deleted)}
        for run in self._search(OF_STUDIES):
            run_id, known_as = run.info.run_id, before.get(run.info.run_id, SeenStudy())
            trials = [one for one in known_as.trials if one not in deleted]
            self._studies[run_id] = known_as._replace(tags=_digest(run), trials=trials)
            is_new = known_as.tags != self._studies[run_id].tags
            if is_new or run.data.tags.get("status") == StudyStatus.RUNNING:
                self._due[run_id] = run
        due = {run_id: self._studies[run_id] for run_id in self._due}
        return _runs_of(due), _runs_of(before) - _runs_of(self._studies)

    def read(self) -> Iterator[list[Recorded]]:
        """Yield the rows of studies that have changed, and those of their trials."""
        done: set[str] = set()
        for run_id, run in self._due.items():
            before, key = self._studies[run_id], run.data.tags[STUDY_RUN]
            own = self._search(OF_TRIALS, within=[run.info.experiment_id])
            shared = self._search(f"tags.`{ALSO_IN}{tag_key(key)}` LIKE '%'")
            runs = {each.info.run_id: each for each in (run, *own, *shared)}
            rows = {one: _row(each) for one, each in runs.items() if one not in done}
            done.update(rows)
            unread = sum(_row(each) is None for each in (run, *own))
            trials = [each.info.run_id for each in own]
            self._studies[run_id] = before._replace(trials=trials, unread=unread)
            yield [row for row in rows.values() if row is not None]

    @property
    def seen(self) -> dict[str, SeenStudy]:
        """What the next source of this server compares with."""
        return self._studies

    @property
    def notes(self) -> list[str]:
        """How many runs have no rows."""
        num = sum(study.unread for study in self._studies.values())
        runs = "1 run was" if num == 1 else f"{num} runs were"
        again = f"ablate report sync --mlflow {redacted(self._uri)}"
        which = "it" if num == 1 else "them"
        why = f"{runs} exported by an earlier version; `{again}` exports {which} again."
        return [why] if num else []

    def close(self) -> None:
        """Nothing to close."""

    def _search(
        self, condition: str, view: Any = None, within: list[str] | None = None
    ) -> list[Any]:
        """All runs of our experiments, or `within` some, under a condition."""
        chosen = within or self._experiments
        search = partial(self._client.search_runs, chosen, condition, view or self._active, PAGE)
        with translate_errors(self._uri), quiet.silent_warnings():
            return read_pages(lambda token: search(page_token=token)) if chosen else []


def _runs_of(studies: Mapping[str, SeenStudy]) -> set[str]:
    return {run_id for one, study in studies.items() for run_id in (one, *study.trials)}


def _digest(run: Any) -> str:
    """A hash of all that a study's run says."""
    said = json.dumps([run.info.status, dict(run.data.tags)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _row(run: Any) -> Recorded | None:
    """The rows in a run's tags; None if it has none, or none that can be read."""
    tags, run_id = run.data.tags, run.info.run_id
    try:
        if TRIAL in tags:
            return Recorded(run_id, _trial(_plain(tags, ROW)), _epochs(_plain(tags, EPOCHS)))
        record = study_record.from_plain(_plain(tags, STUDY))
        return Recorded(run_id, study=study_row(record, StudyStatus(tags["status"])))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _plain(tags: Mapping[str, str], name: str) -> Any:
    return json.loads(in_one(name, tags))


def _trial(plain: Mapping[str, Any]) -> dict[str, Row]:
    """A trial's row, of what this version knows: others may have written it."""
    return {
        "facts": {name: _fact(kind, plain["facts"].get(name)) for name, kind in FACTS.items()},
        "results": {name: v for name, v in plain["results"].items() if number(v) is not None},
        "config": {n: v for n, v in plain["config"].items() if isinstance(v, str | int | float)},
    }


def _fact(kind: str, value: Any) -> Any:
    fits = number(value) is not None if kind == NUMBER else type(value) is TYPES.get(kind)
    return value if fits else None


def _epochs(plain: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns of equal length."""
    numbers = [int(epoch) for epoch in plain.get("epoch", ())]
    others = {name: [*map(number, values)] for name, values in plain.items() if name != "epoch"}
    columns = {name: without_nan(v) for name, v in others.items() if len(v) == len(numbers)}
    return {"epoch": numbers, **columns}
