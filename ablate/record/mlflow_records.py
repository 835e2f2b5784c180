"""Delivers a study to an MLflow server: one experiment, one run for the study and one per trial.

Everything is delivered from the store, so delivery can be repeated: whatever a process killed
between two calls leaves behind, the next delivery completes.

    recorder = Recorder(store, uri, record, artifacts)
    recorder.begin()
    recorder.open()
    recorder.deliver(trial_id)      # as often as its journal changes
    recorder.save_results(table, files)   # or save_pause()
    recorder.close()

    sync(store, uri, artifacts)     # everything that the server lacks
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ablate.errors import AblateError, DamagedError, StoreError
from ablate.record import arm_runs, runs
from ablate.record.client import ClientTracking
from ablate.record.note import Note
from ablate.record.places import check_uri
from ablate.record.runs import StudyStatus
from ablate.record.sqlite_client import DatabaseTracking
from ablate.record.tracking import (
    ARM_RUN,
    HOME,
    MARK,
    TRIAL,
    Away,
    Recorded,
    Refused,
    RunLocation,
    RunToWrite,
)
from ablate.results.labels import Label, labels_of
from ablate.results.settings import Found, winning_settings
from ablate.store import course, study_record, trial_files
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.store.store import Store, damaged
from ablate.store.study_record import StudyRecord

MOST_VALUES = 50_000  # of metrics in a batch of runs: about 40 MB
MOST_SIZE = 64_000_000  # bytes of artifacts


@dataclass
class Delivery:
    """Result of a delivery: which trials the server lacks, and why."""

    delivered: int = 0
    undelivered: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # trial -> error message
    reason: str | None = None  # why the server lacks something
    error: AblateError | None = None  # which ended the delivery

    @property
    def complete(self) -> bool:
        """Return whether the server has everything."""
        return not (self.undelivered or self.refused or self.reason or self.error)


def open_tracking(uri: str, artifacts: Path) -> ClientTracking:
    """Open the server or database at a URI. Imports MLflow."""
    check_uri(uri)
    return (DatabaseTracking if uri.startswith("sqlite:") else ClientTracking)(uri, artifacts)


class Recorder:
    """Delivers one study to one server. May be retried after it raises `Away`."""

    def __init__(
        self,
        store: Store,
        uri: str,
        record: StudyRecord,
        artifacts: str | Path,
        tracking: ClientTracking | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """`on_progress` gets the numbers of trials: delivered so far, and in all."""
        self.store, self.uri = store, check_uri(uri)
        self._artifacts, self._tracking = Path(artifacts), tracking
        self._on_progress = on_progress or (lambda _done, _of: None)
        self._results = f"studies/{record.key}/results"
        self._note = Note(store, record.key, uri)
        self._experiment = self._parent = ""
        self._arms: dict[str, Recorded] = {}  # the runs of arms on the server
        self._compared: set[str] = set()  # settled trials whose journals are as they were delivered
        self.progress_at = time.monotonic()
        self.update(record)

    def update(self, record: StudyRecord) -> None:
        """Replace the study's record: a search may have added trials."""
        self._labels = labels_of(record)
        self.record = record

    def begin(self) -> None:
        """Note that the study is running."""
        self._save_state(StudyStatus.RUNNING, started=self._state().get("started") or _now())

    def open(self, status: StudyStatus = StudyStatus.RUNNING) -> None:
        """Find or make the experiment and the study's run."""
        tags = runs.experiment_tags(self.record)
        self._experiment = self._server.open_experiment(self.record.key, tags)
        run = self._put_study(status)
        self._note.open(f"{self._experiment}/{run.run_id}", fresh=run.created)
        there = self._recorded()
        self._note.keep(self._held(there))
        self._arms = {r.tags[ARM_RUN]: r for r in there if ARM_RUN in r.tags}
        self._put_arms(status, run.run_id)
        self._parent = run.run_id

    @property
    def is_open(self) -> bool:
        """Return whether the study has its run on the server."""
        return bool(self._parent)

    def _recorded(self) -> list[Recorded]:
        """The trials and arms of this study, and of those that it shares trials with."""
        experiments = {self.record.key, *(home for _, _, home, _ in self._note.elsewhere())}
        return self._server.recorded(experiments)

    def _held(self, there: Iterable[Recorded]) -> set[str]:
        """Return the trials of which the server still has the state in the delivery note."""
        also_ours = runs.also_in(self.record)
        return {
            run.tags[TRIAL]
            for run in there
            if TRIAL in run.tags
            and self._note.agrees(run.tags[TRIAL], run.tags.get(MARK, ""))
            and run.status == runs.status_of_mark(run.tags[MARK])
            and (run.tags.get(HOME) == self.record.key or also_ours in run.tags)
        }

    def backlog(self) -> list[str]:
        """The trials whose journals differ from what was delivered."""
        return [trial for trial in self.record.trial_ids() if self._differs(trial)]

    def changed(self, trial_id: str) -> None:
        """Note that the trial's journal has changed since it was compared."""
        self._compared.discard(trial_id)

    def _differs(self, trial_id: str) -> bool:
        """A settled trial is read once: a store may have thousands, and may be far away."""
        settled = self._note.is_settled(trial_id)
        if settled and trial_id in self._compared:
            return False
        self._compared.add(trial_id)  # before it is read, so that no change after that is missed
        differs = self._read_differs(trial_id)
        if differs or not settled:
            self._compared.discard(trial_id)
        self.progress_at = time.monotonic()
        return differs

    def _read_differs(self, trial_id: str) -> bool:
        if self._note.status(trial_id) is None:  # its delivery reads it
            return self.store.exists(journals.key(trial_id))
        try:
            journal = journals.read(self.store, trial_id)
        except DamagedError:
            return True  # its delivery says so
        if journal is None:
            return False
        return not self._note.agrees(trial_id, runs.mark_of(journal, running=False))

    def undelivered(self) -> list[str]:
        """The trials whose journals hold more than was delivered."""
        return [
            trial_id
            for trial_id, journal in journals.read_all(self.store, self.backlog()).items()
            if not self._note.has(trial_id, runs.mark_of(journal, running=False))
        ]

    def deliver(self, trial_id: str, running: bool = False) -> bool:
        """Make the trial's run match its journal; False if there was nothing to deliver.

        `running`: whether a trial without an outcome is running now.
        """
        wanted = self._wanted(trial_id, running)
        if wanted is not None:
            self._put([wanted])
        return wanted is not None

    def _wanted(self, trial_id: str, running: bool, ended: bool = False) -> RunToWrite | None:
        """The run that the trial should have; None if the server has it, if there is no journal, or
        if the trial has to have `ended` and has no outcome."""
        self.progress_at = time.monotonic()
        journal = journals.read(self.store, trial_id)
        if journal is None or (ended and journal.outcome is None):
            return None
        if self._note.has(trial_id, runs.mark_of(journal, running)):
            return None
        label = self._labels.get(trial_id)
        parent = self._parent_of(label)
        files = trial_files.read(self.store, trial_id) if journal.outcome else {}
        return runs.trial_run(self.record, parent, journal, label, running, files)

    def _parent_of(self, label: Label | None) -> str:
        """The run that holds a trial's: its arm's, or the study's if the study has no such arm."""
        identity = label and arm_runs.identity_of(self.record, label.arm)
        arm = self._arms.get(identity[1]) if identity else None
        return self._parent if arm is None else arm.run_id

    def _put(self, wanted: Sequence[RunToWrite]) -> None:
        """Bring runs of trials to the server, and note their marks."""
        put = self._server.put_all(self._experiment, wanted)
        for run, there in zip(wanted, put, strict=True):
            _, trial_id = run.identity
            name = self._labels[trial_id].name if trial_id in self._labels else trial_id
            at_home = there.home == self.record.key
            elsewhere = None if at_home else [name, there.home, there.run_id]
            self._note.add(trial_id, run.tags[MARK], elsewhere)
            self._compared.add(trial_id)
        self.progress_at = time.monotonic()

    def deliver_all(self, trial_ids: Sequence[str], *, ended: bool = False) -> Delivery:
        """Deliver these trials; one that the server refuses does not block the others.

        `ended`: only those with an outcome.
        """
        result, num = Delivery(), len(trial_ids)
        for batch in _batches(self._all_wanted(trial_ids, ended, result), self._server.batch):
            self._put_batch(batch, result)
            if (done := result.delivered + len(result.refused)) < num:  # the end is reported once
                self._on_progress(done, num)
        if num:
            self._on_progress(num, num)
        return result

    def _all_wanted(
        self, trial_ids: Iterable[str], ended: bool, result: Delivery
    ) -> Iterator[RunToWrite]:
        for trial_id in trial_ids:
            try:
                wanted = self._wanted(trial_id, running=False, ended=ended)
            except StoreError as error:
                result.refused[trial_id] = str(error)
                continue
            if wanted is not None:
                yield wanted

    def _put_batch(self, batch: Sequence[RunToWrite], result: Delivery) -> None:
        """Bring these runs to the server; one by one, if it does not take all together."""
        try:
            self._put(batch)
            result.delivered += len(batch)
        except (Refused, StoreError) as error:
            if len(batch) == 1:
                result.refused[batch[0].identity[1]] = str(error)
                return
            for run in batch:
                self._put_batch([run], result)

    def save_results(self, table_markdown: str, artifacts: Mapping[str, bytes | str]) -> None:
        """Save the results in the store, so that they can be delivered later.

        Meanwhile no hashes are stored: after a kill, some files are older than others, not damaged.
        """
        self._save_state(StudyStatus.RUNNING, hashes={})
        hashes = {}
        for name, data in artifacts.items():
            content = data if isinstance(data, bytes) else data.encode()
            self.store.write_as_is(f"{self._results}/files/{name}", content)
            hashes[name] = hashlib.sha256(content).hexdigest()
        details = {"table": table_markdown, "artifacts": list(artifacts), "hashes": hashes}
        self._save_state(StudyStatus.FINISHED, **details)

    def save_pause(self) -> None:
        """Mark the study's run as stopped, to be resumed."""
        self._save_state(StudyStatus.INTERRUPTED)

    @property
    def idle_status(self) -> StudyStatus:
        """The study's status when no process runs it."""
        finished = self.record.imported or self._state().get("status") == StudyStatus.FINISHED
        return StudyStatus.FINISHED if finished else StudyStatus.INTERRUPTED

    def close(self) -> Delivery:
        """Deliver all trials, and the study's run with its current status."""
        try:
            result = self.deliver_all(self.backlog())
            self._close_orphans()
            self._put_arms(self.idle_status, self._parent)
            self._put_study(self.idle_status)
            self._server.settle()
        finally:
            self._note.write()  # also after an error: what was delivered is not sent again
        return result

    def _close_orphans(self) -> None:
        """Close runs marked as running, of a killed driver or of trials no longer in the study."""
        for trial_id in self._server.running(self._experiment):
            self._note.forget(trial_id)  # else the trial would count as delivered, and be left
            self.deliver_all([trial_id])

    def deliver_finished(self) -> Delivery:
        """Deliver the finished trials of a study that another process runs."""
        result = self.deliver_all(self.backlog(), ended=True)
        self._note.write()
        return result

    def deliver_course(self) -> None:
        """Bring the study's numbers so far to its run and to those of its arms."""
        self._put_arms(StudyStatus.RUNNING, self._parent)
        self._put_study(StudyStatus.RUNNING)
        self.progress_at = time.monotonic()

    @property
    def page(self) -> str:
        """The end of the URL of the study's page in MLflow: its trials, grouped by arm."""
        return runs.view_page(self._experiment) if self._experiment else ""

    def _put_arms(self, status: StudyStatus, parent: str) -> None:
        """Bring the runs of arms to the server that it has otherwise, or not at all."""
        start = self._state().get("started") or _now()
        found = {} if status == StudyStatus.RUNNING else self._found()
        points = course.read(self.store, self.record.key)
        wanted = [
            run
            for run in arm_runs.arm_runs(self.record, parent, status, start, points, found)
            if not _is_there(self._arms.get(run.identity[1]), run)
        ]
        put = self._server.put_all(self._experiment, wanted) if wanted else []
        for run, there in zip(wanted, put, strict=True):
            self._arms[run.identity[1]] = Recorded(there.run_id, run.status, dict(run.tags))

    def _found(self) -> Found:
        """What the searches found. Of older records, only all trials say which fields vary."""
        searches = self.record.searches
        chosen = [search.chosen for search in searches if search.chosen is not None]
        old = [trial for search in searches if not search.rows for trial in search.trials]
        return winning_settings(self.record, journals.read_all(self.store, [*chosen, *old]))

    def _put_study(self, status: StudyStatus) -> RunLocation:
        state = self._state()
        start = state.get("started") or _now()
        ended = status != StudyStatus.RUNNING
        table = state.get("table", "") if ended else ""
        files = self._files(state) if ended else {}
        values = arm_runs.study_values(self.record, course.read(self.store, self.record.key))
        counts = self._counts()
        run = runs.study_run(self.record, status, start, files, table, counts, values)
        return self._server.put(self._experiment, run)

    def _files(self, state: Mapping[str, Any]) -> dict[str, bytes]:
        stored = {name: self._file(name, state) for name in state.get("artifacts", [])}
        files = {name: data for name, data in stored.items() if data is not None}
        if self._note.elsewhere():
            files["reused_trials.csv"] = runs.reused_table(self._note.elsewhere())
        return files

    def _file(self, name: str, state: Mapping[str, Any]) -> bytes | None:
        """One file of the results; older versions and killed drivers store no hash."""
        key = f"{self._results}/files/{name}"
        data, expected = self.store.read_as_is(key), state.get("hashes", {}).get(name)
        if data is not None and expected not in (None, hashlib.sha256(data).hexdigest()):
            raise damaged(self.store, key, "its hash is not the one that was stored")
        return data

    def _counts(self) -> dict[str, int]:
        """The number of trials by status."""
        trials = self.record.trial_ids()
        return dict(Counter(self._note.status(trial) or Status.LEFT for trial in trials))

    def _state(self) -> dict[str, Any]:
        return self.store.read_json(f"{self._results}/state.json") or {}

    def _save_state(self, status: StudyStatus, **details: Any) -> None:
        state = {**self._state(), "status": status, **details}
        self.store.write_json(f"{self._results}/state.json", state)

    @cached_property
    def _server(self) -> ClientTracking:
        return self._tracking or open_tracking(self.uri, self._artifacts)


def sync(
    store: Store,
    uri: str,
    artifacts: str | Path,
    running: Collection[str] = (),
    on_progress: Callable[[str, int, int], None] | None = None,
    keys: Sequence[str] | None = None,
) -> dict[str, Delivery]:
    """Deliver what a server lacks of the studies with these keys, or of every one in the store.

    `running`: the studies that another process runs now. Only their finished trials are delivered;
    that process delivers the others and the study's run. An error of one study holds up no other.
    `on_progress` gets the study, and the numbers of its trials: delivered so far, and in all.
    """
    tracking = open_tracking(uri, Path(artifacts))

    def deliver(key: str) -> Delivery:
        record = study_record.read(store, key)
        of_study = None if on_progress is None else partial(on_progress, key)
        recorder = Recorder(store, uri, record, artifacts, tracking, of_study)
        recorder.open(StudyStatus.RUNNING if key in running else recorder.idle_status)
        return recorder.deliver_finished() if key in running else recorder.close()

    wanted = study_record.names(store) if keys is None else keys
    return {key: _or_error(deliver, key) for key in wanted}


def _is_there(known: Recorded | None, run: RunToWrite) -> bool:
    """Return whether the server's run already shows all that this one does."""
    return known is not None and (known.status, known.tags.get(MARK)) == (
        run.status,
        run.tags[MARK],
    )


def _batches(all_runs: Iterable[RunToWrite], most: int) -> Iterator[list[RunToWrite]]:
    """Up to `most` runs together; fewer, if they have many metric values or large files."""
    batch: list[RunToWrite] = []
    num_values = size = 0
    for run in all_runs:
        batch.append(run)
        num_values += len(run.metric_values)
        size += sum(map(len, run.artifacts.values()))
        if len(batch) == most or num_values >= MOST_VALUES or size >= MOST_SIZE:
            yield batch
            batch, num_values, size = [], 0, 0
    if batch:
        yield batch


def _or_error(deliver: Callable[[str], Delivery], key: str) -> Delivery:
    """The delivery of a study, perhaps with its error; if the server is away, none is tried."""
    try:
        return deliver(key)
    except Away:
        raise
    except AblateError as error:
        return Delivery(error=error)


def _now() -> int:
    return round(1000 * time.time())
