"""A study delivered to an MLflow server: one experiment, a run for the study, one for each trial.

Everything is said from the store, so that it may be said again: a process killed between any two
calls leaves nothing that the next delivery does not put right.

    recorder = Recorder(store, uri, record, artifacts)
    recorder.begin()
    recorder.open()
    recorder.deliver(trial_id)      # as often as its journal changes
    recorder.finish(table, files)   # or pause()

    sync(store, uri, artifacts)     # everything that a server missed
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablate import journal as journals
from ablate import study_record
from ablate.errors import StoreError
from ablate.record import runs
from ablate.record.note import Note
from ablate.record.places import check_uri, redacted
from ablate.record.tracking import Placed, Refused, Tracking
from ablate.store import Store
from ablate.study_record import StudyRecord

RUNNING, PAUSED, FINISHED = "running", "interrupted", "finished"


@dataclass
class Delivery:
    """How a delivery ended: the trials that the server does not have, and why."""

    delivered: int = 0
    undelivered: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # trial -> what was wrong with it
    reason: str | None = None  # why a server has not everything

    @property
    def complete(self) -> bool:
        return not self.undelivered and not self.refused and self.reason is None


def open_tracking(uri: str, artifacts: Path) -> Tracking:
    """The server or database at a URI. Imports MLflow."""
    check_uri(uri)
    if uri.startswith("sqlite:"):
        from ablate.record.database import DatabaseTracking

        return DatabaseTracking(uri, artifacts)
    from ablate.record.client import ClientTracking

    return ClientTracking(uri, artifacts)


class Recorder:
    """Delivers one study to one server. Raises `Away`, and may then be asked again."""

    def __init__(
        self,
        store: Store,
        uri: str,
        record: StudyRecord,
        artifacts: str | Path,
        tracking: Tracking | None = None,
    ) -> None:
        self.store, self.uri = store, check_uri(uri)
        self._artifacts, self._tracking = Path(artifacts), tracking
        self._results = f"studies/{record.key}/results"
        self._note = Note(store, record.key, uri)
        self._experiment = self._parent = ""
        self.progress_at = time.monotonic()
        self.update(record)

    def update(self, record: StudyRecord) -> None:
        """The study as it is now: a search may have asked for more trials."""
        self._labels = runs.labels(record)
        self.record = record

    def begin(self) -> None:
        """Somebody runs the study from now on."""
        self._keep_state(RUNNING, started=self._state().get("started") or _now())

    def open(self, status: str = RUNNING) -> None:
        """Find or make the experiment and the study's run."""
        if self._tracking is None:
            self._tracking = open_tracking(self.uri, self._artifacts)
        record = self.record
        tags = runs.experiment_tags(record)
        self._experiment = self._tracking.open_experiment(record.key, tags)
        placed = self._put_study(status)
        self._note.open(f"{self._experiment}/{placed.run_id}", fresh=placed.created)
        self._parent = placed.run_id

    @property
    def uri_shown(self) -> str:
        """The server's URI without its password."""
        return redacted(self.uri)

    @property
    def is_open(self) -> bool:
        return bool(self._parent)

    def backlog(self) -> list[str]:
        """The trials that may have something to deliver."""
        return [trial for trial in self.record.trial_ids() if not self._note.settled(trial)]

    def undelivered(self) -> list[str]:
        """The trials whose journals say more than the server was told."""
        found = journals.read_all(self.store, self.backlog())
        return [
            trial_id
            for trial_id, journal in found.items()
            if not self._note.has(trial_id, runs.mark_of(journal, running=False))
        ]

    def deliver(self, trial_id: str, running: bool = False) -> bool:
        """Make the trial's run show its journal; False where there was nothing to say.

        `running` says whether somebody runs a trial that has no outcome yet.
        """
        journal = journals.read(self.store, trial_id)
        if journal is None:
            return False
        mark = runs.mark_of(journal, running)
        if self._note.has(trial_id, mark):
            return False
        label = self._labels.get(trial_id)
        wish = runs.trial_run(self.record, self._parent, journal, label, running)
        placed = self._server.put(self._experiment, wish)
        name = label.name if label else trial_id
        lives_here = placed.home == self.record.key
        self._note.add(trial_id, mark, None if lives_here else [name, placed.home, placed.run_id])
        self.progress_at = time.monotonic()
        return True

    def deliver_all(self, trial_ids: Iterable[str]) -> Delivery:
        """Deliver these trials; what the server refuses does not hold up the others."""
        result = Delivery()
        for trial_id in trial_ids:
            try:
                result.delivered += self.deliver(trial_id)
            except (Refused, StoreError) as error:
                result.refused[trial_id] = str(error)
        return result

    def finish(self, table_markdown: str, artifacts: Mapping[str, bytes | str]) -> Delivery:
        """The study is over: everything delivered, the table in its run."""
        self.keep_results(table_markdown, artifacts)
        return self.close()

    def pause(self) -> Delivery:
        """The study stops here for now: no run is said to be running."""
        self.keep_pause()
        return self.close()

    def keep_results(self, table_markdown: str, artifacts: Mapping[str, bytes | str]) -> None:
        """Put the results into the store, so that they can be delivered late."""
        for name, data in artifacts.items():
            content = data if isinstance(data, bytes) else data.encode()
            self.store.write(f"{self._results}/files/{name}", content)
        self._keep_state(FINISHED, table=table_markdown, artifacts=list(artifacts))

    def keep_pause(self) -> None:
        self._keep_state(PAUSED)

    @property
    def left_as(self) -> str:
        """How the study stands when nobody runs it."""
        return FINISHED if self._state().get("status") == FINISHED else PAUSED

    def close(self) -> Delivery:
        """Deliver everything, and the study's run as the study stands."""
        try:
            result = self.deliver_all(self.backlog())
            self._close_orphans()
            self._put_study(self.left_as)
            self._server.settle()
        finally:
            self._note.write()
        return result

    def _close_orphans(self) -> None:
        """Runs said to be running, of a killed driver or of trials the study no longer names."""
        for trial_id in self._server.running(self._experiment):
            self._note.forget(trial_id)
            self.deliver_all([trial_id])

    def save(self) -> None:
        """Write the note of what was delivered."""
        self._note.write()

    def _put_study(self, status: str) -> Placed:
        state = self._state()
        start = state.get("started") or _now()
        over = status != RUNNING
        table = state.get("table", "") if over else ""
        files = self._files(state) if over else {}
        wish = runs.study_run(self.record, status, start, files, table, self._counts())
        return self._server.put(self._experiment, wish)

    def _files(self, state: Mapping[str, Any]) -> dict[str, bytes]:
        names = state.get("artifacts", [])
        found = {name: self.store.read(f"{self._results}/files/{name}") for name in names}
        files = {name: data for name, data in found.items() if data is not None}
        if self._note.elsewhere():
            files["reused_trials.csv"] = runs.reused_table(self._note.elsewhere())
        return files

    def _counts(self) -> dict[str, int]:
        """How many trials have come to what."""
        statuses = (self._note.status(trial_id) or "left" for trial_id in self.record.trial_ids())
        return dict(Counter(statuses))

    def _state(self) -> dict[str, Any]:
        return self.store.read_json(f"{self._results}/state.json") or {}

    def _keep_state(self, status: str, **details: Any) -> None:
        state = {**self._state(), "status": status, **details}
        self.store.write_json(f"{self._results}/state.json", state)

    @property
    def _server(self) -> Tracking:
        if self._tracking is None:
            raise RuntimeError("Recorder.open() comes first.")
        return self._tracking


def sync(
    store: Store,
    uri: str,
    artifacts: str | Path,
    keys: Iterable[str] | None = None,
    progress: Callable[[str, Delivery], None] | None = None,
    held: Collection[str] = (),
) -> dict[str, Delivery]:
    """Deliver what a server missed of these studies (all of the store's).

    `held` names studies that somebody is running now: their trials that are done are delivered,
    the others and the study's run are left to whom they belong.
    """
    tracking = open_tracking(uri, Path(artifacts))
    results: dict[str, Delivery] = {}
    for key in study_record.names(store) if keys is None else keys:
        record = study_record.read(store, key)
        recorder = Recorder(store, uri, record, artifacts, tracking)
        results[record.key] = _sync_one(recorder, record.key in held)
        if progress is not None:
            progress(record.key, results[record.key])
    return results


def _sync_one(recorder: Recorder, held: bool) -> Delivery:
    recorder.open(RUNNING if held else recorder.left_as)
    if not held:
        return recorder.close()
    found = journals.read_all(recorder.store, recorder.backlog())
    result = recorder.deliver_all(key for key, journal in found.items() if journal.outcome)
    recorder.save()
    return result


def _now() -> int:
    return round(1000 * time.time())
