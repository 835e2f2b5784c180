"""Every registered technique in a model small enough to run in a moment."""

from __future__ import annotations

import pytest
import torch

from ablate import registry
from ablate.assemble import assemble
from ablate.components.regularizer import OFF, Chance
from ablate.config import resolve
from ablate.fields import describe
from ablate.streams import Streams

VOCABULARY = 23
WIDTH = 8  # of word vectors and layers alike, so that a tied head fits
SMALL = {"units": WIDTH}  # the fields of any technique that are set smaller than they come


class RandomText:
    """A text of random words, as techniques see one; the first of them separates words."""

    def __init__(self, num_words: int) -> None:
        self.num_words = num_words
        self.separators = (0,)
        self.eos = 1
        self.vocabulary = [f"word{number}" for number in range(num_words)]
        lengths = {"train": 400, "valid": 60, "test": 40}
        tokens = torch.Generator().manual_seed(5)
        self.splits = {
            split: torch.randint(0, num_words, (length,), generator=tokens, dtype=torch.int32)
            for split, length in lengths.items()
        }

    def counts(self):
        return torch.bincount(self.splits["train"], minlength=self.num_words)

    def stream(self, split):
        return self.splits[split]


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
        self.text = RandomText(VOCABULARY)
        assembly = assemble(self.config, VOCABULARY, text=self.text)
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
        chance = Chance(Streams(3), 0)
        return self.loss(self.run(masks), self.targets, self.model.embedding.weight, chance)

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
