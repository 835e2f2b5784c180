"""What a trial's code prints, warns and logs: its last lines, for the journal.

The text still goes where it went before: to the terminal without Ray, to Ray's files with it.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from ablate.redaction import redacted

MOST_LINES, LONGEST_LINE = 40, 300  # lines, characters: every journal has them
READ = 10_000  # characters of a line, before secrets are taken out of it


class Output:
    """The last lines that were written to this process's streams while it listened."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._rests: dict[str, str] = {}  # what each stream was given after its last line's end

    @property
    def lines(self) -> list[str]:
        """Return the last lines without secrets, each cut at a length."""
        # Lines are cut after secrets are taken out: half a secret would not be recognized.
        text = redacted("\n".join([*self._lines, *filter(str.strip, self._rests.values())]))
        return [line.rstrip()[:LONGEST_LINE] for line in text.splitlines()][-MOST_LINES:]

    def hear(self, name: str, text: str) -> None:
        """Take in text from a stream; an unfinished line waits for its rest."""
        *whole, rest = (self._rests.get(name, "") + text).split("\n")
        self._lines.extend(line for line in map(_shown, whole) if line.strip())
        # What follows a carriage return writes over the line, even if it comes later.
        self._rests[name] = _shown(rest) + ("\r" if rest.endswith("\r") else "")

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
        _redirect(stream, heard)
        try:
            yield
        finally:
            heard.output = None  # a handler that keeps it only writes to the stream from now on
            _redirect(heard, stream)
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


def _redirect(old: Any, new: Any) -> None:
    """Make the loggers that write to the old stream write to the new one."""
    # A handler holds the stream that it was made with, whatever `sys.stderr` is now.
    known = [logging.root, *logging.root.manager.loggerDict.values()]
    for logger in known:
        # The names between loggers stand for placeholders, which have no handlers.
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and handler.stream is old:
                handler.setStream(new)
