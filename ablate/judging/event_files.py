"""Reads TensorBoard's event files: a row for each step, with the scalars that it has.

A record is its length, a checksum of that, the data and a checksum of these, as TFRecord has them;
the data are a protobuf of the type Event (tensorflow/core/util/event.proto). The last record of a
run that was killed may be cut off, and is left out; any other damage is an error.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = "events.out.tfevents."
HEAD, FOOT = struct.Struct("<QI"), struct.Struct("<I")
CASTAGNOLI = 0x82F63B78  # the polynomial of CRC-32C, its bits from the other end
MASK = 0xA282EAD8  # by which TFRecord hides checksums of checksums
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5  # wire types of protobuf
STEP, SUMMARY = 2, 5  # fields of an Event
VALUE = 1  # of a Summary
TAG, SIMPLE, TENSOR = 1, 2, 8  # of a Value
FLOATS, CONTENT = 5, 4  # of a tensor


def rows(file: Path) -> list[dict[str, Any]]:
    """A row for each step, in the order of the first of its scalars."""
    steps: dict[int, dict[str, Any]] = {}
    for event in _records(file.read_bytes()):
        fields = dict(_fields(event))
        step = _signed(fields.get(STEP, 0))
        for number, value in _fields(fields.get(SUMMARY, b"")):
            if number == VALUE:
                steps.setdefault(step, {"step": step}).update(_scalar(dict(_fields(value))))
    return [row for row in steps.values() if len(row) > 1]


def _records(data: bytes) -> Iterator[bytes]:
    start = 0
    while start + HEAD.size <= len(data):
        length, checksum = HEAD.unpack_from(data, start)
        _check(data[start : start + 8], checksum)
        start += HEAD.size
        if start + length + FOOT.size > len(data):
            return
        record = data[start : start + length]
        _check(record, *FOOT.unpack_from(data, start + length))
        yield record
        start += length + FOOT.size


def _check(data: bytes, stored: int) -> None:
    found = 0xFFFFFFFF
    for byte in data:
        found = _table()[(found ^ byte) & 0xFF] ^ (found >> 8)
    found ^= 0xFFFFFFFF
    if ((found >> 15 | found << 17) + MASK) & 0xFFFFFFFF != stored:
        raise ValueError("a checksum does not match")


@functools.cache
def _table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [value >> 1 ^ (CASTAGNOLI if value & 1 else 0) for value in table]
    return table


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers, and the bytes of anything else."""
    start = 0
    while start < len(data):
        key, start = _varint(data, start)
        kind = key & 7
        if kind == VARINT:
            value, start = _varint(data, start)
        else:
            length, start = _length(kind, data, start)
            value, start = data[start : start + length], start + length
            if start > len(data):
                raise ValueError("a field is longer than its record")
        yield key >> 3, value


def _length(kind: int, data: bytes, start: int) -> tuple[int, int]:
    if kind == BYTES:
        return _varint(data, start)
    if kind not in (FIXED_32, FIXED_64):
        raise ValueError(f"a field of the unknown type {kind}")
    return (4 if kind == FIXED_32 else 8), start


def _varint(data: bytes, start: int) -> tuple[int, int]:
    value = shift = 0
    while start < len(data):
        value |= (data[start] & 0x7F) << shift
        shift, start = shift + 7, start + 1
        if data[start - 1] < 0x80:
            return value, start
    raise ValueError("a number is cut off")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _scalar(value: dict[int, Any]) -> dict[str, float]:
    """A value's tag and number; nothing of an image, a histogram or a text."""
    tensor = dict(_fields(value.get(TENSOR, b"")))
    number = value.get(SIMPLE) or tensor.get(FLOATS) or tensor.get(CONTENT) or b""
    if TAG not in value or len(number) != 4:
        return {}
    return {value[TAG].decode(): struct.unpack("<f", number)[0]}
