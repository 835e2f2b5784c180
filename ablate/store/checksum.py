"""A checksum in every durable file, verified when the file is read.

It is a field of the file's own format, so that other programs still open the files:
`"checksum": "ablate-crc32:1f2e3d4c"` in JSON and in the metadata of safetensors and Arrow. It is
the CRC-32 of the file's name and of all its bytes except its own eight digits, so it notices a
changed bit as well as a file in another one's place. It does not stop anyone from forging a file.

The field is where a format keeps it. A name in the file may look the same, and is not the field.

A file without the field was written by an older version, and is read unchecked.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

FIELD = "checksum"
MARK = "ablate-crc32:"
DIGITS = 8
ONE_LINE = re.compile(rb'\{"checksum": ?"ablate-crc32:')  # JSON whose first field it is
INDENTED = b'\n "checksum": "ablate-crc32:'  # JSON: no text in it has a line break
TENSORS = b'"checksum":"ablate-crc32:'  # the metadata of safetensors: no text has a bare quote
ARROW, LENGTH = b"ARROW1", b"\x15\0\0\0"  # of the field, in front of it
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
    """Raise `Mismatch` if the data has a checksum, and differs from what was written.

    Where the field has lost its place, it may be the damage: then the first text like it counts.
    """
    at = _digits_of(data)
    if at is None and MARK.encode() in data:
        at = _end_of(MARK.encode(), data)
    if at is not None and data[at : at + DIGITS] != b"%08x" % _checksum(
        memoryview(data), at, start
    ):
        raise Mismatch(WRONG)


def _digits_of(data: bytes) -> int | None:
    """Where the checksum's digits are, or None if the data has no checksum."""
    if first := ONE_LINE.match(data):
        return first.end()
    if data.startswith(b"{"):
        return _end_of(INDENTED, data)
    if data.startswith(ARROW):  # a schema, after eight bytes that give its size
        return _end_of(LENGTH + MARK.encode(), data, 16 + int.from_bytes(data[12:16], "little"))
    return _end_of(TENSORS, data, 8 + int.from_bytes(data[:8], "little"))


def _end_of(text: bytes, data: bytes, end: int | None = None) -> int | None:
    at = data.find(text, 0, end)
    return None if at < 0 else at + len(text)


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
