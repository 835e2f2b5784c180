"""Exports a study while its trials train, in a thread that never blocks training.

    export = BackgroundExport(store, uri, record, artifacts, on_trouble=print)
    export.notify(trial_id)              # its journal has changed
    export.notify(trial_id, done=True)   # ... and has an outcome
    delivery = export.finish(table, files)   # or pause(); both return in bounded time

If the server does not answer, this is reported once and retried at growing intervals; what was not
delivered stays in the store for `ablate report sync`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ablate.errors import AblateError, StoreError
from ablate.record.export import Delivery, Export
from ablate.record.tracking import Away
from ablate.redaction import redacted
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord

OPENING_SECONDS = 5.0  # at most, before the server is asked: MLflow's import would slow the start
LIVE_SECONDS = 10.0  # between two deliveries of running trials, and of the study's numbers
COURSE_SHARE = 20  # the study's numbers take at most a twentieth of the time
BACKOFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # between attempts; then always the last
STALL_SECONDS = 10.0  # at the end: give up after this long without progress ...
CLOSE_SECONDS = 60.0  # ... or this long in all, some hundred trials in a database


class BackgroundExport:
    """An `Export` in its own thread. Failures of the server raise nothing here."""

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
        self._export = Export(store, uri, record, artifacts)
        self._export.results.begin()
        self._on_trouble, self._take_stock = on_trouble, take_stock
        self._changed = threading.Condition()
        self._due: dict[str, bool] = {}  # trials whose journals have changed: have they ended?
        self._live_at = self._course_at = 0.0  # when running trials and the numbers are due
        self._closing = self._has_news = False
        self._failures = 0
        self._result = Delivery()
        # A daemon: a server that never answers must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="ablate-records", daemon=True)
        self._thread.start()

    def notify(self, trial_id: str, done: bool = False) -> None:
        """Note that the trial's journal has changed. Returns at once."""
        self._export.changed(trial_id)
        with self._changed:
            self._due[trial_id] = done
            self._has_news |= done
            self._changed.notify_all()

    @property
    def page(self) -> str:
        """The end of the URL of the study's page in MLflow; empty before it is there."""
        return self._export.page

    def update(self, record: StudyRecord) -> None:
        """Replace the study's record: a search has suggested another trial."""
        self._export.update(record)

    def finish(self, table_markdown: str, artifacts: Mapping[str, bytes | str]) -> Delivery:
        """Deliver all trials and the study's results, as far as the server allows in time."""
        try:
            self._export.results.save(table_markdown, artifacts)
        finally:
            delivery = self._join()
        return delivery

    def pause(self) -> Delivery:
        """Deliver all trials, and leave no run marked as running, and no thread."""
        try:
            self._export.results.pause()
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
            stalled = now - max(start, self._export.progress_at)
            if stalled > STALL_SECONDS or now - start > CLOSE_SECONDS:
                self._result.reason = self._result.reason or self._late(stalled)
                break
            self._thread.join(0.1)
        if self._result.reason is not None:
            self._result.undelivered = self._export.backlog()
        return self._result

    def _late(self, stalled: float) -> str:
        how = f"has not answered for {stalled:.0f} s."
        if stalled <= STALL_SECONDS:
            how = f"takes longer than {CLOSE_SECONDS:.0f} s."
        return f"{redacted(self._export.uri)} {how}"

    def _work(self) -> None:
        self._wait(OPENING_SECONDS)
        while not self._closing:
            try:
                self._open_and_deliver()
                self._failures = 0
                self._wait(self._live_at - time.monotonic())
            except Exception as error:
                self._back_off(_text(error))
        try:
            self._deliver_the_rest()
            self._result.reason = None
        except Exception as error:
            self._result.reason = _text(error)

    def _wait(self, seconds: float) -> None:
        """Wait until a trial has ended or it is time to close, and no longer than that."""
        with self._changed:
            ended = lambda: self._closing or any(self._due.values())  # noqa: E731
            self._changed.wait_for(ended, max(0.0, seconds))

    def _open_and_deliver(self) -> None:
        """Deliver the trials that have ended, and from time to time those that run."""
        if not self._export.is_open:
            self._export.open()
            for trial_id in self._export.backlog():
                with self._changed:
                    self._due.setdefault(trial_id, True)
        is_live = time.monotonic() >= self._live_at
        for trial_id in [trial for trial, ended in self._due.copy().items() if ended or is_live]:
            self._deliver(trial_id)
        if is_live:
            self._deliver_course()
            self._live_at = time.monotonic() + LIVE_SECONDS

    def _deliver(self, trial_id: str) -> None:
        """Deliver a trial. An error in its record is noted, and does not block the others."""
        if self._closing:
            return
        with self._changed:  # before the journal is read: a later change is due again
            ended = self._due.pop(trial_id)
        try:
            self._result.delivered += self._export.deliver(trial_id, running=not ended)
            self._result.refused.pop(trial_id, None)
        except Away:  # the trial stays due, and `_work` waits before it tries again
            with self._changed:
                self._due.setdefault(trial_id, ended)
            raise
        except Exception as error:
            self._result.refused[trial_id] = _text(error)

    def _deliver_course(self) -> None:
        """Deliver the study's numbers so far, by finished trials, if there are new ones."""
        start = time.monotonic()
        if self._closing or not self._has_news or start < self._course_at:
            return
        self._has_news = False
        self._stock()
        self._export.deliver_course()
        now = time.monotonic()
        self._course_at = now + COURSE_SHARE * (now - start)

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
                "ablate report sync"
            )
        pause = BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
        self._failures += 1
        with self._changed:
            self._changed.wait_for(lambda: self._closing, pause)

    def _deliver_the_rest(self) -> None:
        """Deliver everything that is still missing."""
        if not self._export.is_open:
            self._export.open()
        self._stock()
        closed = self._export.close()
        self._result.delivered += closed.delivered
        self._result.refused = closed.refused  # all that was refused before was tried again


def _text(error: Exception) -> str:
    """The message of an error. Even a bug in this package must not stop training."""
    is_bug = not isinstance(error, AblateError)
    return redacted(f"records: {type(error).__name__}: {error}") if is_bug else str(error)
