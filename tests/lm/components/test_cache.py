"""The neural cache against a straightforward loop over positions, for both starts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.lm.components.evaluator import cache
from ablate.lm.components.evaluator.cache import Cache, CacheConfig
from ablate.lm.model.mixture import log_probs, tempered

STREAM = torch.randint(0, 5, (90,), generator=torch.Generator().manual_seed(4))  # words return


def in_chunks(model, config):
    """pointer.py's bookkeeping: `window` positions of the earlier chunks are stored, and the cache
    applies where more than `window` positions are available."""
    h, p = states_and_probabilities(model, config.temperature)
    targets, actual = STREAM[1:].numpy(), []
    num_cached = 0
    for first in range(0, len(targets), config.chunk):
        for offset in range(min(config.chunk, len(targets) - first)):
            t, mixed = first + offset, p[first + offset]
            if num_cached + offset > config.window:
                mixed = with_cache(h, p, targets, t, config.window, config)
            actual.append(np.log(mixed[targets[t]]))
        num_cached = min(num_cached + config.chunk, config.window)
    return np.array(actual)


def growing(model, config):
    h, p = states_and_probabilities(model, config.temperature)
    targets, actual = STREAM[1:].numpy(), [np.log(p[0][STREAM[1]])]
    for t in range(1, len(targets)):
        mixed = with_cache(h, p, targets, t, min(t, config.window), config)
        actual.append(np.log(mixed[targets[t]]))
    return np.array(actual)


def with_cache(h, p, targets, t, length, config):
    """The whole distribution over words at position t."""
    weights = np.array([np.exp(config.theta * h[i] @ h[t]) for i in range(t - length, t)])
    distribution = np.zeros_like(p[t])
    for i, weight in zip(range(t - length, t), weights / weights.sum(), strict=True):
        distribution[targets[i]] += weight
    return (1 - config.share) * p[t] + config.share * distribution


@torch.no_grad()
def states_and_probabilities(model, temperature):
    passed = model(STREAM[:-1, None], model.initial_state(1))
    p = log_probs(tempered(passed.mixture, temperature)).exp().numpy()
    return passed.features.raw[-1][:, 0].numpy(), p


@pytest.fixture(params=[256, 7], ids=["one block", "blocks of 7"])
def blocks(request, monkeypatch):
    monkeypatch.setattr(cache, "BLOCK", request.param)


@pytest.mark.parametrize("window", [1, 6, 500])
def test_growing_from_the_second_prediction(build, judged, blocks, window):
    model = build({"head": "mos", "head.experts": 2}).model
    config = CacheConfig(start="growing", window=window, share=0.3, theta=2.5, temperature=1.3)
    actual = judged(Cache(config), [model], STREAM)
    np.testing.assert_allclose(actual, growing(model, config), rtol=1e-9)


@pytest.mark.parametrize(("window", "chunk"), [(1, 20), (6, 1), (6, 4), (30, 4), (30, 5000)])
def test_full_windows_as_pointer_py_has_them(build, judged, blocks, window, chunk):
    model = build({}).model
    config = CacheConfig(window=window, share=0.3, theta=2.5, chunk=chunk)
    actual = judged(Cache(config), [model], STREAM)
    np.testing.assert_allclose(actual, in_chunks(model, config), rtol=1e-9)


def test_far_states_do_not_overflow(build, judged):
    model = build({}, dtype=torch.float32).model
    actual = judged(Cache(CacheConfig(start="growing", theta=1e6)), [model], STREAM)
    assert np.isfinite(actual).all()
