"""A technique under test, in a model small enough to run in milliseconds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ablate.config import registry
from ablate.config.fields import build, describe
from ablate.config.registry import Technique
from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.lm.kinds import ENCODER_DECODER, TEXT
from ablate.lm.model.assemble import assemble
from ablate.lm.model.masks import OFF, Chance, Masks
from ablate.lm.model.sentences import PairBatch, forced, pair_batch
from ablate.lm.slots import LANGUAGE_SLOTS, LISTED_SLOTS

VOCABULARY = 23
WIDTH = 8  # of word vectors and layers, so that a tied head fits
STEPS, ROWS = 6, 3
NUM_TOKENS = STEPS * ROWS
ON = 0.5  # as a probability, or as a strength
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
        """Count every word in train."""
        return torch.bincount(self.splits["train"], minlength=VOCABULARY)

    def stream(self, split: str) -> Tensor:
        """Return a split's tokens."""
        return self.splits[split]


@dataclass(frozen=True)
class Sentences:
    """Random sentences; each ends with its `<eos>`."""

    tokens_N: Tensor
    starts_P1: Tensor


class RandomPairs(RandomText):
    """Pairs of random sentences of up to six words."""

    num_source_words = 19  # other than VOCABULARY, so that the two cannot be mixed up unnoticed
    separators = ()

    def sentences(self, split: str) -> tuple[Sentences, Sentences]:
        """Return both sides of a split."""
        return self._side(split, self.num_source_words, 1), self._side(split, VOCABULARY, 2)

    def _side(self, split: str, num_words: int, seed: int) -> Sentences:
        drawn = torch.Generator().manual_seed(seed)
        num = {"train": 12}.get(split, ROWS)
        lengths_P = torch.randint(1, 7, (num,), generator=drawn)
        starts_P1 = torch.cat((torch.zeros(1, dtype=torch.long), lengths_P.cumsum(0)))
        size = (int(starts_P1[-1]),)
        # From 2 on: `<eos>`, which is 1, is only at the end.
        tokens_N = torch.randint(2, num_words, size, generator=drawn, dtype=torch.int32)
        tokens_N[starts_P1[1:] - 1] = self.eos
        return Sentences(tokens_N, starts_P1)

    def stream(self, split: str) -> Tensor:
        """Return the tokens of a split's target side."""
        return self.sentences(split)[1].tokens_N

    def counts(self) -> Tensor:
        """Count every target word in train."""
        return torch.bincount(self.stream("train"), minlength=VOCABULARY)

    def references(self, split: str) -> list[str]:
        """Return the target sentences as texts."""
        target = self.sentences(split)[1]
        spans = itertools.pairwise(target.starts_P1.tolist())
        return [self.text(target.tokens_N[start:stop].tolist()) for start, stop in spans]

    def tokenized(self, sentence: str) -> str:
        """Return a sentence as BLEU reads it: these are tokens already."""
        return sentence

    def text(self, tokens: Sequence[int]) -> str:
        """Return tokens as a text, without the end of the sentence."""
        return " ".join(self.vocabulary[token] for token in tokens if token != self.eos)


class SmallModel:
    """An initialized assembly, with tokens to run it on.

    `chosen` names techniques by slot; `values` are a study's flat values. With `pairs`, it reads
    pairs of sentences instead of a text.
    """

    def __init__(
        self,
        chosen: Mapping[str, str],
        values: Mapping[str, Any] | None = None,
        seed: int = 1,
        dtype: torch.dtype = torch.float64,
        *,
        pairs: bool = False,
    ) -> None:
        chosen = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd", **chosen}
        flat: dict[str, Any] = {"embedding.size": WIDTH, **chosen}
        if pairs:
            chosen = {"encoder": "lstm", "attention": "luong", **chosen}
            flat = {**flat, "task": ENCODER_DECODER.name, **chosen}
        for slot, name in chosen.items():
            for info in describe(registry.get(slot, name).config):
                if info.name in SMALLER:
                    flat[f"{slot}.{info.name}"] = SMALLER[info.name]
        # The test's own values come last, and win.
        self.config = resolve({**flat, **(values or {})})
        self.text = RandomPairs() if pairs else RandomText()
        read = RandomPairs.num_source_words
        assembly = assemble(self.config, VOCABULARY, text=self.text, source_vocabulary=read)
        self.model, self.loss = assembly.model, assembly.loss
        self.regularizers = assembly.regularizers
        self.model.initialize(Streams(seed))
        # After the draws, so that every type starts from the same weights.
        self.model.to(dtype)
        # A generator of their own: models of different seeds read the same tokens.
        tokens = torch.Generator().manual_seed(0)
        self.ids = torch.randint(0, VOCABULARY, (STEPS, ROWS), generator=tokens)
        self.targets = torch.randint(0, VOCABULARY, (NUM_TOKENS,), generator=tokens)
        self.batch: PairBatch | None = None
        if isinstance(self.text, RandomPairs):
            sides, every = self.text.sentences("valid"), torch.arange(ROWS)
            self.batch = pair_batch(*sides, every, self.text.eos, "cpu")
            self.targets = self.batch.targets_N

    def run(self, masks: Masks = OFF) -> Any:
        """Return the model's mixture over the batch."""
        if self.batch is not None:
            return forced(self.model, self.batch, masks)
        return self.model(self.ids, self.model.initial_state(ROWS), masks)

    def summed_loss(self, masks: Masks = OFF) -> Tensor:
        """Return the loss over the batch; its draws are always the same."""
        chance = Chance(Streams(3), 0)
        return self.loss(self.run(masks), self.targets, self.model.words_for(self.loss), chance)

    def gradients(self) -> dict[str, Tensor]:
        """Return the gradient of every parameter that has one."""
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
        """The technique under test."""
        return registry.get(self.slot, self.name)

    @property
    def prefix(self) -> str:
        """How the technique's fields start in a flat config."""
        return f"{self.slot}.{self.name}." if self.slot in LISTED_SLOTS else f"{self.slot}."

    @property
    def others(self) -> dict[str, Any]:
        """The values that are not the technique's own."""
        return {k: v for k, v in self.values.items() if not k.startswith(self.prefix)}

    @property
    def switched_on(self) -> dict[str, Any]:
        """The subject's values, and every other number at 0.5 or the nearest allowed value."""
        values = {}
        for own in describe(self.technique.config):
            if own.type == "number":
                at_least, at_most = own.limits.low or 0.0, own.limits.high or ON
                values[self.prefix + own.name] = min(max(ON, at_least), at_most)
        return {**values, **self.values}

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
        chosen = {**(others or {}), **own}
        return SmallModel(chosen, self.values, seed, dtype, pairs=self.reads_pairs)

    @property
    def reads_pairs(self) -> bool:
        """Return whether the technique belongs to models that read pairs of sentences."""
        readers = getattr(self.technique.build, "reads", frozenset({TEXT}))
        return self.slot not in LANGUAGE_SLOTS or TEXT not in readers


def require(holds: bool, problem: str) -> None:
    """Raise an `AssertionError` with the problem unless the condition holds."""
    if not holds:
        raise AssertionError(problem)


def require_finite(tensors: Mapping[str, Tensor], what: str) -> None:
    """Raise an error that names the tensors with a value that is not finite."""
    wrong = [name for name, value in tensors.items() if not torch.isfinite(value).all()]
    require(not wrong, f"not finite: {what} of {', '.join(wrong)}.")


def require_equal(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], what: str) -> None:
    """Require equal bits under every name."""
    wrong = [name for name, value in actual.items() if not torch.equal(value, expected[name])]
    require(not wrong, f"{what}: {', '.join(wrong)}.")


def weights(model: torch.nn.Module) -> dict[str, Tensor]:
    """Return a copy of a model's parameters."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}
