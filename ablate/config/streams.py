"""A stateless stream of random numbers for every named purpose.

A generator is seeded with a hash of the trial's seed, the purpose and the number of the update. So
adding a purpose never shifts the others, arms with the same seed share the draws of a purpose, and
a checkpoint needs no generator state: the number of the update is enough.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derived_seed(*parts: object) -> int:
    """Return a 63-bit seed that depends on every part."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True)
class Streams:
    """The named streams of one trial."""

    seed: int
    device: str = "cpu"

    def generator(self, purpose: str, update: int = 0) -> torch.Generator:
        """Return a torch generator for tensors drawn on the trial's device."""
        import torch

        seed = derived_seed(self.seed, purpose, update)
        return torch.Generator(self.device).manual_seed(seed)

    def seed_global(self, purpose: str, update: int = 0) -> None:
        """Seed the global generators of torch, numpy and Python, which custom modules may use."""
        import numpy as np

        from ablate.config.tensors import HAS_TORCH, torch

        seed = derived_seed(self.seed, "global", purpose, update)
        if HAS_TORCH:
            torch.default_generator.manual_seed(seed)  # torch.manual_seed is slow without a GPU
        if HAS_TORCH and self.device != "cpu":
            torch.cuda.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)

    def python(self, purpose: str, update: int = 0) -> random.Random:
        """Return a generator for single numbers drawn on the host."""
        return random.Random(derived_seed(self.seed, purpose, update))
