"""Copying a corpus from the driver to the workers' hosts, through the study's store.

    parcel = send(config, folder, store)      on the driver: plain data, part of a worker's orders
    folder = receive(parcel, store)           on a worker: a local folder, filled once per host

Encodings are in the store under `corpora/<key>/`. A host stores them in its own workspace
(ABLATE_WORKSPACE) or, if that disk is full, in a folder for temporary files, or in memory.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ablate.config.sections import CorpusConfig
from ablate.data import corpus, encoded
from ablate.errors import CorpusError, StoreError
from ablate.store.files import private_folder, write_whole
from ablate.store.store import Store

MEMORY = Path("/dev/shm")
_REMEDY = "If its disk is full, set ABLATE_WORKSPACE there to a folder with enough space."


def send(config: CorpusConfig, folder: str, store: Store) -> dict[str, Any]:
    """Put the encoded corpus into the store, unless it is there; its seal comes last."""
    local = corpus.open_corpus(config, folder).encoding
    if not store.exists(_key(local.name, encoded.SEAL)):
        for name in encoded.FILES:
            if (local / name).exists():
                store.write(_key(local.name, name), (local / name).read_bytes())
    return {"asked": list(corpus.encoding_options(config)), "key": local.name}


def receive(parcel: Mapping[str, Any], store: Store) -> str:
    """Return the local folder that contains the corpus, copying it there if necessary."""
    key, errors = parcel["key"], []
    for folder in (data / "from_driver" / key for data in _folders()):
        try:
            encoded.copy_into(folder / "encoded" / key, lambda name: store.read(_key(key, name)))
            write_whole(folder / corpus.FROM_DRIVER, json.dumps(parcel).encode())
        except (OSError, CorpusError) as error:
            errors.append(str(error))
            continue
        return str(folder)
    why = errors[0] if errors else "it has no folder for it."
    raise StoreError(f"the host {socket.gethostname()} cannot store the corpus: {why} {_REMEDY}")


def host_folder() -> str:
    """This host's folder for data, where a task's function may keep what it downloads."""
    folder = next(_folders(), None)
    if folder is None:
        raise StoreError(f"the host {socket.gethostname()} has no folder for data. {_REMEDY}")
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _folders() -> Iterator[Path]:
    """Yield the local folders that may store corpora, the preferred one first."""
    workspace = os.environ.get("ABLATE_WORKSPACE")
    if workspace:
        yield Path(workspace) / "data"
    for folder in (Path(tempfile.gettempdir()), MEMORY):
        with suppress(OSError, StoreError):  # full, or somebody else's: the next one
            yield private_folder(folder / f"ablate-{os.getuid()}") / "data"


def _key(key: str, name: str) -> str:
    return f"corpora/{key}/{name}"
