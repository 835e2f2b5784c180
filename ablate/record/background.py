"""Delivers records while trials train, in a thread that never blocks training.

    recorder = BackgroundRecorder(store, uri, record, artifacts, on_trouble=print)
    recorder.notify(trial_id)              # its journal has changed
    recorder.notify(trial_id, done=True)   # ... and has an outcome
    delivery = recorder.finish(table, files)   # or pause(); both return in bounded time

If the server does not answer, this is reported once and retried at growing intervals; what was not
delivered stays in the store for `ablate sync`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ablate.errors import AblateError, StoreError
from ablate.record.mlflow_records import Delivery, Recorder
from ablate.record.tracking import Away
from ablate.redaction import redacted
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord

OPENING_SECONDS = 5.0  # at most, before the server is asked: MLflow's import would slow the start
LIVE_SECONDS = 10.0  # between two deliveries of a running trial
FIRST_SECONDS = 2.0  # a trial that finishes sooner is delivered only once
COURSE_SHARE = 20  # the study's numbers take at most a twentieth of the time
BACKOFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # between attempts; then always the last
STALL_SECONDS = 10.0  # at the end: give up after this long without progress ...
CLOSE_SECONDS = 120.0  # ... or this long in all


class BackgroundRecorder:
    """A `Recorder` in its own thread. Failures of the server raise nothing here."""

    def __init__(
        self,
        store: Store,
        uri: str,
        record: StudyRecord,
        artifacts: str | Path,
        on_trouble: Callable[[str], None] | None = None,
        take_stock: Callable[[], None] | None = None,
    ) -> None:
        """`take_stock` puts the study's numbers so far into the store, if there are new ones."""
        self._recorder = Recorder(store, uri, record, artifacts)
        self._recorder.begin()
        self._on_trouble, self._take_stock = on_trouble, take_stock
        self._course_due: float | None = None  # when to deliver the study's numbers
        self._course_at = self._course_cost = 0.0
        self._changed = threading.Condition()
        self._due: dict[str, float] = {}  # trial -> when to deliver it
        self._running: set[str] = set()
        self._delivered_at: dict[str, float] = {}
        self._closing = False
        self._failures = 0
        self._result = Delivery()
        # A daemon: a server that never answers must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="ablate-records", daemon=True)
        self._thread.start()

    def notify(self, trial_id: str, done: bool = False) -> None:
        """Note that the trial's journal has changed. Returns at once."""
        self._recorder.changed(trial_id)
        now = time.monotonic()
        with self._changed:
            if done:
                self._running.discard(trial_id)
                self._due[trial_id] = now
                if self._course_due is None and self._take_stock is not None:
                    pause = max(LIVE_SECONDS, COURSE_SHARE * self._course_cost)
                    self._course_due = max(now, self._course_at + pause)
            else:
                self._running.add(trial_id)
                # A trial that was never delivered is due after FIRST_SECONDS.
                last = self._delivered_at.get(trial_id, now + FIRST_SECONDS - LIVE_SECONDS)
                # Frequent epochs must not postpone a delivery for ever.
                self._due.setdefault(trial_id, max(now, last + LIVE_SECONDS))
            self._changed.notify_all()

    @property
    def page(self) -> str:
        """The end of the URL of the study's page in MLflow; empty before it is there."""
        return self._recorder.page

    def update(self, record: StudyRecord) -> None:
        """Replace the study's record: a search has suggested another trial."""
        self._recorder.update(record)

    def finish(self, table_markdown: str, artifacts: Mapping[str, bytes | str]) -> Delivery:
        """Deliver all trials and the study's results, as far as the server allows in time."""
        try:
            self._recorder.save_results(table_markdown, artifacts)
        finally:
            delivery = self._join()
        return delivery

    def pause(self) -> Delivery:
        """Deliver all trials, and leave no run marked as running, and no thread."""
        try:
            self._recorder.save_pause()
        finally:
            delivery = self._join()
        return delivery

    @contextlib.contextmanager
    def paused_by_errors(self) -> Iterator[None]:
        """Pause if the block ends with an error, which is then raised."""
        try:
            yield
        except Exception:
            with contextlib.suppress(StoreError):  # the block's own error says more
                self.pause()
            raise

    def _join(self) -> Delivery:
        """Wait for the thread as long as it makes progress."""
        start = time.monotonic()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        while self._thread.is_alive():
            now = time.monotonic()
            stalled = now - max(start, self._recorder.progress_at)
            if stalled > STALL_SECONDS or now - start > CLOSE_SECONDS:
                self._result.reason = self._result.reason or (
                    f"{redacted(self._recorder.uri)} has not answered for {stalled:.0f} s."
                )
                break
            self._thread.join(0.1)
        if self._result.reason is not None:
            self._result.undelivered = self._recorder.undelivered()
        return self._result

    def _work(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._due or self._closing, OPENING_SECONDS)
        while not self._closing:
            try:
                self._open_and_deliver()
                self._failures = 0
            except Exception as error:
                self._back_off(_text(error))
        try:
            self._deliver_the_rest()
            self._result.reason = None
        except Exception as error:
            self._result.reason = _text(error)

    def _open_and_deliver(self) -> None:
        """Wait until trials are due, and deliver them."""
        if not self._recorder.is_open:
            self._recorder.open()
            backlog = self._recorder.backlog()
            with self._changed:
                now = time.monotonic()
                for trial_id in backlog:
                    self._due.setdefault(trial_id, now)
        for trial_id in self._wait_for_due():
            self._deliver(trial_id)
        if self._course_due is not None and self._course_due <= time.monotonic():
            self._deliver_course()

    def _wait_for_due(self) -> list[str]:
        """Wait for trials that are due; an empty list when it is time to close."""
        with self._changed:
            now = time.monotonic()
            due = sorted((when, trial_id) for trial_id, when in self._due.items() if when <= now)
            if not due and not self._closing:
                dues = [*self._due.values(), self._course_due or now + 60]  # `notify` wakes it
                soonest = min(dues)
                self._changed.wait(max(0.0, soonest - now))
            return [trial_id for _, trial_id in due]

    def _deliver(self, trial_id: str) -> None:
        """Deliver a trial. An error in its record is noted, and does not block the others."""
        if self._closing:
            return
        with self._changed:
            self._due.pop(trial_id, None)  # before the journal is read: a later change is due again
            running = trial_id in self._running
            self._delivered_at[trial_id] = time.monotonic()
        try:
            self._result.delivered += self._recorder.deliver(trial_id, running)
            self._result.refused.pop(trial_id, None)
        except Away:  # the trial stays due, and `_work` waits before it tries again
            with self._changed:
                self._due.setdefault(trial_id, time.monotonic())
            raise
        except Exception as error:
            self._result.refused[trial_id] = _text(error)

    def _deliver_course(self) -> None:
        """Deliver the study's numbers so far, by finished trials."""
        if self._closing:
            return
        start, self._course_due = time.monotonic(), None
        self._stock()
        self._recorder.deliver_course()
        self._course_at = time.monotonic()
        self._course_cost = self._course_at - start

    def _stock(self) -> None:
        """Put the numbers into the store. What fails here must hold up no trial's record."""
        try:
            if self._take_stock is not None:
                self._take_stock()
        except Exception as error:
            if self._on_trouble is not None:
                self._on_trouble(f"no charts of the study in MLflow: {_text(error)}")
            self._take_stock = None

    def _back_off(self, why: str) -> None:
        """Report the error once, and wait before the next attempt."""
        if self._failures == 0 and self._on_trouble is not None:
            self._on_trouble(
                f"{why} The study continues; missing records are delivered later, or with: "
                "ablate sync"
            )
        pause = BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
        self._failures += 1
        with self._changed:
            self._changed.wait_for(lambda: self._closing, pause)

    def _deliver_the_rest(self) -> None:
        """Deliver everything that is still missing."""
        if not self._recorder.is_open:
            self._recorder.open()
        self._stock()
        closed = self._recorder.close()
        self._result.delivered += closed.delivered
        self._result.refused = closed.refused  # all that was refused before was tried again


def _text(error: Exception) -> str:
    """The message of an error. Even a bug in this package must not stop training."""
    is_bug = not isinstance(error, AblateError)
    return redacted(f"records: {type(error).__name__}: {error}") if is_bug else str(error)
