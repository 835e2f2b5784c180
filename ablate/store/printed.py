"""What a trial printed, of all its attempts: the first lines and the last ones, without secrets.

trials/<id>/printed.json   those lines, and the number of characters between them
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from ablate.config import typed
from ablate.store.store import Store, damaged

MOST = 32_000  # characters of the first lines, and of the last ones


@dataclass(frozen=True)
class _Stored:
    first: str
    last: str
    num_left_out: int  # characters


@dataclass
class Printed:
    """The first lines and the last ones, each up to a number of characters."""

    first: list[str] = field(default_factory=list)
    last: deque[str] = field(default_factory=deque)
    num_left_out: int = 0  # characters between the two

    def __post_init__(self) -> None:
        self._room = MOST if not self.num_left_out else 0  # for first lines
        self._length = sum(map(len, self.last))

    def __bool__(self) -> bool:
        return bool(self.first or self.last)

    def add(self, lines: Iterable[str]) -> None:
        """Add lines, each of which ends with a line break."""
        for line in lines:
            if len(line) <= self._room:
                self.first.append(line)
                self._room -= len(line)
            else:
                self._room = 0  # also for a shorter line: lines stay in order
                self._add_last(line)

    def _add_last(self, line: str) -> None:
        self.last.append(line)
        self._length += len(line)
        while self._length > MOST and len(self.last) > 1:
            oldest = len(self.last.popleft())
            self._length -= oldest
            self.num_left_out += oldest


def read(store: Store, trial_id: str) -> str | None:
    """What a trial has printed so far, as one text; None if it has printed nothing."""
    stored = _read(store, trial_id)
    if stored is None:
        return None
    gap = f"[... {stored.num_left_out:,} characters are not stored ...]\n"
    return stored.first + (gap if stored.num_left_out else "") + stored.last


def continued(store: Store, trial_id: str) -> Printed:
    """What earlier attempts of a trial printed, to add to."""
    stored = _read(store, trial_id)
    if stored is None:
        return Printed()
    first, last = (text.splitlines(keepends=True) for text in (stored.first, stored.last))
    if stored.num_left_out:
        return Printed(first, deque(last), stored.num_left_out)
    whole = Printed()
    whole.add([*first, *last])
    return whole


def write(store: Store, trial_id: str, printed: Printed, unfinished: Iterable[str] = ()) -> None:
    """Store what was printed, and lines that have not ended yet."""
    last = [*printed.last, *(f"{line}\n" for line in unfinished)]
    stored = _Stored("".join(printed.first), "".join(last), printed.num_left_out)
    store.write_json(_key(trial_id), dataclasses.asdict(stored))


def _read(store: Store, trial_id: str) -> _Stored | None:
    plain = store.read_json(_key(trial_id))
    try:
        return None if plain is None else typed.read(_Stored, plain)
    except typed.Wrong as error:
        raise damaged(store, _key(trial_id), str(error)) from error


def _key(trial_id: str) -> str:
    return f"trials/{trial_id}/printed.json"
