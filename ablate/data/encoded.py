"""Encoded corpora on disk: Arrow files, written once, whole, and mapped into memory by all.

    encoded/<key>/tokens.arrow       token numbers, int32, one batch a split; facts as metadata
    encoded/<key>/vocabulary.arrow   the words in order of their numbers
    encoded/<key>/floor.arrow        where known: each token's log probability under the source
    encoded/<key>/seal.json          what the files hash to, and how they looked when they did

A folder appears by one rename, so it is whole or not there; of several processes that start at
once the first encodes and the others wait for it (a lock that dies with its holder; where the
file system has none, each encodes and the last rename wins, with the same bytes).

Opening hashes nothing as long as the files' sizes, times and inodes are the sealed ones; otherwise
(a copy, a damage) it hashes them.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ablate.data.texts import file_stamp, replace_if_possible, sha256
from ablate.errors import CorpusError

TOKENS, VOCABULARY, FLOOR = "tokens.arrow", "vocabulary.arrow", "floor.arrow"
SEAL = "seal.json"
FILES = (TOKENS, VOCABULARY, FLOOR, SEAL)
ABANDONED_SECONDS = 3600  # after which a partial folder's writer is taken for dead

TRIES = 5  # without locks, one may put aside what another has just repaired

Streams = Mapping[str, np.ndarray]  # by split


class Damaged(Exception):
    """An encoded corpus that is not what was written."""


@dataclass(frozen=True)
class Columns:
    """What is written: token numbers, the words, plain facts, the floor's log probabilities."""

    splits: Streams
    vocabulary: list[str]
    facts: Mapping[str, Any]
    floor: Streams


@dataclass(frozen=True)
class Encoded:
    """An encoded corpus, mapped into memory."""

    place: Path
    splits: Streams
    facts: Mapping[str, Any]

    def vocabulary(self) -> list[str]:
        with _reading(self.place), pa.memory_map(str(self.place / VOCABULARY)) as file:
            return pa.ipc.open_file(file).get_batch(0).column(0).to_pylist()

    def floor(self) -> Streams:
        """Log probability of each token but a split's first, where the source is known."""
        path = self.place / FLOOR
        with _reading(self.place):
            return _mapped(path, np.float64)[0] if path.exists() else {}


def read(place: Path) -> Encoded | None:
    """The encoded corpus at `place`, or None if there is none."""
    if not place.is_dir():
        return None
    try:
        with _reading(place):
            return _read(place)
    except FileNotFoundError as error:
        raise Damaged(f"{Path(str(error.filename)).name} is missing") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # ArrowInvalid: ValueError
        raise Damaged(f"{type(error).__name__}: {error}") from error


def _read(place: Path) -> Encoded:
    sealed = json.loads((place / SEAL).read_bytes())
    stamps = {name: file_stamp(place / name) for name in {*sealed["sha256"], TOKENS, VOCABULARY}}
    if stamps != sealed["stamps"]:
        _check(place, sealed["sha256"])
    splits, facts = _mapped(place / TOKENS, np.int32)
    if facts["key"] != place.name:
        raise Damaged(f"it is the encoding {facts['key']}")
    return Encoded(place, splits, facts)


@contextmanager
def _reading(place: Path) -> Iterator[None]:
    """Say what cannot be read; a file that is not there is the caller's business."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorpusError(f"cannot read {place}: {error.strerror or error}.") from error


def read_or_make(place: Path, make: Callable[[str], Columns]) -> Encoded:
    """The encoded corpus at `place`, made if it is not there or no longer what it was.

    `make` is told why an encoding must be replaced, or "".
    """
    with suppress(Damaged):
        found = read(place)
        if found is not None:
            return found
    with _writing(place), _lock(place.parent):
        for _ in range(TRIES):
            try:
                found, damage = read(place), ""  # by now somebody else may have made it
            except Damaged as error:
                found, damage = None, str(error)
            if found is not None:
                return found
            _write(place, make(damage))
    raise CorpusError(f"{place} was removed again and again while it was being opened. Try again.")


def bring(place: Path, file: Callable[[str], bytes | None]) -> None:
    """Put an encoding that was made elsewhere at `place`, once a host; `file` gives its files."""
    if _is_sound(place):
        return
    with _writing(place), _lock(place.parent):
        if _is_sound(place):
            return
        partial = place.with_name(f"{place.name}.{os.getpid()}-{time.time_ns()}.partial")
        partial.mkdir()
        try:
            for name in FILES:
                data = file(name)
                if data is not None:
                    _write_synced(partial / name, data)
            _move(partial, place)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        if not _is_sound(place):
            shutil.rmtree(place, ignore_errors=True)
            raise CorpusError(f"the encoded corpus {place.name} has arrived damaged.")


def _is_sound(place: Path) -> bool:
    try:
        return read(place) is not None
    except Damaged:
        return False


def _mapped(path: Path, dtype: type) -> tuple[Streams, dict[str, Any]]:
    """A file's batches by split, as read-only arrays over the file, and its facts."""
    memory = pa.memory_map(str(path)).read_buffer()  # read as a buffer, Arrow starts no threads
    reader = pa.ipc.open_file(pa.BufferReader(memory))
    facts = json.loads(reader.schema.metadata[b"ablate"])
    columns = [reader.get_batch(index).column(0) for index in range(len(facts["splits"]))]
    # Arrow's own `to_numpy` would import pandas, which takes a hundred times as long as all this
    arrays = [np.frombuffer(column.buffers()[1], dtype, len(column)) for column in columns]
    return dict(zip(facts["splits"], arrays, strict=True)), facts


def as_arrow(array: np.ndarray, type_: pa.DataType) -> pa.Array:
    """The array's memory as an Arrow column; `pa.array` would import pandas."""
    return pa.Array.from_buffers(type_, len(array), [None, pa.py_buffer(array)])


def _check(place: Path, hashes: Mapping[str, str]) -> None:
    """Hash the files; seal them anew if they are what they were (a copy, say)."""
    if not hashes.keys() >= {TOKENS, VOCABULARY}:
        raise Damaged(f"{SEAL} does not name all files")
    for name, expected in hashes.items():
        if _hashed(place / name) != expected:
            raise Damaged(f"{name} is not what was written")
    replace_if_possible(place / SEAL, _seal(place, hashes))


def _hashed(path: Path) -> str:
    """The file's hash; where it is gone, another may be putting a damaged encoding aside."""
    try:
        return sha256(path)
    except CorpusError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise Damaged(f"{path.name} is missing") from error
        raise


def _seal(place: Path, hashes: Mapping[str, str]) -> str:
    stamps = {name: file_stamp(place / name) for name in hashes}
    return json.dumps({"stamps": stamps, "sha256": dict(hashes)})


def _write(place: Path, columns: Columns) -> None:
    """Everything beside its place, synced; then one rename."""
    partial = place.with_name(f"{place.name}.{os.getpid()}-{time.time_ns()}.partial")
    partial.mkdir()
    try:
        _write_streams(partial / TOKENS, columns.splits, pa.int32(), columns.facts)
        if columns.floor:
            _write_streams(partial / FLOOR, columns.floor, pa.float64(), {})
        words = pa.record_batch({"word": pa.array(columns.vocabulary, pa.string())})
        _write_arrow(partial / VOCABULARY, words.schema, [words])
        hashes = {name: sha256(partial / name) for name in sorted(os.listdir(partial))}
        _write_synced(partial / SEAL, _seal(partial, hashes).encode())
        _move(partial, place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_streams(path: Path, streams: Streams, type_: pa.DataType, facts: Mapping) -> None:
    plain = {**facts, "splits": list(streams)}
    schema = pa.schema([pa.field("value", type_, nullable=False)], {"ablate": json.dumps(plain)})
    arrays = [as_arrow(stream, type_) for stream in streams.values()]
    batches = [pa.record_batch([array], schema=schema) for array in arrays]
    _write_arrow(path, schema, batches)


def _write_arrow(path: Path, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    _write_synced(path, sink.getvalue())


def _write_synced(path: Path, data: bytes | pa.Buffer) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _move(partial: Path, place: Path) -> None:
    """Put `partial` where `place` is; a sound one that came first stays."""
    for _ in range(10):
        try:
            os.rename(partial, place)
            return
        except OSError as error:  # it may be gone by now: another has put a damaged one aside
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        with suppress(Damaged):
            if read(place) is not None:
                return
        damaged = place.with_name(f"{partial.name}.damaged.partial")
        with suppress(FileNotFoundError):
            os.rename(place, damaged)
        shutil.rmtree(damaged, ignore_errors=True)


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    """Make the folder above `place`; say what is wrong with a disk that cannot be written."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _clear_abandoned(place.parent)
        yield
    except OSError as error:
        raise CorpusError(
            f"cannot write the encoded corpus to {place}: {error.strerror or error}. Free some "
            "space, or name a workspace on a disk that can be written."
        ) from error


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One writer at a time, where the system can tell; the lock dies with its holder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        except (ImportError, OSError):
            pass  # no locks here: the renames alone keep it safe
        yield
    finally:
        os.close(handle)


def _clear_abandoned(folder: Path) -> None:
    for partial in folder.glob("*.partial"):
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(partial, ignore_errors=True)
