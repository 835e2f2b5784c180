"""Every registered technique in a model small enough to run in a moment."""

from __future__ import annotations

import pytest
import torch

from ablate import registry
from ablate.assemble import assemble
from ablate.components.regularizer import OFF
from ablate.config import resolve
from ablate.fields import describe
from ablate.streams import Streams

VOCABULARY = 23
WIDTH = 8  # of word vectors and layers alike, so that a tied head fits
SMALL = {"units": WIDTH}  # the fields of any technique that are set smaller than they come


class Small:
    """An initialised assembly with tokens to run it on."""

    def __init__(self, chosen: dict[str, str], values: dict, seed: int, dtype) -> None:
        chosen = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd", **chosen}
        flat = {"embedding.size": WIDTH, **chosen}
        for slot, name in chosen.items():
            for field in describe(registry.get(slot, name).config):
                if field.name in SMALL:
                    flat[f"{slot}.{field.name}"] = SMALL[field.name]
        self.config = resolve({**flat, **values})
        assembly = assemble(self.config, VOCABULARY)
        self.model, self.loss, self.regularizers = (
            assembly.model,
            assembly.loss,
            assembly.regularizers,
        )
        self.model.initialize(Streams(seed))
        self.model.to(dtype)
        tokens = torch.Generator().manual_seed(0)
        self.ids = torch.randint(0, VOCABULARY, (6, 3), generator=tokens)
        self.targets = torch.randint(0, VOCABULARY, (18,), generator=tokens)

    def run(self, masks=OFF):
        return self.model(self.ids, self.model.initial_state(3), masks)

    def summed_loss(self, masks=OFF):
        return self.loss(self.run(masks), self.targets, self.model.embedding.weight)

    def gradients(self) -> dict[str, torch.Tensor]:
        self.model.zero_grad()
        self.summed_loss().backward()
        named = self.model.named_parameters()
        return {name: p.grad.clone() for name, p in named if p.grad is not None}


@pytest.fixture
def small():
    """Makes a `Small` from techniques by slot and more flat values."""

    def make(values: dict | None = None, *, seed: int = 1, dtype=torch.float64, **chosen) -> Small:
        return Small(chosen, values or {}, seed, dtype)

    return make
