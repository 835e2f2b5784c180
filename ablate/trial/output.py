"""What a trial's code prints, warns and logs: its last lines for the journal, and more for a file.

The text still goes where it went before: to the terminal without Ray, to Ray's files with it. The
file (`ablate/store/printed.py`) is written while the trial prints, so that of a trial that is
killed only the last moments are lost. What other processes than the trial's own print is not heard.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ablate.errors import AblateError, DamagedError
from ablate.redaction import redacted
from ablate.store import printed
from ablate.store.printed import Printed
from ablate.store.store import Store

MOST_LINES, LONGEST_LINE = 40, 300  # lines, characters: every journal has them
READ = 10_000  # characters of a line, before secrets are taken out of it
MOST_WAITING = 1_000  # lines for the file
WRITE_SECONDS = 1.0  # from a line to the write that stores it ...
WRITE_SHARE = 20  # ... or longer: writes take at most a twentieth of the time


class Output:
    """What was written to this process's streams while it listened; durable if it has a store."""

    def __init__(self, store: Store | None = None, trial_id: str = "") -> None:
        self._store, self._trial_id = store, trial_id
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._rests: dict[str, str] = {}  # what each stream was given after its last line's end
        self._new: deque[str] = deque()  # lines, with secrets, for the next write
        self._changed = False
        self._process, self._writing = os.getpid(), threading.Lock()
        self._timer: threading.Timer | None = None
        self._cost = 0.0  # seconds that the last write took

    @property
    def lines(self) -> list[str]:
        """Return the last lines without secrets, each cut at a length."""
        # Lines are cut after secrets are taken out: half a secret would not be recognized.
        text = redacted("\n".join([*self._lines, *filter(str.strip, self._rests.values())]))
        return [line.rstrip()[:LONGEST_LINE] for line in text.splitlines()][-MOST_LINES:]

    def hear(self, name: str, text: str) -> None:
        """Take in text from a stream; an unfinished line waits for its rest."""
        *whole, rest = (self._rests.get(name, "") + text).split("\n")
        lines = [_shown(line) for line in whole]
        self._lines.extend(line for line in lines if line.strip())
        self._new.extend(lines)
        # What follows a carriage return writes over the line, even if it comes later.
        self._rests[name] = _shown(rest) + ("\r" if rest.endswith("\r") else "")
        self._changed = True
        # By a thread, as what follows may print nothing for hours, and then be killed. A process
        # that the trial's code has forked would write an old state.
        if self._store is not None and self._timer is None and os.getpid() == self._process:
            wait = max(WRITE_SECONDS, WRITE_SHARE * self._cost)
            timer = self._timer = threading.Timer(wait, self._write_soon)
            timer.daemon = True
            timer.start()
        # A trial does not wait for a write: the next line, or the next write, takes them in.
        if len(self._new) > MOST_WAITING and self._writing.acquire(blocking=False):
            try:
                self._take_in()
            finally:
                self._writing.release()

    def _write_soon(self) -> None:
        self._timer = None
        with contextlib.suppress(AblateError):  # a store that fails is an error of the next epoch
            self.write()

    def end(self, text: str) -> None:
        """Write the file for the last time, with lines on how the attempt ended."""
        if text:
            for name in [name for name, rest in self._rests.items() if rest]:
                self.hear(name, "\n")  # its last line has not ended
            self._new.extend(text.splitlines())
            self._changed = True
        self.write()

    def write(self) -> None:
        """Write the file, if there is anything new."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if self._store is None or not self._changed:
            return
        with self._writing:
            start, self._changed = time.monotonic(), False
            self._take_in()
            rests = [redacted(rest) for rest in [*self._rests.values()] if rest.strip()]
            printed.write(self._store, self._trial_id, self._printed, rests)
            self._cost = time.monotonic() - start

    def _take_in(self) -> None:
        """Take secrets out of the lines that wait for the file; whoever calls has the lock."""
        lines = [self._new.popleft() for _ in range(len(self._new))]
        text = redacted("".join(f"{line}\n" for line in lines))
        self._printed.add(text.splitlines(keepends=True))

    @cached_property
    def _printed(self) -> Printed:
        """What the file has; of a trial that was started before, what earlier attempts printed."""
        if self._store is None:
            return Printed()
        try:
            before = printed.continued(self._store, self._trial_id)
        except DamagedError:
            return Printed()  # the trial matters more
        if before:
            now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
            before.add([f"[another attempt, {now} UTC]\n"])
        return before

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to stdout, stderr, and the loggers that write to them, in this block."""
        with contextlib.ExitStack() as stack:
            for name in ("stdout", "stderr"):
                if getattr(sys, name) is not None:  # None where Python has no console
                    stack.enter_context(self._of(name))
            yield

    @contextlib.contextmanager
    def _of(self, name: str) -> Iterator[None]:
        stream = getattr(sys, name)
        heard = _Heard(stream, name, self)
        setattr(sys, name, heard)
        # rich's display stands in for the stream that loggers were given before it began.
        redirected = _redirect((stream, getattr(stream, "rich_proxied_file", stream)), heard)
        try:
            yield
        finally:
            heard.output = None  # a handler that keeps it only writes to the stream from now on
            for handler, before in redirected:
                if handler.stream is heard:
                    handler.setStream(before)
            _redirect((heard,), stream)  # handlers that were made meanwhile
            # A task may have put another stream there, which stays.
            if getattr(sys, name) is heard:
                setattr(sys, name, stream)


class _Heard:
    """A stream that passes what is written to it on to an `Output` too."""

    def __init__(self, stream: Any, name: str, output: Output | None) -> None:
        self.stream, self.name_of, self.output = stream, name, output

    def write(self, text: str) -> int:
        if self.output is not None:
            self.output.hear(self.name_of, str(text))
        return self.stream.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _shown(line: str) -> str:
    """What a terminal shows of a line that is written over, as a progress bar is."""
    parts = [part for part in line.split("\r") if part]
    return parts[-1][:READ] if parts else ""


def _redirect(old: tuple[Any, ...], new: Any) -> list[tuple[Any, Any]]:
    """Make the loggers that write to old streams write to the new one; return each handler with the
    stream that it had."""
    redirected = []
    # A handler holds the stream that it was made with, whatever `sys.stderr` is now.
    known = [logging.root, *logging.root.manager.loggerDict.values()]
    for logger in known:
        # The names between loggers stand for placeholders, which have no handlers.
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and any(
                handler.stream is stream for stream in old
            ):
                redirected.append((handler, handler.stream))
                handler.setStream(new)
    return redirected
