"""Messages between the processes of a trial: plain data and tensors, as safetensors over a pipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

from safetensors.torch import load, save
from torch import Tensor

LENGTH = 8  # bytes before a message that say how long it is


class Message(NamedTuple):
    """What one process tells another."""

    plain: dict[str, Any]
    tensors: dict[str, Tensor]


def send(pipe: IO[bytes], plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a message; an `OSError` if the other process has ended."""
    ready = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    data = save(ready, metadata={"plain": json.dumps(plain)})
    pipe.write(len(data).to_bytes(LENGTH, "little") + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Message | None:
    """Wait for a message; None if the other process has ended."""
    size = pipe.read(LENGTH)
    data = pipe.read(int.from_bytes(size, "little")) if len(size) == LENGTH else b""
    if not data:
        return None
    header = json.loads(data[LENGTH : LENGTH + int.from_bytes(data[:LENGTH], "little")])
    return Message(json.loads(header["__metadata__"]["plain"]), load(data))
