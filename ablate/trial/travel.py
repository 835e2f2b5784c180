"""Copying a corpus, and files that settings name, from the driver to the workers' hosts.

Both travel through the study's store.

    parcel = send(config, folder, store)      on the driver: plain data, part of a worker's orders
    folder = receive(parcel, store)           on a worker: a local folder, filled once per host

A corpus is in the store under `corpora/<key>/`. A host stores it in its own workspace
(ABLATE_WORKSPACE) or, if that disk is full, in a folder for temporary files, or in memory.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ablate.config.contents import digest_of_contents, files_of
from ablate.config.data_source import FROM_DRIVER, Damaged, DataConfig, named, source_of
from ablate.errors import CorpusError, StoreError
from ablate.store.files import private_folder, write_whole
from ablate.store.store import Store
from ablate.store.workspace import as_folder

MEMORY = Path("/dev/shm")
_REMEDY = "If its disk is full, set ABLATE_WORKSPACE there to a folder with enough space."


def send(config: DataConfig, folder: str, store: Store) -> dict[str, Any]:
    """Put the data that a section describes into the store, unless they are there."""
    source = source_of(config, folder)
    sealed, files = source.encoding(), {_name(file, folder): file for file in source.files()}
    key = source.digest() if sealed is None else sealed.name
    names = [file.name for file in source.encoded_files()]
    if sealed is not None and not store.exists(_key(key, names[-1])):
        for name in names:
            store.write_as_is(_key(key, name), (sealed / name).read_bytes())
    for name, file in files.items():
        if not store.exists(_key(key, name)):
            store.write_as_is(_key(key, name), file.read_bytes())
    parcel = {"asked": list(source.asked()), "key": key, "files": [*files]}
    return {**parcel, "copied_by": source.copied_by if sealed else None}


def _name(file: Path, folder: str) -> str:
    if not (file.is_file() and file.is_relative_to(folder)):
        raise CorpusError(f"{file} cannot travel. Expected: a file in the data folder {folder}.")
    return file.relative_to(folder).as_posix()


def receive(parcel: Mapping[str, Any], store: Store) -> str:
    """Return the local folder that contains the corpus, copying it there if necessary."""
    key, errors = parcel["key"], []
    for folder in (data / "from_driver" / key for data in _folders()):
        try:
            if parcel["copied_by"]:
                copy_into: Any = named(parcel["copied_by"])
                copied = folder / "encoded" / key
                copy_into(copied, lambda name: store.read_as_is(_key(key, name)))
            _copy_files({_key(key, name): folder / name for name in parcel["files"]}, store)
            write_whole(folder / FROM_DRIVER, json.dumps(parcel).encode())
        except Damaged as error:
            raise StoreError(
                f"corpora/{key} in the store {store.uri} is damaged ({error}). Delete that folder "
                "and run the study again: its driver writes the corpus again."
            ) from error
        except (OSError, CorpusError) as error:  # a full disk: the next folder may have space
            errors.append(str(error))
            continue
        return str(folder)
    why = errors[0] if errors else "no folder there can be written to."
    raise StoreError(f"the host {socket.gethostname()} cannot store the corpus: {why} {_REMEDY}")


def send_files(paths: Iterable[str], store: Store) -> dict[str, list[str]]:
    """Put the files that settings name into the store; return the keys for each path."""
    return {path: _send_file(path, store) for path in paths if Path(path).exists()}


def _send_file(path: str, store: Store) -> list[str]:
    """Put a file, or the files of a folder, into the store; their paths there end their keys."""
    start = f"files/{digest_of_contents(path)}/{Path(path).name}"
    files = {f"{start}/{name}" if name else start: file for name, file in files_of(path).items()}
    for key, file in files.items():
        if not store.exists(key):
            store.write_as_is(key, file.read_bytes())
    return [*files]


def receive_files(parcel: Mapping[str, Sequence[str]], store: Store) -> dict[str, str]:
    """Copy such files to this host, once; return path on the driver -> path here."""
    folder = Path(host_folder())
    _copy_files({key: folder / key for keys in parcel.values() for key in keys}, store)
    # The first three parts of a key, `files/<digest>/<name>`, are the file's or the folder's path.
    return {path: str(folder / "/".join(keys[0].split("/")[:3])) for path, keys in parcel.items()}


def _copy_files(files: Mapping[str, Path], store: Store) -> None:
    """Copy files from the store to this host, unless they are there."""
    for key, file in files.items():
        if not file.exists():
            data = store.read_as_is(key)
            if data is None:
                raise StoreError(f"{key} is missing from {store.uri}.")
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, data)


def host_folder() -> str:
    """This host's folder for data, where a task's function may keep its downloads."""
    folder = next(_folders(), None)
    if folder is None:
        raise StoreError(f"the host {socket.gethostname()} has no folder for data. {_REMEDY}")
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _folders() -> Iterator[Path]:
    """Yield the local folders that may store corpora, the preferred one first."""
    workspace = os.environ.get("ABLATE_WORKSPACE")
    if workspace:
        yield as_folder(workspace, "the workspace") / "data"
    for folder in (Path(tempfile.gettempdir()), MEMORY):
        with suppress(OSError, StoreError):  # full, or somebody else's: the next one
            yield private_folder(folder / f"ablate-{os.getuid()}") / "data"


def _key(key: str, name: str) -> str:
    return f"corpora/{key}/{name}"
