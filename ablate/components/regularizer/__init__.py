"""Regularizers: masks on activations, transforms of weights, penalties, and projections.

A regularizer overrides whichever of the four it acts by; the others stay the identity. Masks
and transforms act only in training, each drawn from a stream of its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ablate.streams import Streams

if TYPE_CHECKING:
    from ablate.components.flow import Pass
    from ablate.model import LanguageModel


@dataclass(frozen=True)
class Chance:
    """Where one update's random masks come from."""

    streams: Streams
    update: int
    twin: int = 0  # a further pass over the same window, under masks of its own
    part: int = 0  # a further sub-batch of the update, under masks of its own

    def generator(self, purpose: str) -> torch.Generator:
        """For what is drawn once an update, pass and sub-batch."""
        twin = f"/{self.twin}" if self.twin else ""
        part = f"/part {self.part}" if self.part else ""
        return self.streams.generator(f"{purpose}{twin}{part}", self.update)

    def keep(self, purpose: str, shape: Iterable[int], rate: float, like: Tensor) -> Tensor:
        """An inverted-dropout mask: 0 with probability `rate`, else 1/(1 - rate)."""
        generator = self.generator(f"mask/{purpose}")
        mask = torch.empty(tuple(shape), dtype=like.dtype, device=like.device)
        return mask.bernoulli_(1 - rate, generator=generator).div_(1 - rate)


class Regularizer:
    """Built as `Regularizer(config)`. Sites are named in the configs that mask them."""

    def mask(self, site: str, x_TBH: Tensor, chance: Chance) -> Tensor:
        """Activations at a site. A layered site carries its layer: "hidden/1"."""
        return x_TBH

    def held(
        self, site: str, shape: tuple[int, ...], like: Tensor, chance: Chance
    ) -> Tensor | None:
        """A mask held over the window's steps, for a backbone that applies it step by step.

        Of a shape [gates, B, H] the first may come back as 1: one mask for all gates.
        """
        return None

    def words(self, ids_TB: Tensor, embedded_TBE: Tensor, num_words: int, chance: Chance) -> Tensor:
        """Word vectors, where a mask goes by word type."""
        return embedded_TBE

    def weight(self, name: str, weight: Tensor, chance: Chance) -> Tensor:
        """A recurrent weight as this update uses it."""
        return weight

    def penalty(self, passed: Pass, model: nn.Module) -> Tensor | None:
        """A term of the loss of one window, a scalar."""
        return None

    def project(self, model: nn.Module) -> None:
        """Move the parameters back onto a constraint after an update, in place."""

    num_passes = 1  # forward passes of a window, each under masks of its own; losses are averaged

    def between(self, passes: Sequence[Pass]) -> Tensor | None:
        """A term of the loss that compares the passes of one window."""
        return None

    def check(self, model: LanguageModel) -> None:
        """Meet the model before anything trains; refuse, by a `CombinationError`, one that leaves
        it nothing to act on."""


@dataclass(frozen=True)
class Masks:
    """All regularizers' masks and transforms for one update; of none, the identity."""

    regularizers: tuple[Regularizer, ...] = ()
    chance: Chance | None = None  # None: nothing is masked, as in evaluation

    def __call__(self, site: str, x_TBH: Tensor) -> Tensor:
        if self.chance is not None:
            for regularizer in self.regularizers:
                x_TBH = regularizer.mask(site, x_TBH, self.chance)
        return x_TBH

    def held(self, site: str, shape: tuple[int, ...], like: Tensor) -> Tensor | None:
        """The product of the held masks of a site, or None where there are none."""
        if self.chance is None:
            return None
        product = None
        for regularizer in self.regularizers:
            mask = regularizer.held(site, shape, like, self.chance)
            if mask is not None:
                product = mask if product is None else product * mask
        return product

    def own(self, name: str, x: Tensor, rate: float, *, locked: bool = False) -> Tensor:
        """Dropout that is a technique's own; locked: one mask for all steps (dimension 0)."""
        if self.chance is None or rate == 0:
            return x
        shape = (1, *x.shape[1:]) if locked else x.shape
        return x * self.chance.keep(name, shape, rate, x)

    def words(self, ids_TB: Tensor, embedded_TBE: Tensor, num_words: int) -> Tensor:
        if self.chance is not None:
            for regularizer in self.regularizers:
                embedded_TBE = regularizer.words(ids_TB, embedded_TBE, num_words, self.chance)
        return embedded_TBE

    def weight(self, name: str, weight: Tensor) -> Tensor:
        if self.chance is not None:
            for regularizer in self.regularizers:
                weight = regularizer.weight(name, weight, self.chance)
        return weight


OFF = Masks()
