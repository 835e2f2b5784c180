"""A checksum in every durable file, verified when the file is read.

It is a field of the file's own format, so that other programs still open the files:
`"checksum": "ablate-crc32:1f2e3d4c"` in JSON and in the metadata of safetensors and Arrow. It is
the CRC-32 of the file's name and of all its bytes except its own eight digits, so it notices a
changed bit as well as a file in another one's place. It does not stop anyone from forging a file.

A file without the field was written by an older version, and is read unchecked.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

FIELD = "checksum"
MARK = "ablate-crc32:"
DIGITS = 8
BLANK = MARK + DIGITS * "0"  # what a writer puts into the field, for `pieces` to fill in
WRONG = "its checksum does not match its contents"


class Mismatch(ValueError):
    """A file's contents differ from what was written under its name."""


def start_of(name: str) -> int:
    """What a checksum starts from: the file's name, so that a file counts only in its place."""
    return zlib.crc32(name.encode())


def pieces(data: bytes | memoryview, start: int) -> Sequence[bytes | memoryview]:
    """The data to write, with its checksum filled in; joining them would copy large files."""
    data = bytes(data) if isinstance(data, memoryview) else data
    at = _digits_of(data)
    if at is None:
        return [data]
    view = memoryview(data)
    return [view[:at], f"{_checksum(view, at, start):08x}".encode(), view[at + DIGITS :]]


def check(data: bytes, start: int) -> None:
    """Raise `Mismatch` if the data has a checksum, and differs from what was written."""
    at = _digits_of(data)
    if at is not None and data[at : at + DIGITS] != b"%08x" % _checksum(
        memoryview(data), at, start
    ):
        raise Mismatch(WRONG)


def _digits_of(data: bytes) -> int | None:
    """Where the checksum's digits are, or None if the data has no checksum."""
    at = data.find(MARK.encode())
    return None if at < 0 else at + len(MARK)


def _checksum(view: memoryview, at: int, start: int) -> int:
    return zlib.crc32(view[at + DIGITS :], zlib.crc32(view[:at], start))


def next_line(line: bytes, before: int) -> tuple[bytes, int]:
    """A line to append to a file, with its checksum filled in, and the checksum so far.

    `before`: the checksum so far, at first `start_of` the file's name. A line's checksum covers all
    lines before it, so a line that is missing, doubled or moved is noticed too.
    """
    line = b"".join(pieces(line, before))
    return line, zlib.crc32(line, before)


def check_line(line: bytes, before: int) -> int:
    """Check the next line that was read; return the checksum so far."""
    check(line, before)
    return zlib.crc32(line, before)
