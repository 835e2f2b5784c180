"""A corpus on its way from the driver to the hosts of its workers: by the study's store.

    parcel = send(config, folder, store)      on the driver: plain data, for the orders
    folder = receive(parcel, store)           on a worker: its host's own folder, filled once a host

Encodings lie in the store under `corpora/<key>/`. A host keeps them where its own workspace is
(ABLATE_WORKSPACE); where that disk is full, in a folder for temporary files, or in memory.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ablate.config import CorpusConfig
from ablate.data import corpus, encoded
from ablate.errors import CorpusError, StoreError
from ablate.store import Store

MEMORY = Path("/dev/shm")


def send(config: CorpusConfig, folder: str, store: Store) -> dict[str, Any]:
    """Put the encoded corpus into the store, if it is not there; its seal comes last."""
    place = corpus.open_corpus(config, folder).encoding
    if not store.exists(_key(place.name, encoded.SEAL)):
        for name in encoded.FILES:
            if (place / name).exists():
                store.write(_key(place.name, name), (place / name).read_bytes())
    return {"asked": list(corpus._asked(config)), "key": place.name}


def receive(parcel: Mapping[str, Any], store: Store) -> str:
    """The folder of this host that has the corpus."""
    key, troubles = parcel["key"], []
    for folder in _folders():
        try:
            encoded.bring(folder / "encoded" / key, lambda name: store.read(_key(key, name)))
        except (OSError, CorpusError) as error:
            troubles.append(str(error))
            continue
        corpus.BROUGHT[tuple(parcel["asked"])] = key
        return str(folder)
    raise StoreError(
        f"the host {socket.gethostname()} cannot keep the corpus: {troubles[0]} If its disk is "
        "full, set ABLATE_WORKSPACE there to a folder with room."
    )


def _folders() -> Iterator[Path]:
    """Where a host may keep corpora, the best place first."""
    workspace = os.environ.get("ABLATE_WORKSPACE")
    if workspace:
        yield Path(workspace) / "data"
    for place in (Path(tempfile.gettempdir()), MEMORY):
        yield place / f"ablate-{os.getuid()}" / "data"


def _key(key: str, name: str) -> str:
    return f"corpora/{key}/{name}"
