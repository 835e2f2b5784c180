"""The random masks of one update: how they are drawn, and how regularizers combine them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ablate.config.streams import Streams
from ablate.errors import TechniqueError


@dataclass(frozen=True)
class Chance:
    """The source of one update's random masks."""

    streams: Streams
    update: int
    twin: int = 0  # number of the pass over the same window; each has its own masks
    part: int = 0  # number of the sub-batch of the update; each has its own masks
    side: str = ""  # of a model that reads two texts; each has its own masks

    def generator(self, purpose: str) -> torch.Generator:
        """The generator for a purpose, different for each update, pass and sub-batch."""
        # Number 0 adds nothing, so a first pass draws alike whether or not a second one follows.
        twin = f"/{self.twin}" if self.twin else ""
        part = f"/part {self.part}" if self.part else ""
        side = f"/{self.side}" if self.side else ""
        return self.streams.generator(f"{purpose}{side}{twin}{part}", self.update)

    def keep(self, purpose: str, shape: Iterable[int], rate: float, like: Tensor) -> Tensor:
        """An inverted-dropout mask: 0 with probability `rate`, else 1/(1 - rate)."""
        mask = torch.empty(tuple(shape), dtype=like.dtype, device=like.device)
        generator = self.generator(f"mask/{purpose}")
        return mask.bernoulli_(1 - rate, generator=generator).div_(1 - rate)


class Masking:
    """What acts inside a forward pass: masks on activations, and transforms of weights.

    Sites are named in the configs that mask them. Everything is the identity until overridden.
    """

    def __init_subclass__(cls) -> None:
        """Refuse a technique whose mask is never called: `locked` was called `held` before."""
        if "held" in vars(cls):
            raise TechniqueError(f"{cls.__name__}: `held` is now called `locked`. Rename it.")

    def mask(self, site: str, x_TBH: Tensor, chance: Chance) -> Tensor:
        """Activations at a site, masked. Sites of layers include the layer: "hidden/1"."""
        return x_TBH

    def locked(
        self, site: str, shape: tuple[int, ...], like: Tensor, chance: Chance
    ) -> Tensor | None:
        """A mask for all steps of the window, for a backbone that applies it step by step.

        For the shape [gates, B, H], the mask may have 1 in place of gates: one mask for all.
        """
        return None

    def words(self, ids_TB: Tensor, embedded_TBE: Tensor, num_words: int, chance: Chance) -> Tensor:
        """Word vectors, masked by word type."""
        return embedded_TBE

    def weight(self, name: str, weight: Tensor, chance: Chance) -> Tensor:
        """A recurrent weight as this update uses it."""
        return weight


class SiteRecorder(Masking):
    """Records the sites at which a model asks for masks and transforms, and changes nothing."""

    def __init__(self) -> None:
        self.sites: set[str] = set()  # without layers; "words" and "weight" for the other two

    def mask(self, site: str, x_TBH: Tensor, chance: Chance) -> Tensor:
        self.sites.add(site.partition("/")[0])
        return x_TBH

    def locked(self, site: str, shape: tuple[int, ...], like: Tensor, chance: Chance) -> None:
        self.sites.add(site.removeprefix("gates/").partition("/")[0])

    def words(self, ids_TB: Tensor, embedded_TBE: Tensor, num_words: int, chance: Chance) -> Tensor:
        self.sites.add("words")
        return embedded_TBE

    def weight(self, name: str, weight: Tensor, chance: Chance) -> Tensor:
        self.sites.add("weight")
        return weight


@dataclass(frozen=True)
class Masks:
    """All regularizers' masks and transforms for one update; the identity without regularizers."""

    regularizers: tuple[Masking, ...] = ()
    chance: Chance | None = None  # None: no masks, as in evaluation

    def of(self, side: str) -> Masks:
        """The masks of another side of the model, drawn independently."""
        chance = self.chance and replace(self.chance, side=side)
        return replace(self, chance=chance)

    def recurrent_only(self) -> Masks:
        """Without masks on outputs, for a layer inside another that masks its output itself."""
        return RecurrentMasks(self.regularizers, self.chance)

    def __call__(self, site: str, x_TBH: Tensor) -> Tensor:
        if self.chance is not None:
            for regularizer in self.regularizers:
                x_TBH = regularizer.mask(site, x_TBH, self.chance)
        return x_TBH

    def locked(self, site: str, shape: tuple[int, ...], like: Tensor) -> Tensor | None:
        """The product of all locked masks at a site; None if there are none."""
        if self.chance is None:
            return None
        product = None
        for regularizer in self.regularizers:
            mask = regularizer.locked(site, shape, like, self.chance)
            if mask is not None:
                product = mask if product is None else product * mask
        return product

    def dropout(self, name: str, x: Tensor, rate: float, *, locked: bool = False) -> Tensor:
        """Dropout inside a technique, of x_TB...; locked: one mask for all steps."""
        if self.chance is None or rate == 0:
            return x
        shape = (1, *x.shape[1:]) if locked else x.shape
        return x * self.chance.keep(name, shape, rate, x)

    def words(self, ids_TB: Tensor, embedded_TBE: Tensor, num_words: int) -> Tensor:
        """Return the word vectors after every regularizer of words."""
        if self.chance is not None:
            for regularizer in self.regularizers:
                embedded_TBE = regularizer.words(ids_TB, embedded_TBE, num_words, self.chance)
        return embedded_TBE

    def weight(self, name: str, weight: Tensor) -> Tensor:
        """Return a parameter after every regularizer of weights."""
        if self.chance is not None:
            for regularizer in self.regularizers:
                weight = regularizer.weight(name, weight, self.chance)
        return weight


@dataclass(frozen=True)
class RecurrentMasks(Masks):
    """Only what acts inside a recurrence."""

    def __call__(self, site: str, x_TBH: Tensor) -> Tensor:
        return x_TBH


OFF = Masks()
