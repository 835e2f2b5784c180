"""Interpolation with counts: weights from validation alone, and n-grams of the training text."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.evaluator.interpolated import Interpolated, InterpolatedConfig
from ablate.lm.components.evaluator.standard import Standard, StandardConfig
from ablate.lm.model import ngram
from ablate.lm.model.evaluator import Reading

EOS, WORDS = 3, 23


class Splits:
    """Three streams in which short patterns return."""

    num_words, eos, separators = WORDS, EOS, ()

    def __init__(self) -> None:
        chance = torch.Generator().manual_seed(4)
        pattern = torch.randint(0, WORDS, (40,), generator=chance)
        for split, length in (("train", 900), ("valid", 200), ("test", 150)):
            noise = torch.randint(0, WORDS, (length,), generator=chance)
            keep = torch.rand(length, generator=chance) < 0.7
            setattr(self, split, torch.where(keep, pattern.repeat(30)[:length], noise).int())

    def stream(self, split):
        return getattr(self, split)


@pytest.fixture
def reading(build):
    def made(text=None, standard=None, **config):
        evaluators = {
            "standard": Standard(standard or StandardConfig()),
            "interpolated": Interpolated(InterpolatedConfig(**config)),
        }
        return Reading([build({}).model], text or Splits(), evaluators)

    return made


def shares(ids, window):
    """p of each word after the first by the words before it."""
    ids = ids.tolist()
    spans = [ids[max(0, at - window) : at] for at in range(1, len(ids))]
    return np.array([s.count(w) / len(s) for s, w in zip(spans, ids[1:], strict=True)])


@pytest.mark.parametrize(("order", "cache_window"), [(0, 20), (3, 0), (3, 20)])
def test_a_mixture_by_the_weights_it_records(reading, order, cache_window):
    text = Splits()
    texts = reading(text, order=order, cache_window=cache_window)
    metrics = texts.evaluators["interpolated"].metrics(texts, "interpolated", "test")
    parts = {"model": np.exp(texts.log_probs("standard", "test"))}
    if order:
        counted = ngram.fit(text.train, WORDS, EOS, order)
        parts["ngram"] = np.exp(counted.log_probs(text.test))
    if cache_window:
        parts["cache"] = shares(text.test, cache_window)
    weights = {part: metrics.pop(f"weight_{part}") for part in parts}
    assert sum(weights.values()) == pytest.approx(1)
    expected = sum(weights[part] * p for part, p in parts.items())
    actual = texts.log_probs("interpolated", "test")
    np.testing.assert_allclose(np.exp(actual), expected, rtol=1e-10)
    assert metrics["nll"] == pytest.approx(-np.log(expected).mean())
    assert set(metrics) == {"nll", "ppl"}


def test_the_test_text_never_moves_the_weights(reading):
    text, other = Splits(), Splits()
    other.test = torch.flip(other.test, (0,))
    weights = [
        texts.evaluators["interpolated"].weights(texts) for texts in (reading(text), reading(other))
    ]
    assert weights[0] == weights[1]
    other.valid = torch.flip(other.valid, (0,))
    texts = reading(other)
    assert texts.evaluators["interpolated"].weights(texts) != weights[0]


def test_refuses_what_it_cannot_mix(reading):
    with pytest.raises(CombinationError, match="nothing to mix"):
        reading(order=0, cache_window=0)
    with pytest.raises(CombinationError, match="'cache', which was not chosen"):
        reading(of="cache").log_probs("interpolated", "test")
    rows = reading(standard=StandardConfig(batch_size=4))
    with pytest.raises(CombinationError, match=r"gives 144 of 149 tokens.*batch_size = 1"):
        rows.log_probs("interpolated", "test")
