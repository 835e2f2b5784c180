"""A stream of randomness for every named purpose, without state.

A generator is seeded by a hash of the trial's seed, the purpose and the update it serves. So a
new purpose never shifts another one, arms with the same seed share what they share by name, and
a checkpoint needs no generator's state: the number of the update says it all.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derived_seed(*parts: object) -> int:
    """A 63-bit seed that any change of any part changes."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True)
class Streams:
    """The named streams of one trial."""

    seed: int
    device: str = "cpu"

    def generator(self, purpose: str, update: int = 0) -> torch.Generator:
        """A torch generator for tensors drawn on the trial's device."""
        import torch

        seed = derived_seed(self.seed, purpose, update)
        return torch.Generator(self.device).manual_seed(seed)

    def python(self, purpose: str, update: int = 0) -> random.Random:
        """A generator for single numbers drawn on the host."""
        return random.Random(derived_seed(self.seed, purpose, update))
