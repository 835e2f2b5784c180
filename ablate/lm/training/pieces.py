"""The pieces of an evaluation, saved in its trial's checkpoint, with pauses between them."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.config.streams import Streams
from ablate.lm.model.evaluator import Pieces


class Paused(Exception):
    """The slice is over. A piece that it interrupts is computed again."""


class SavedPieces(Pieces):
    """Pieces that end a slice. The global generators are seeded at the start of every step and
    after the last, so that draws from them do not depend on where the evaluation paused."""

    def __init__(self, streams: Streams) -> None:
        super().__init__()
        self._streams, self._until = streams, math.inf

    def pause_after(self, seconds: float) -> None:
        """Allow pieces to start for this many seconds."""
        self._until = time.monotonic() + seconds

    def starts(self, what: str) -> None:
        self._streams.seed_global(f"evaluation/{what}")

    def ends(self, key: str) -> None:
        if time.monotonic() > self._until:
            raise Paused(key)

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The arrays as tensors, and the rest as plain data."""
        tensors, plain = dict[str, Tensor](), dict[str, Any]()
        for key, (steps, value) in self.so_far.items():
            if isinstance(value, np.ndarray):
                tensors[key] = torch.from_numpy(np.ascontiguousarray(value))
            plain[key] = [steps, None if key in tensors else value]
        return tensors, {"pieces": plain}

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        """Take over the pieces of a checkpoint, which are not computed again."""
        self.so_far = {
            key: (steps, tensors[key].numpy() if key in tensors else value)
            for key, (steps, value) in plain.get("pieces", {}).items()
        }
