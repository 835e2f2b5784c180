"""Records beside the training: a thread delivers what the journals say, and never holds it up.

    recorder = BackgroundRecorder(store, uri, record, artifacts, on_trouble=print)
    recorder.notify(trial_id)              # its journal has changed
    recorder.notify(trial_id, done=True)   # ... and has an outcome
    delivery = recorder.finish(table, files)   # or pause(); both return in bounded time

A server that does not answer is tried again at growing intervals and reported once; what it
missed stays in the store for `ablate sync`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ablate.errors import AblateError
from ablate.record.mlflow_records import Delivery, Recorder
from ablate.record.tracking import Away
from ablate.store import Store
from ablate.study_record import StudyRecord

LIVE_SECONDS = 10.0  # between two deliveries of a running trial
FIRST_SECONDS = 2.0  # a trial that is done sooner is delivered once, whole
BACKOFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
PATIENCE = 10.0  # at the end, as long as nothing is delivered
LIMIT = 120.0  # at the end, all in all


class BackgroundRecorder:
    """A `Recorder` in a thread of its own. Nothing here raises because of the server."""

    def __init__(
        self,
        store: Store,
        uri: str,
        record: StudyRecord,
        artifacts: str | Path,
        on_trouble: Callable[[str], None] | None = None,
        live_seconds: float = LIVE_SECONDS,
    ) -> None:
        self._recorder = Recorder(store, uri, record, artifacts)
        self._recorder.begin()
        self._on_trouble, self._live_seconds = on_trouble, live_seconds
        self._changed = threading.Condition()
        self._due: dict[str, float] = {}  # trial -> when to deliver it
        self._running: set[str] = set()
        self._delivered_at: dict[str, float] = {}
        self._closing = False
        self._failures = 0
        self._result = Delivery()
        self._thread = threading.Thread(target=self._work, name="ablate-records", daemon=True)
        self._thread.start()

    def notify(self, trial_id: str, done: bool = False) -> None:
        """The trial's journal has changed. Costs nothing."""
        now = time.monotonic()
        with self._changed:
            if done:
                self._running.discard(trial_id)
                self._due[trial_id] = now
            else:
                self._running.add(trial_id)
                last = self._delivered_at.get(trial_id, now + FIRST_SECONDS - self._live_seconds)
                self._due.setdefault(trial_id, max(now, last + self._live_seconds))
            self._changed.notify_all()

    def update(self, record: StudyRecord) -> None:
        """The study has changed: a search asked for another trial."""
        self._recorder.update(record)

    def finish(
        self,
        table_markdown: str,
        artifacts: Mapping[str, bytes | str],
        patience: float = PATIENCE,
        limit: float = LIMIT,
    ) -> Delivery:
        """Deliver everything and the study's results, as far as the server lets us in time."""
        self._recorder.keep_results(table_markdown, artifacts)
        return self._end(patience, limit)

    def pause(self, patience: float = PATIENCE, limit: float = LIMIT) -> Delivery:
        """Deliver everything; no run is said to be running any more."""
        self._recorder.keep_pause()
        return self._end(patience, limit)

    def _end(self, patience: float, limit: float) -> Delivery:
        """Wait for the thread as long as it gets on."""
        begun = time.monotonic()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        while self._thread.is_alive():
            now = time.monotonic()
            still = now - max(begun, self._recorder.progress_at)
            if still > patience or now - begun > limit:
                self._result.reason = self._result.reason or (
                    f"{self._recorder.uri_shown} has not answered for {still:.0f} s."
                )
                break
            self._thread.join(0.1)
        if self._result.reason is not None:
            self._result.undelivered = self._recorder.undelivered()
        return self._result

    def _work(self) -> None:
        while not self._closing:
            try:
                self._open_and_deliver()
                self._failures = 0
            except Away as error:
                self._wait_out(error)
        self._close()

    def _open_and_deliver(self) -> None:
        """Wait for something to do, and do it."""
        if not self._recorder.is_open:
            self._guarded(None, self._recorder.open)
            with self._changed:
                now = time.monotonic()
                for trial_id in self._recorder.backlog():
                    self._due.setdefault(trial_id, now)
        for trial_id in self._next():
            self._deliver(trial_id)

    def _next(self) -> list[str]:
        """The trials that are due, once there are some (or none, when it is time to close)."""
        with self._changed:
            now = time.monotonic()
            due = sorted((when, trial_id) for trial_id, when in self._due.items() if when <= now)
            if not due and not self._closing:
                soonest = min(self._due.values(), default=now + 60)
                self._changed.wait(max(0.0, soonest - now))
            return [trial_id for _, trial_id in due]

    def _deliver(self, trial_id: str) -> None:
        if self._closing:
            return
        with self._changed:
            self._due.pop(trial_id, None)
            running = trial_id in self._running
            self._delivered_at[trial_id] = time.monotonic()
        try:
            self._guarded(trial_id, lambda: self._count(self._recorder.deliver(trial_id, running)))
        except Away:
            with self._changed:
                self._due.setdefault(trial_id, time.monotonic())
            raise

    def _guarded(self, trial_id: str | None, work: Callable[[], object]) -> None:
        """Do `work`; what is wrong with one trial's record is kept and holds up no other."""
        try:
            work()
        except Away:
            raise
        except AblateError as error:
            if trial_id is None:  # the study itself cannot be recorded: perhaps later
                raise Away(str(error)) from error
            self._result.refused[trial_id] = str(error)
        except Exception as error:  # ours to repair, and no reason to stop a training
            text = f"records: {type(error).__name__}: {error}"
            if trial_id is None:
                raise Away(text) from error
            self._result.refused[trial_id] = text

    def _count(self, delivered: bool) -> None:
        self._result.delivered += delivered

    def _wait_out(self, error: Away) -> None:
        """Say it once, and try again later."""
        if self._failures == 0 and self._on_trouble is not None:
            self._on_trouble(
                f"{error} The study goes on; its records will follow, now or with: ablate sync"
            )
        pause = BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
        self._failures += 1
        with self._changed:
            self._changed.wait_for(lambda: self._closing, pause)

    def _close(self) -> None:
        """Once more everything, to the end."""
        try:
            self._guarded(None, self._finish_delivery)
            self._result.reason = None
        except Away as error:
            self._result.reason = str(error)

    def _finish_delivery(self) -> None:
        if not self._recorder.is_open:
            self._recorder.open()
        closed = self._recorder.close()
        self._result.delivered += closed.delivered
        self._result.refused |= closed.refused
