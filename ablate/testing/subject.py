"""A technique under test, in a model small enough to run in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ablate.config import registry
from ablate.config.fields import build, describe
from ablate.config.registry import LISTED_SLOTS, Technique
from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.model.assemble import assemble
from ablate.model.masks import OFF, Chance, Masks

VOCABULARY = 23
WIDTH = 8  # of word vectors and layers, so that a tied head fits
STEPS, ROWS = 6, 3
NUM_TOKENS = STEPS * ROWS
SMALLER = {"units": WIDTH}  # fields of any technique, set smaller than their defaults


class RandomText:
    """A text of random words; word 0 separates words."""

    separators = (0,)
    eos = 1
    num_words = VOCABULARY

    def __init__(self) -> None:
        self.vocabulary = [f"word{number}" for number in range(VOCABULARY)]
        lengths = {"train": 400, "valid": 60, "test": 40}
        tokens = torch.Generator().manual_seed(5)
        self.splits = {
            split: torch.randint(0, VOCABULARY, (length,), generator=tokens, dtype=torch.int32)
            for split, length in lengths.items()
        }

    def counts(self) -> Tensor:
        return torch.bincount(self.splits["train"], minlength=VOCABULARY)

    def stream(self, split: str) -> Tensor:
        return self.splits[split]


class SmallModel:
    """An initialized assembly, with tokens to run it on.

    `chosen` names techniques by slot; `values` are a study's flat values.
    """

    def __init__(
        self,
        chosen: Mapping[str, str],
        values: Mapping[str, Any] | None = None,
        seed: int = 1,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        chosen = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd", **chosen}
        flat: dict[str, Any] = {"embedding.size": WIDTH, **chosen}
        for slot, name in chosen.items():
            for info in describe(registry.get(slot, name).config):
                if info.name in SMALLER:
                    flat[f"{slot}.{info.name}"] = SMALLER[info.name]
        self.config = resolve({**flat, **(values or {})})
        self.text = RandomText()
        assembly = assemble(self.config, VOCABULARY, text=self.text)
        self.model, self.loss = assembly.model, assembly.loss
        self.regularizers = assembly.regularizers
        self.model.initialize(Streams(seed))
        self.model.to(dtype)
        tokens = torch.Generator().manual_seed(0)
        self.ids = torch.randint(0, VOCABULARY, (STEPS, ROWS), generator=tokens)
        self.targets = torch.randint(0, VOCABULARY, (NUM_TOKENS,), generator=tokens)

    def run(self, masks: Masks = OFF) -> Any:
        return self.model(self.ids, self.model.initial_state(ROWS), masks)

    def summed_loss(self, masks: Masks = OFF) -> Tensor:
        chance = Chance(Streams(3), 0)
        return self.loss(self.run(masks), self.targets, self.model.embedding.weight, chance)

    def gradients(self) -> dict[str, Tensor]:
        self.model.zero_grad()
        self.summed_loss().backward()
        named = self.model.named_parameters()
        return {name: p.grad.clone() for name, p in named if p.grad is not None}


@dataclass(frozen=True)
class Subject:
    """The technique under test, and the flat values that it is tested with."""

    slot: str
    name: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def technique(self) -> Technique:
        return registry.get(self.slot, self.name)

    @property
    def prefix(self) -> str:
        return f"{self.slot}.{self.name}." if self.slot in LISTED_SLOTS else f"{self.slot}."

    @property
    def others(self) -> dict[str, Any]:
        """The values that are not the technique's own."""
        return {k: v for k, v in self.values.items() if not k.startswith(self.prefix)}

    def build(self) -> Any:
        """Build a technique that needs only its config, with the subject's values."""
        own = {k: v for k, v in self.values.items() if k.startswith(self.prefix)}
        fields = {name.removeprefix(self.prefix): value for name, value in own.items()}
        return self.technique.build(build(self.technique.config, fields, self.prefix))

    def small(
        self,
        others: Mapping[str, str] | None = None,
        *,
        seed: int = 1,
        dtype: torch.dtype = torch.float64,
    ) -> SmallModel:
        """Build a small model with the technique, and with `others` by slot."""
        own = {} if self.slot in LISTED_SLOTS else {self.slot: self.name}
        return SmallModel({**(others or {}), **own}, self.values, seed, dtype)


def require(holds: bool, problem: str) -> None:
    """Raise an `AssertionError` with the problem unless the condition holds."""
    if not holds:
        raise AssertionError(problem)


def require_finite(tensors: Mapping[str, Tensor], what: str) -> None:
    wrong = [name for name, value in tensors.items() if not torch.isfinite(value).all()]
    require(not wrong, f"not finite: {what} of {', '.join(wrong)}.")


def require_equal(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], what: str) -> None:
    """Require equal bits under every name."""
    wrong = [name for name, value in actual.items() if not torch.equal(value, expected[name])]
    require(not wrong, f"{what}: {', '.join(wrong)}.")


def weights(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}
