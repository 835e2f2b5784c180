"""Shared by the tests of single techniques: golden vectors, chosen masks, small models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.lm.model.evaluator import Reading
from ablate.lm.model.flow import Features
from tests.support import places

VECTORS = places.VECTORS


class Text:
    """One stream of tokens as every split of a text."""

    separators = ()

    def __init__(self, stream: torch.Tensor, num_words: int = 23, eos: int | None = None) -> None:
        self.tokens, self.num_words, self.eos = stream, num_words, eos
        self.vocabulary = [f"word{number}" for number in range(num_words)]

    def stream(self, split):
        return self.tokens

    def counts(self):
        return torch.bincount(self.tokens, minlength=self.num_words)


class FixedChance:
    """A `Chance` with chosen masks, by purpose; records the rates that are requested."""

    def __init__(self, masks: dict[str, torch.Tensor]) -> None:
        self.masks = masks
        self.requested: dict[str, tuple[tuple[int, ...], float]] = {}

    def keep(self, purpose, shape, rate, like):
        self.requested[purpose] = (tuple(shape), rate)
        mask = self.masks[purpose]
        assert tuple(mask.shape) == tuple(shape)
        return mask.to(like.dtype)


def assert_near(actual, exact, share: float) -> None:
    """The norm of each difference is at most a share of the exact norm, or of 1."""
    for result, reference in zip(actual, exact, strict=True):
        apart, size = (result.double() - reference.double()).norm(), reference.double().norm()
        assert apart <= share * size.clamp_min(1), f"{apart} of {size}"


@pytest.fixture
def near():
    return assert_near


@pytest.fixture
def golden():
    """Golden vectors by name, as tensors."""

    def load(name: str) -> dict[str, torch.Tensor]:
        with np.load(VECTORS / f"{name}.npz") as arrays:
            return {key: torch.from_numpy(np.array(arrays[key])) for key in arrays.files}

    return load


@pytest.fixture
def text():
    """Makes a text of one stream of tokens."""
    return Text


@pytest.fixture
def judged():
    """Return an evaluator's log-probability of each token of a stream."""

    def log_probs(evaluator, models, stream):
        return evaluator.token_log_probs(Reading(models, Text(stream)), "test")

    return log_probs


@pytest.fixture
def fixed_chance():
    return FixedChance


@pytest.fixture
def load_awd():
    """Copy the parameters of the public AWD-LSTM or MoS code into our model."""

    def load(model, vectors: dict[str, torch.Tensor], prefix: str = "w.") -> None:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(vectors[prefix + public_name(name)])

    return load


@pytest.fixture
def awd_name():
    return public_name


def public_name(name: str) -> str:
    """Return the public code's name for one of our parameters."""
    room, _, rest = name.partition(".")
    if room == "embedding":
        return "encoder.weight"
    if room == "backbone":
        kind, _, layer = rest.rpartition("_l")
        raw = "_raw" if kind == "weight_hh" else ""
        return f"rnns.{layer}.{kind}_l0{raw}"
    return rest.replace("latent_0", "latent.0")


@pytest.fixture
def make_features():
    """Features of random vectors, for testing a head or a penalty without a backbone."""

    def make(T: int, B: int, embedding: int, layers: tuple[int, ...], seed: int = 3) -> Features:
        generator = torch.Generator().manual_seed(seed)

        def draw(width):
            return torch.randn(T, B, width, generator=generator, dtype=torch.float64)

        raw = tuple(draw(width) for width in layers)
        masked = tuple(2 * x for x in raw)
        return Features(
            ids_TB=torch.zeros(T, B, dtype=torch.long),
            embedded_TBE=draw(embedding),
            inputs_TBE=draw(embedding),
            raw=raw,
            masked=masked,
            output_TBH=masked[-1],
        )

    return make
