"""Checkpoints: tensors by name and plain data in one safetensors file; nothing is pickled.

trials/<id>/last.safetensors       all state of a running trial, deleted when it is done
trials/<id>/weights.safetensors    the best weights on validation, with their lineage
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from typing import Any

from ablate.config.identity import Trial
from ablate.config.tensors import HAS_TORCH, Tensor, torch
from ablate.errors import DamagedError, TrialError
from ablate.store import checksum
from ablate.store.store import Store, damaged, remake

FORMAT = importlib.import_module(f"safetensors.{'torch' if HAS_TORCH else 'numpy'}")
# The types that a file of safetensors can have; tensors of others are saved as their bytes.
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
STORED = frozenset((*_FLOATS, *_INTEGERS))


def last_key(trial_id: str) -> str:
    """Return the store's key of a trial's last checkpoint."""
    return f"trials/{trial_id}/last.safetensors"


def weights_key(trial_id: str) -> str:
    """Return the store's key of a trial's final weights."""
    return f"trials/{trial_id}/weights.safetensors"


def write(store: Store, key: str, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
    """Write tensors and plain data as one file, atomically."""
    ready = {name: _ready(tensor) for name, tensor in tensors.items()}
    more = {checksum.FIELD: checksum.BLANK, "plain": json.dumps(plain)}
    store.write(key, FORMAT.save(ready, metadata=more))


def _ready(tensor: Any) -> Any:
    # safetensors refuses tensors with gaps between their rows
    return tensor.detach().contiguous().cpu() if isinstance(tensor, Tensor) else tensor


def read(store: Store, key: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The tensors and the plain data of a checkpoint, or None without a checkpoint."""
    data = store.read(key)
    if data is None:
        return None
    try:
        # `load` leaves the metadata out: the header is behind its length, in eight bytes.
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return FORMAT.load(data), json.loads(header["__metadata__"]["plain"])
    except Exception as error:
        raise damaged(store, key, str(error)) from error


def write_weights(store: Store, trial: Trial, weights: Mapping[str, Tensor]) -> None:
    """Save a trial's best weights with their lineage."""
    lineage = [{"role": parent.role, "id": parent.id} for parent in trial.parents]
    plain = {"trial": trial.id, "parents": lineage, "keep": trial.keep}
    write(store, weights_key(trial.id), weights, plain)


def read_weights(store: Store, trial_id: str) -> dict[str, Tensor]:
    """The weights that a finished trial saved for others to build on."""
    saved_weights = read(store, weights_key(trial_id))
    if saved_weights is None:
        raise TrialError(
            f"the store {store.uri} has no weights of trial {trial_id}, which another trial builds "
            f"on. {remake(trial_id)}"
        )
    return saved_weights[0]


def has_weights(store: Store, trial_id: str) -> bool:
    """Return whether a trial's saved weights are there and undamaged."""
    try:
        return read(store, weights_key(trial_id)) is not None
    except DamagedError:
        return False  # as good as lost: its trial is run again


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """A digest of every bit of the weights."""
    total = hashlib.sha256()
    # A module's own order of names follows from how its class is written.
    for name in sorted(weights):
        total.update(name.encode())
        for part in sparse_parts(weights[name].detach()):
            total.update(bits(part).numpy().data)
    return total.hexdigest()


def bits(tensor: Tensor) -> Tensor:
    """The bytes of a dense tensor, in one dimension."""
    # Conjugated and negated tensors are views with a mark: their bytes are others.
    plain = tensor.resolve_conj().resolve_neg().contiguous().cpu()
    return plain.reshape(-1).view(torch.uint8)


def sparse_parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """The dense tensors that a sparse one consists of; a dense tensor itself."""
    if tensor.layout == torch.strided:
        return (tensor,)
    if tensor.layout == torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    return tensor.ccol_indices(), tensor.row_indices(), tensor.values()


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors under names that start with `prefix` and a dot."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def within(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start with `prefix.`, under names without this prefix."""
    start = f"{prefix}."
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
