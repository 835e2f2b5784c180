"""The study's store: a folder, or any filesystem that pyarrow opens by URI.

Every write is atomic and durable: a local file is written next to its final path, synced and
renamed; an object store shows an object once it is complete. Nothing here is pickled. A file that
has room for a checksum gets one when it is written, and is verified when it is read.

    trials/<id>/journal.json           what the trial is, its attempts, its epochs, its outcome
    trials/<id>/last.safetensors       where a stopped trial resumes
    trials/<id>/weights.safetensors    the weights that others build on
    trials/<id>/printed.json           what it printed: its first and last lines
    trials/<id>/tokens/<split>.arrow   log-probability of every token
    trials/<id>/readings.json          later reads of the test split
    studies/<key>/...                  the plan, its driver, the budget spent, results, analyses
    tables/<hash>.json                 what an exported table was made of
    corpora/<key>/...                  encoded corpora, for other hosts to fetch
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ablate.errors import DamagedError, StoreError
from ablate.redaction import keep_secret
from ablate.store import checksum, files
from ablate.store.locks import locked_folder

T = TypeVar("T")
OBJECT_STORES = ("s3", "gcs", "abfs")  # where an object is visible only once it is complete
ANSWERS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
PATIENCE_SECONDS = 60.0  # with a store over the network: a cut cable, a server that restarts
PAUSE_SECONDS = 1.0  # between two attempts
MAX_REREADS = 8  # rereads of a remote file: one that grew while it was read was cut short
WHY = 200  # characters of a reason that a message shows
REMAKE = (
    "Delete the folder trials/{name} in the store and run its study again: the trial is run again, "
    "with the same result."
)
REWRITE = "Delete the file, and run its study again: trials that are done are not run again."
REMEDIES = {  # for a damaged file, by its name or else its folder: what is lost, and what to do
    "readings.json": (
        "How often the test split of trial {name} was read after its study is lost. Delete the "
        "file: its readings are then counted from zero."
    ),
    "printed.json": (
        "What trial {name} printed is lost, and its results are not. Delete the file."
    ),
    "ledger.json": (
        "What {name} has spent is lost. Delete the file, and run the study again: its budget is "
        "then counted from zero, and trials that are done are not run again."
    ),
    "lease.json": "Delete the file, if no driver runs {name}.",
    "trials": f"What trial {{name}} learned cannot be trusted. {REMAKE}",
    "tables": (
        "What the table {name} was made of is lost. Delete the file, and export the table again."
    ),
}
FOR_GOOD = ("ACCESS_DENIED", "NO_SUCH_BUCKET", "INVALID_ACCESS_KEY", "SIGNATURE_DOES_NOT_MATCH")


class Store:
    """Files by key (`a/b/c`) under one root, read and written whole."""

    def __init__(self, uri: str) -> None:
        self.uri = str(uri)
        self.folder = _local_folder(self.uri)
        self._errors: tuple[type[Exception], ...] = ()  # besides the system's
        if self.folder is None:
            keep_secret(self.uri)  # a worker is given nothing but the store
            self._remote, self._root, self._errors = _open_remote(self.uri)
        else:
            self.uri = str(self.folder)

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        # A worker opens the store itself, which also keeps the URI's secrets out of its messages.
        return Store, (self.uri,)

    def write(self, key: str, data: bytes) -> None:
        """Write `data` under `key`, atomically and durably, with its checksum filled in."""
        parts = checksum.pieces(data, checksum.start_of(key))
        self._patiently("write", key, lambda: self._write(key, *parts))

    def write_as_is(self, key: str, data: bytes) -> None:
        """Write a copy of a file of any format, and add no checksum."""
        self._patiently("write", key, lambda: self._write(key, data))

    def read_as_is(self, key: str) -> bytes | None:
        """The bytes of such a copy, or None."""
        return self._patiently("read", key, lambda: self._read(key))

    def read(self, key: str) -> bytes | None:
        """The data under `key`, or None; a damaged file is an error that names it."""
        return self._sound(key, lambda data: data)

    def write_json(self, key: str, data: Mapping[str, Any]) -> None:
        """Write plain data as JSON, with a checksum."""
        plain = {**data, checksum.FIELD: checksum.BLANK}
        self.write(key, json.dumps(plain, indent=1, sort_keys=True).encode())

    def read_json(self, key: str, *, bare: str | None = None) -> dict[str, Any] | None:
        """The plain data under `key`, or None; a damaged file is an error that names it.

        `bare`: the name of a list that older versions wrote as the whole file.
        """
        return self._sound(key, lambda data: _plain(data, bare))

    def _sound(self, key: str, parse: Callable[[bytes], T]) -> T | None:
        for again in range(MAX_REREADS if self.folder is None else 0, -1, -1):
            data = self._patiently("read", key, lambda: self._read(key))
            if data is None:
                return None
            try:
                checksum.check(data, checksum.start_of(key))
                return parse(data)
            except (ValueError, RecursionError) as error:
                if not again:
                    raise damaged(self, key, str(error)) from error
            time.sleep(0.1)
        return None

    def exists(self, key: str) -> bool:
        """Return whether there is a file under the key."""
        if self.folder is not None:
            return (self.folder / _safe(key)).exists()
        return self._kind(key) != "NotFound"

    def stamps(self, keys: Sequence[str]) -> list[tuple[int, ...] | None]:
        """For each key what changes whenever its file does, without reading it; None: no file."""
        if self.folder is not None:
            return [_stamp(f"{self.folder}/{_safe(key)}") for key in keys]
        paths = [self._path(key) for key in keys]
        infos = self._patiently("look for", "files", lambda: self._remote.get_file_info(paths))
        return [(info.mtime_ns, info.size) if info.type.name == "File" else None for info in infos]

    def names(self, prefix: str) -> list[str]:
        """The names directly under `prefix`, sorted."""
        return sorted(n for n in self._all_names(prefix) if not n.endswith(files.PARTIAL))

    def delete(self, prefix: str) -> None:
        """Remove the file at `prefix`, or the folder with everything in it."""
        self._patiently("delete", prefix, lambda: self._delete(prefix))

    @contextlib.contextmanager
    def locked(self, prefix: str) -> Iterator[None]:
        """Hold the lock of a folder, once nobody else does. Only a local store has locks."""
        if self.folder is None:
            yield
            return
        path = self.folder / _safe(prefix)
        with contextlib.ExitStack() as stack:
            self._patiently("write", prefix, lambda: stack.enter_context(locked_folder(path)))
            yield

    def sweep(self, prefix: str) -> None:
        """Remove partial files that killed writers have left directly under `prefix`."""
        for name in self._all_names(prefix):
            if name.endswith(files.PARTIAL):
                self.delete(f"{prefix}/{name}")

    def _patiently(self, verb: str, key: str, work: Callable[[], T]) -> T:
        """Do it, and retry if the failure may be the network's; the error names the key."""
        try:
            return _patiently(work)
        except files.NoFile as error:
            raise damaged(self, key, str(error.strerror)) from error
        except (OSError, *self._errors) as error:
            advice = (
                " Free some space or choose another location with --workspace or --store; the "
                "same command then resumes where this one stopped."
            )
            why = " ".join(f"{getattr(error, 'strerror', None) or error}".split()).rstrip(".")
            text = f"cannot {verb} {key} in the store {self.uri}: {why}."
            raise StoreError(text + (advice if verb == "write" else "")) from error

    def _write(self, key: str, *parts: bytes | memoryview) -> None:
        if self.folder is None:
            self._write_remote(key, *parts)
        else:
            _write_local(self.folder / _safe(key), *parts)

    def _read(self, key: str) -> bytes | None:
        try:
            if self.folder is not None:
                return files.read_regular(f"{self.folder}/{_safe(key)}")  # no Path: it takes time
            with self._remote.open_input_stream(self._path(key)) as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _delete(self, prefix: str) -> None:
        if self.folder is None:
            kind = self._kind(prefix)
            if kind == "Directory":
                self._remote.delete_dir(self._path(prefix))
            elif kind == "File":
                self._remote.delete_file(self._path(prefix))
            return
        path = self.folder / _safe(prefix)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def _all_names(self, prefix: str) -> list[str]:
        return self._patiently("list", prefix, lambda: self._listed(prefix))

    def _listed(self, prefix: str) -> list[str]:
        if self.folder is not None:
            path = self.folder / _safe(prefix)
            return os.listdir(path) if path.is_dir() else []
        from pyarrow import fs

        selector = fs.FileSelector(self._path(prefix), allow_not_found=True)
        return [info.base_name for info in self._remote.get_file_info(selector)]

    def _kind(self, key: str) -> str:
        """NotFound, File or Directory."""
        return self._patiently(
            "look for", key, lambda: self._remote.get_file_info(self._path(key)).type.name
        )

    def _path(self, key: str) -> str:
        return f"{self._root}/{_safe(key)}"

    def _write_remote(self, key: str, *parts: bytes | memoryview) -> None:
        path = self._path(key)
        whole = self._remote.type_name in OBJECT_STORES
        if not whole:  # an object store has no folders: this would cost a request for each
            self._remote.create_dir(path.rsplit("/", 1)[0], recursive=True)
        partial = path if whole else f"{path}.{secrets.token_hex(4)}{files.PARTIAL}"
        with self._remote.open_output_stream(partial) as stream:
            for part in parts:
                stream.write(part)
        if not whole:
            self._remote.move(partial, path)


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _patiently(work: Callable[[], T]) -> T:
    """Do it, and retry if the failure may be the network's. A local folder's errors are final."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return work()
        except OSError as error:
            answered = error.errno is not None or isinstance(error, ANSWERS)
            final = answered or any(word in str(error) for word in FOR_GOOD)
            if final or time.monotonic() > end:
                raise
        time.sleep(PAUSE_SECONDS)


def damaged(store: Store, key: str, why: str) -> DamagedError:
    """The error for a file in the store that is not what was written."""
    why = why[:WHY].partition("\n")[0]
    return DamagedError(f"{key} in the store {store.uri} is damaged ({why}).", _remedy(key))


def _remedy(key: str) -> str:
    folder, _, rest = key.partition("/")
    name, file = rest.partition("/")[0].removesuffix(".json"), key.rpartition("/")[2]
    return REMEDIES.get(file, REMEDIES.get(folder, REWRITE)).format(name=name)


def remake(trial_id: str) -> str:
    """How to get a trial's files back."""
    return REMAKE.format(name=trial_id)


def _plain(data: bytes, bare: str | None) -> dict[str, Any]:
    """The plain data in a JSON file, without its checksum."""
    plain = json.loads(data)
    if bare is not None and isinstance(plain, list):
        return {bare: plain}
    if not isinstance(plain, dict):
        raise ValueError(f"it has a JSON {type(plain).__name__} in place of an object")
    plain.pop(checksum.FIELD, None)
    return plain


def _safe(key: str) -> str:
    """Refuse a key that would leave the store."""
    if key.startswith("/") or "\\" in key or (".." in key and ".." in key.split("/")):
        raise StoreError(f"'{key}' is not a path inside the store.")
    return key


def _local_folder(uri: str) -> Path | None:
    if uri.startswith("file://"):
        return Path(uri.removeprefix("file://"))
    return None if "://" in uri else Path(uri).absolute()


def _open_remote(uri: str) -> tuple[Any, str, tuple[type[Exception], ...]]:
    from pyarrow import ArrowException, fs

    try:
        filesystem, root = fs.FileSystem.from_uri(uri)
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot open the store {uri}: {error}.") from error
    if not root.strip("/"):
        raise StoreError(
            f"cannot open the store {uri}: it names no bucket or folder. Expected, for example: "
            "s3://bucket/folder."
        )
    return filesystem, root.rstrip("/"), (ArrowException,)


def _write_local(path: Path, *parts: bytes | memoryview, again: bool = True) -> None:
    """Write; try once more if the folder or the partial file was removed meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        files.write_whole(path, *parts)
    except FileNotFoundError:
        if not again:
            raise
        _write_local(path, *parts, again=False)
