"""A file with one object of JSON a line, which is only ever added to.

What is written is on the disk before anybody is told of it. So a last line without its end was cut
by a full disk or a kill, and nobody was told: it is left out, and the next line replaces it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ablate.errors import StoreError

Entry = Mapping[str, Any]


class Lines:
    """The file, which need not exist yet. `what` names it in messages."""

    def __init__(self, file: str, what: str) -> None:
        self._file, self._what = Path(file), f"{what} {file}"
        self._end = 0  # of the lines that are whole, in bytes

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Yield the whole lines with their numbers."""
        *whole, cut = self._bytes().split(b"\n")
        if _is_object(cut):  # written by hand, without an end
            whole.append(cut)
        self._end = sum(len(line) + 1 for line in whole)
        yield from ((number, line) for number, line in enumerate(whole, 1) if line.strip())

    def _bytes(self) -> bytes:
        try:
            if self._file.exists() and not self._file.is_file():
                raise StoreError(f"{self._what} is not a file. Instead: the name of a text file.")
            return self._file.read_bytes()
        except FileNotFoundError:
            return b""
        except (OSError, ValueError) as error:
            raise StoreError(f"{self._what} cannot be read: {error}.") from error

    def append(self, entries: Sequence[Entry]) -> None:
        """Add lines after the last whole one, all or none of them."""
        text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("r+b" if self._file.exists() else "xb") as file:
                self._write(file, text.encode())
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"{self._what} cannot be written: {reason}.") from error

    def _write(self, file: Any, text: bytes) -> None:
        has = file.seek(0, os.SEEK_END)
        begin = b"\n" if has == self._end - 1 else b""  # the last line has no end
        end = has if begin else self._end
        try:
            file.truncate(end)
            file.seek(end)
            file.write(begin + text)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(end)
            raise
        self._end = end + len(begin + text)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
