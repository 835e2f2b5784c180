"""What all clients of the page share: each page is read once, however many look at it.

A page consists of fragments. Its position is the number of times that something of it has changed;
a fragment knows the position at which its text last changed, so that a client is sent only what is
new since its own position.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

PAUSE_SECONDS = 0.8  # between two looks at the files, however many clients ask
BOOT = secrets.token_hex(4)  # positions of another server's life mean nothing


class Source(Protocol):
    """What a page is made of."""

    def refresh(self) -> bool:
        """Read what has changed; return whether anything has."""
        ...


Fragments = Mapping[str, Callable[[], str]]


class Watched:
    """A page, its position, and its fragments as they were last made."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lock = threading.RLock()
        self.position = 0
        self.used = 0.0  # when a client last asked
        self._looked = float("-inf")
        self.written: dict[str, tuple[Any, str]] = {}  # blocks, and their HTML
        self._made: dict[str, tuple[int, int, str]] = {}  # position made at, changed at, text

    def refresh(self) -> None:
        """Read what has changed, unless that was done a moment ago."""
        with self.lock:
            self.used = time.monotonic()
            if self.used - self._looked < PAUSE_SECONDS:
                return
            if self.source.refresh():
                self.position += 1
            self._looked = time.monotonic()

    def cursor(self) -> str:
        """The position as clients return it."""
        return f"{BOOT}.{self.position}"

    def fragments(self, made_by: Fragments, cursor: str = "") -> dict[str, str]:
        """The fragments that have changed since a cursor; all of them for an unknown one."""
        since = position_of(cursor)
        with self.lock:
            changed = {name: self._fragment(name, make) for name, make in made_by.items()}
        return {name: text for name, (at, text) in changed.items() if at > since}

    def _fragment(self, name: str, make: Callable[[], str]) -> tuple[int, str]:
        """The position at which a fragment changed last, and its text."""
        made_at, changed_at, text = self._made.get(name, (-1, self.position, ""))
        if made_at != self.position:
            new = make()
            changed_at = self.position if new != text else changed_at
            self._made[name] = self.position, changed_at, new
            return changed_at, new
        return changed_at, text


def position_of(cursor: str) -> int:
    """The position that a cursor names; -1 for one of another server's life."""
    boot, _, number = cursor.partition(".")
    return int(number) if boot == BOOT and number.isdecimal() and len(number) < 12 else -1
