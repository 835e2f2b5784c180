"""Exports a study to an MLflow server: one experiment, one run for the study, each arm and trial.

Everything is exported from the store, and can be exported again: a run is found by its tag, and
gets what it lacks. Whatever a process killed between two calls leaves behind, the next completes.

    export = Export(store, uri, record, artifacts)
    export.results.begin()
    export.open()
    export.deliver(trial_id)      # as often as its journal changes
    export.results.save(table, files)   # or pause()
    export.close()

    sync(store, uri, artifacts)     # everything that the server lacks
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ablate.errors import AblateError, DamagedError, StoreError
from ablate.record import arm_runs, runs
from ablate.record.places import check_uri
from ablate.record.results import StudyResults
from ablate.record.runs import STATUSES, StudyStatus
from ablate.record.server import Known, Server
from ablate.record.tracking import HOME, MARK, ROW, TRIAL, Away, Refused, RunToWrite
from ablate.results.facts import STUDY_RUN
from ablate.results.labels import Label, labels_of
from ablate.results.settings import Found, winning_settings
from ablate.store import course, states, study_record, trial_files
from ablate.store import journal as journals
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord


@dataclass
class Delivery:
    """What came of an export: which trials the server lacks, and why."""

    delivered: int = 0
    undelivered: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # trial -> error message
    reason: str | None = None  # why the server lacks something
    error: AblateError | None = None  # which ended the export

    @property
    def complete(self) -> bool:
        """Return whether the server has everything."""
        return not (self.undelivered or self.refused or self.reason or self.error)


class Export:
    """Exports one study to one server. May be retried after it raises `Away`."""

    def __init__(
        self,
        store: Store,
        uri: str,
        record: StudyRecord,
        artifacts: str | Path,
        server: Server | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """`on_progress` gets the numbers of trials: delivered so far, and in all."""
        self.store, self.uri = store, check_uri(uri)
        self._artifacts, self._opened = Path(artifacts), server
        self._on_progress = on_progress or (lambda _done, _of: None)
        self.results = StudyResults(store, record)
        self._experiment = self._parent = ""
        self._ends: dict[str, Status | None] = {}  # of the trials whose journals were read
        self._others: dict[str, tuple[StudyRecord, dict[str, Label]] | None] = {}  # by key
        self._shown: set[str] = set()  # trials that are done, and that the server has
        self.progress_at = time.monotonic()
        self.update(record)

    def update(self, record: StudyRecord) -> None:
        """Replace the study's record: a search may have added trials."""
        self._labels = labels_of(record)
        self.record = record

    def open(self, status: StudyStatus = StudyStatus.RUNNING, *, only_new: bool = False) -> None:
        """Find or make the experiment, the study's run and those of its arms.

        `only_new`: a run that is there keeps its status.
        """
        tags = runs.experiment_tags(self.record)
        self._experiment = self._server.open_experiment(self.record.key, tags)
        study = (STUDY_RUN, self.record.key)
        if not only_new or self._server.known(study) is None:
            self._put_study(status)
        self._put_arms(status, parent := self._run_id(study))
        self._parent = parent

    @property
    def is_open(self) -> bool:
        """Return whether the study has its run on the server."""
        return bool(self._parent)

    @property
    def page(self) -> str:
        """The end of the URL of the study's page in MLflow: its trials, grouped by arm."""
        return runs.view_page(self._experiment) if self._experiment else ""

    def backlog(self) -> list[str]:
        """The trials whose journals hold more than the server has."""
        return [trial for trial in self.record.trial_ids() if self._differs(trial)]

    def changed(self, trial_id: str) -> None:
        """Note that the trial's journal has changed since it was compared."""
        self._shown.discard(trial_id)

    def _differs(self, trial_id: str) -> bool:
        """A trial that is done is read once: a store may have thousands, and may be far away."""
        if trial_id in self._shown:
            return False
        if self._known(trial_id) is None:  # its export reads it
            return self.store.exists(journals.key(trial_id))
        self._shown.add(trial_id)  # before it is read, so that no change after that is missed
        differs, is_done = True, False
        with contextlib.suppress(DamagedError):  # its export says so
            journal = self._read(trial_id)
            differs = journal is not None and not self._is_there(journal, running=False)
            is_done = journal is not None and journal.is_done
        if differs or not is_done:
            self._shown.discard(trial_id)
        return differs

    def _read(self, trial_id: str) -> Journal | None:
        self.progress_at = time.monotonic()
        journal = journals.read(self.store, trial_id)
        if journal is not None:
            self._ends[trial_id] = journal.status
        return journal

    def _is_there(self, journal: Journal, running: bool) -> bool:
        """Return whether the trial's run shows the journal, or is one that somebody deleted."""
        known = self._known(journal.trial.id)
        status = STATUSES[runs.status_of(journal, running)]
        return (
            known is not None
            and known.shows(runs.mark_of(journal, running), status)
            and (self._is_home(known) or runs.also_in(self.record) in known.tags)
            and (not known.is_active or ROW in known.tags)  # which older versions did not write
        )

    def _known(self, trial_id: str) -> Known | None:
        return self._opened and self._opened.known((TRIAL, trial_id))

    def _is_home(self, known: Known) -> bool:
        return known.tags.get(HOME) == self.record.key

    def deliver(self, trial_id: str, running: bool = False, ended: bool = False) -> bool:
        """Make the trial's run match its journal; False if there was nothing to deliver.

        `running`: whether a trial without an outcome is running now; `ended`: whether only a trial
        with an outcome is delivered.
        """
        journal = self._read(trial_id)
        if journal is None or (ended and journal.outcome is None):
            return False
        if self._is_there(journal, running):
            return False
        label = self._labels.get(trial_id)
        files = trial_files.read(self.store, trial_id) if journal.outcome else {}
        parent, home = self._parent_of(label), self._home(journal)
        run = runs.trial_run(self.record, parent, journal, label, running, files, home)
        written = self._server.put(self._experiment, run)
        self.progress_at = time.monotonic()
        return written

    def _home(self, journal: Journal) -> tuple[StudyRecord, Label] | None:
        """The study that ran a trial first, with its label, if it is in the store and lists it."""
        key = study_record.study_key(journal.trial.study, journal.trial.scale)
        if key == self.record.key:
            return None
        if key not in self._others:
            self._others[key] = None
            if study_record.exists(self.store, key):
                with contextlib.suppress(DamagedError):  # its own export says so
                    record = study_record.read(self.store, key)
                    self._others[key] = record, labels_of(record)
        record, labels = self._others[key] or (self.record, {})
        label = labels.get(journal.trial.id)
        return None if label is None else (record, label)

    def _parent_of(self, label: Label | None) -> str:
        """The run that holds a trial's: its arm's, or the study's if the study has no such arm."""
        arm = label and self._run_id(arm_runs.identity_of(self.record, label.arm))
        return arm or self._parent

    def _run_id(self, identity: tuple[str, str]) -> str:
        known = self._server.known(identity)
        return "" if known is None else known.run_id

    def deliver_all(self, trial_ids: Sequence[str], *, ended: bool = False) -> Delivery:
        """Deliver these trials; one that the server refuses does not block the others."""
        result, num = Delivery(), len(trial_ids)
        for done, trial_id in enumerate(trial_ids, 1):
            try:
                result.delivered += self.deliver(trial_id, ended=ended)
            except (Refused, StoreError) as error:
                result.refused[trial_id] = str(error)
            self._on_progress(done, num)
        return result

    def close(self) -> Delivery:
        """Deliver all trials, and the study's run with its current status."""
        result = self.deliver_all(self.backlog())
        # Of a killed driver, or of trials that are no longer in the study.
        self.deliver_all(self._server.running(self._experiment))
        self._put_arms(self.results.status, self._parent)
        self._put_study(self.results.status)
        return result

    def deliver_finished(self) -> Delivery:
        """Deliver the finished trials of a study that another process runs."""
        return self.deliver_all(self.backlog(), ended=True)

    def deliver_course(self) -> None:
        """Bring the study's numbers so far to its run and to those of its arms."""
        self._put_arms(StudyStatus.RUNNING, self._parent)
        self._put_study(StudyStatus.RUNNING)
        self.progress_at = time.monotonic()

    def _put_arms(self, status: StudyStatus, parent: str) -> None:
        """Bring the runs of arms to the server that it has otherwise, or not at all."""
        found = {} if status == StudyStatus.RUNNING else self._found()
        points = course.read(self.store, self.record.key)
        self._put(arm_runs.arm_runs(self.record, parent, status, self.results.start, points, found))

    def _put(self, wanted: Iterable[RunToWrite]) -> None:
        """Bring runs to the server that do not show all that these do."""
        for run in wanted:
            known = self._server.known(run.identity)
            if known is None or not (known.is_active and known.shows(run.tags[MARK], run.status)):
                self._server.put(self._experiment, run)

    def _found(self) -> Found:
        """What the searches found. Of older records, only all trials say which fields vary."""
        searches = self.record.searches
        chosen = [search.chosen for search in searches if search.chosen is not None]
        old = [trial for search in searches if not search.rows for trial in search.trials]
        return winning_settings(self.record, journals.read_all(self.store, [*chosen, *old]))

    def _put_study(self, status: StudyStatus) -> None:
        files, table = {}, ""
        if status != StudyStatus.RUNNING:
            files, table = self.results.files(), self.results.table
        values = arm_runs.study_values(self.record, course.read(self.store, self.record.key))
        counts = states.counts(self.record, None, self._ends, status == StudyStatus.RUNNING)
        parts = (self.results.start, files, table, counts, values, self._marks())
        self._put([runs.study_run(self.record, status, *parts)])

    def _marks(self) -> list[str]:
        known = (self._known(trial) for trial in self.record.trial_ids())
        return [run.tags.get(MARK, "") for run in known if run is not None]

    @property
    def _server(self) -> Server:
        if self._opened is None:
            self._opened = Server(self.uri, self._artifacts)
            self.progress_at = time.monotonic()  # it took MLflow's import, and perhaps a database
        return self._opened


def sync(
    store: Store,
    uri: str,
    artifacts: str | Path,
    running: Collection[str] = (),
    on_progress: Callable[[str, int, int], None] | None = None,
    keys: Sequence[str] | None = None,
) -> dict[str, Delivery]:
    """Export what a server lacks of the studies with these keys, or of every one in the store.

    `running`: the studies that another process runs now. Only their finished trials are delivered;
    that process delivers the others and the study's run. An error of one study holds up no other.
    `on_progress` gets the study, and the numbers of its trials: delivered so far, and in all.
    """
    server = Server(uri, Path(artifacts))

    def deliver(key: str) -> Delivery:
        record = study_record.read(store, key)
        of_study = None if on_progress is None else partial(on_progress, key)
        export = Export(store, uri, record, artifacts, server, of_study)
        status = StudyStatus.RUNNING if key in running else export.results.status
        export.open(status, only_new=True)
        return export.deliver_finished() if key in running else export.close()

    wanted = study_record.names(store) if keys is None else keys
    return {key: _or_error(deliver, key) for key in wanted}


def _or_error(deliver: Callable[[str], Delivery], key: str) -> Delivery:
    """The delivery of a study, perhaps with its error; if the server is away, none is tried."""
    try:
        return deliver(key)
    except Away:
        raise
    except AblateError as error:
        return Delivery(error=error)
