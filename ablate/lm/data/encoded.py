"""Encoded corpora on disk: Arrow files, written once and mapped into memory by all processes.

    encoded/<key>/tokens.arrow       token ids, int32, one batch per split; facts as metadata
    encoded/<key>/vocabulary.arrow   the words in order of their ids
    encoded/<key>/floor.arrow        if known: each token's log probability under the source
    encoded/<key>/source_vocabulary.arrow   of pairs: the words to read, unless they are the same
    encoded/<key>/texts.arrow        if needed: sentences as text, one batch per split (and side)
    encoded/<key>/seal.json          the hashes of the files

A folder appears by a rename, so it is either complete or missing. Of several processes that start
together, the first encodes and the others wait (for a lock that is released when its process dies;
without locks in the file system, each encodes and the last rename wins, with the same bytes).

A process hashes the files when it first opens them, and again if they have been changed: a disk
that loses a bit keeps a file's size and times.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ablate.config.data_source import FROM_DRIVER, Damaged
from ablate.errors import CorpusError
from ablate.lm.data.texts import writing
from ablate.store.arrow import as_arrow
from ablate.store.files import read_regular, sha256, sha256_once, sync
from ablate.store.locks import locked_folder

TOKENS, VOCABULARY, FLOOR = "tokens.arrow", "vocabulary.arrow", "floor.arrow"
SOURCE_VOCABULARY, TEXTS = "source_vocabulary.arrow", "texts.arrow"
SEAL = "seal.json"
FILES = (TOKENS, VOCABULARY, SOURCE_VOCABULARY, TEXTS, FLOOR, SEAL)
ABANDONED_SECONDS = 3600  # after which the writer of a partial folder is assumed to be dead
TRIES = 5  # without locks, a process may remove what another has just repaired

if TYPE_CHECKING:
    from torch import Tensor

Streams = Mapping[str, np.ndarray]  # by split; of pairs, by split and side


@dataclass(frozen=True)
class Columns:
    """The data to write: token ids, words, facts, and what else is known."""

    splits: Streams
    vocabulary: list[str]
    facts: Mapping[str, Any]
    floor: Streams = field(default_factory=dict)
    source_vocabulary: list[str] = field(default_factory=list)  # if it is another one
    texts: Mapping[str, list[str]] = field(default_factory=dict)  # by split; of pairs, and side


@dataclass(frozen=True)
class Encoded:
    """An encoded corpus, mapped into memory."""

    folder: Path
    splits: Streams
    facts: Mapping[str, Any]

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """The words in the order of their ids."""
        return self._words(VOCABULARY)

    @cached_property
    def source_vocabulary(self) -> tuple[str, ...]:
        """Return the words to read of a corpus of pairs, which may share its other vocabulary."""
        own = (self.folder / SOURCE_VOCABULARY).exists()
        return self._words(SOURCE_VOCABULARY) if own else self.vocabulary

    def _words(self, name: str) -> tuple[str, ...]:
        with _reading(self.folder), pa.memory_map(str(self.folder / name)) as file:
            return tuple(pa.ipc.open_file(file).get_batch(0).column(0).to_pylist())

    def texts(self, name: str) -> list[str]:
        """Return the sentences of a split, or of a split and side; none if only tokens are kept."""
        path = self.folder / TEXTS
        if not path.exists():
            return []
        with _reading(self.folder), pa.memory_map(str(path)) as file:
            reader = pa.ipc.open_file(file)
            names = json.loads(reader.schema.metadata[b"ablate"])["splits"]
            if name not in names:
                return []
            return reader.get_batch(names.index(name)).column(0).to_pylist()

    def floor(self) -> Streams:
        """Return each token's log probability except a split's first, if the source is known."""
        path = self.folder / FLOOR
        with _reading(self.folder):
            return _map(path, np.float64)[0] if path.exists() else {}


def as_tensor(stream: np.ndarray) -> Tensor:
    """Return a 32-bit tensor over the mapped file, without a copy.

    It must not be written to. It goes through Arrow because torch warns about read-only numpy
    arrays.
    """
    import torch

    return torch.from_dlpack(as_arrow(stream, pa.int32()))


def key_from_driver(options: tuple, folder: Path) -> str | None:
    """Return the key of an encoding that a driver sent to this host, which may lack the text.

    `options`: the settings that select an encoding.
    """
    file = folder / FROM_DRIVER
    sent = json.loads(file.read_text()) if file.exists() else None
    return sent["key"] if sent and tuple(sent["asked"]) == options else None


def read(folder: Path) -> Encoded | None:
    """Open the encoded corpus in `folder`; return None if there is none."""
    if not folder.is_dir():
        return None
    try:
        with _reading(folder):
            return _read(folder)
    except FileNotFoundError as error:
        raise Damaged(f"{Path(str(error.filename)).name} is missing") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # ArrowInvalid: ValueError
        raise Damaged(f"{type(error).__name__}: {error}") from error


def _read(folder: Path) -> Encoded:
    sealed = json.loads(read_regular(folder / SEAL))
    _check(folder, sealed["sha256"])
    splits, facts = _map(folder / TOKENS, np.int32)
    # A folder that was renamed is whole and sealed, and still of another text.
    if facts["key"] != folder.name:
        raise Damaged(f"it is the encoding {facts['key']}")
    return Encoded(folder, splits, facts)


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Turn read errors into ours, except for missing files, which the caller handles."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorpusError(f"cannot read {folder}: {error.strerror or error}.") from error


def _sound(folder: Path) -> Encoded | None:
    """Open the encoded corpus in `folder`; return None if it is missing or damaged."""
    try:
        return read(folder)
    except Damaged:
        return None


def read_or_make(folder: Path, make: Callable[[str], Columns]) -> Encoded:
    """Open the encoded corpus in `folder`, making it first if it is missing or damaged.

    `make` gets the reason why an encoding must be replaced, or "".
    """
    if corpus := _sound(folder):  # the usual case, without a lock
        return corpus
    with _writing(folder):
        for _ in range(TRIES):
            try:
                corpus, damage = read(folder), ""  # another process may have made it by now
            except Damaged as error:
                corpus, damage = None, str(error)
            if corpus is not None:
                return corpus
            _write(folder, make(damage))
    raise CorpusError(f"{folder} was repeatedly removed while it was being opened. Try again.")


def copy_into(folder: Path, read_file: Callable[[str], bytes | None]) -> None:
    """Copy an encoding that was made elsewhere into `folder`, once per host; raise `Damaged` if the
    copy differs from what was sealed."""
    if _sound(folder):
        return
    with _writing(folder):
        if _sound(folder):  # another process has copied it meanwhile
            return
        with _moved_to(folder) as partial:
            for name in FILES:
                data = read_file(name)
                if data is not None:
                    _write_synced(partial / name, data)
        if not _sound(folder):
            shutil.rmtree(folder, ignore_errors=True)
            raise Damaged("the copy differs from what was sealed")


def _map(path: Path, dtype: type) -> tuple[Streams, dict[str, Any]]:
    """Map a file: its batches by split, as read-only arrays, and its facts."""
    memory = pa.memory_map(str(path)).read_buffer()  # for a buffer, Arrow starts no threads
    reader = pa.ipc.open_file(pa.BufferReader(memory))
    facts = json.loads(reader.schema.metadata[b"ablate"])
    columns = [reader.get_batch(index).column(0) for index in range(len(facts["splits"]))]
    # Arrow's own `to_numpy` would import pandas, which takes a hundred times longer
    arrays = [np.frombuffer(column.buffers()[1], dtype, len(column)) for column in columns]
    return dict(zip(facts["splits"], arrays, strict=True)), facts


def _check(folder: Path, hashes: Mapping[str, str]) -> None:
    """Raise `Damaged` if a file differs from what was sealed."""
    if not hashes.keys() >= {TOKENS, VOCABULARY}:
        raise Damaged(f"{SEAL} does not name all files")
    for name, expected in hashes.items():
        if sha256_once(folder / name) != expected:
            raise Damaged(f"{name} has changed")


def _write(folder: Path, columns: Columns) -> None:
    with _moved_to(folder) as partial:
        _write_columns(partial / TOKENS, columns.splits, pa.int32(), columns.facts, as_arrow)
        if columns.floor:
            _write_columns(partial / FLOOR, columns.floor, pa.float64(), {}, as_arrow)
        _write_words(partial / VOCABULARY, columns.vocabulary)
        if columns.source_vocabulary:
            _write_words(partial / SOURCE_VOCABULARY, columns.source_vocabulary)
        if columns.texts:
            _write_columns(partial / TEXTS, columns.texts, pa.large_string(), {}, pa.array)
        hashes = {name: sha256(partial / name) for name in sorted(os.listdir(partial))}
        _write_synced(partial / SEAL, json.dumps({"sha256": hashes}).encode())


@contextmanager
def _moved_to(folder: Path) -> Iterator[Path]:
    """Make a folder next to `folder`, and rename it to `folder` once its files are written."""
    # With a process id and a time: without locks, several processes may write at once.
    partial = folder.with_name(f"{folder.name}.{os.getpid()}-{time.time_ns()}.partial")
    partial.mkdir()
    try:
        yield partial
        _move(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_words(path: Path, vocabulary: list[str]) -> None:
    words = pa.record_batch({"word": pa.array(vocabulary, pa.string())})
    _write_arrow(path, words.schema, [words])


def _write_columns(
    path: Path, columns: Mapping, type_: pa.DataType, facts: Mapping, as_array: Callable
) -> None:
    """Write one batch for each split, and the facts as metadata."""
    plain = {**facts, "splits": list(columns)}
    schema = pa.schema([pa.field("value", type_, nullable=False)], {"ablate": json.dumps(plain)})
    arrays = [as_array(values, type_) for values in columns.values()]
    batches = [pa.record_batch([array], schema=schema) for array in arrays]
    _write_arrow(path, schema, batches)


def _write_arrow(path: Path, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    _write_synced(path, sink.getvalue())


def _write_synced(path: Path, data: bytes | pa.Buffer) -> None:
    path.write_bytes(data)
    sync(path)


def _move(partial: Path, folder: Path) -> None:
    """Rename `partial` to `folder`, replacing a damaged folder but not a sound one."""
    for _ in range(10):
        try:
            os.rename(partial, folder)
            return
        except OSError as error:  # not fatal if `folder` exists
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        if _sound(folder):
            return
        # Put aside and then removed: others never see a folder without some of its files.
        damaged = folder.with_name(f"{partial.name}.damaged.partial")
        with suppress(FileNotFoundError):
            os.rename(folder, damaged)
        shutil.rmtree(damaged, ignore_errors=True)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Make the parent of `folder`, where one process at a time may write. On a system without
    locks, the renames are enough to be safe."""
    with writing(f"the encoded corpus to {folder}"), locked_folder(folder.parent):
        _clear_abandoned(folder.parent)
        yield


def _clear_abandoned(folder: Path) -> None:
    for partial in folder.glob("*.partial"):
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(partial, ignore_errors=True)
