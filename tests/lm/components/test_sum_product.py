"""The sum-product network against its formula, its limits, its weights' signs and its size."""

from __future__ import annotations

import math

import pytest
import torch

from ablate.lm.components.head.sum_product import network
from ablate.lm.components.regularizer.non_negative import NonNegative, NonNegativeConfig
from ablate.lm.model.mixture import log_probs, summed_nll

V, D = 7, 3
VALUES = {
    "embedding.size": D,
    "embedding.initial_range": 1.0,
    "embedding.initial_center": 1.0,
    "backbone": "feed_forward",
    "backbone.order": 3,
    "backbone.concatenated": True,
    "backbone.units": 2 * D,
    "backbone.activation": "identity",
    "backbone.bias": False,
    "head": "sum_product",
    "regularizer.non_negative.share": 1.0,
}


@pytest.fixture
def built(build):
    return build(VALUES, vocabulary=V)


def ids_of(steps=5, rows=2):
    return torch.randint(V, (steps, rows), generator=torch.Generator().manual_seed(3))


def probabilities(model, ids):
    return log_probs(model(ids, model.initial_state(ids.shape[1])).mixture).exp()


def draws(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def test_it_is_the_formula_written_out(built):
    """Word by word, with sums of powers and no logarithms."""
    model, ids = built.model, ids_of()
    A, v, b = model.head.weight, model.head.powers, model.head.bias
    with torch.no_grad():
        for parameter in (A, v, b):
            parameter.copy_(draws(*parameter.shape))
    actual = probabilities(model, ids).view(5, 2, V)
    vectors = model.embedding.weight
    for step in range(1, 5):
        for row in range(2):
            x = torch.cat((vectors[ids[step, row]], vectors[ids[step - 1, row]]))
            S = []
            for k in range(V):
                M = sum(A[k, i] * x[i] for i in range(2 * D))
                S.append(b[k] + sum(v[k, j - 1] * M**j for j in range(1, 11)))
            torch.testing.assert_close(actual[step, row], torch.stack(S) / sum(S))


def test_it_starts_as_an_exponential(built):
    head, M = built.model.head, 2 * draws(4, V)
    error = 2.1**11 / math.factorial(11)
    torch.testing.assert_close(network(M, head.bias, head.powers), M.exp(), atol=error, rtol=0)
    torch.testing.assert_close(head.weight.sum(1), torch.ones(V, dtype=torch.float64))
    vectors = built.model.embedding.weight
    assert vectors.min() >= 0 and 1.5 < vectors.max() <= 2


def test_no_weight_falls_below_0(built):
    """Large steps take many there."""
    model, (clip,), below = built.model, built.regularizers, 0
    for step in range(5):
        ids = ids_of(4, 3 + step)
        targets = torch.zeros_like(ids).flatten()
        summed_nll(model(ids, model.initial_state(3 + step)).mixture, targets).backward()
        for parameter in model.parameters():
            parameter.data -= 0.5 * parameter.grad
            parameter.grad = None
            below += int((parameter < 0).sum())
        clip.project(model)
        assert all(parameter.min() >= 0 for parameter in model.parameters())
    assert below > 10
    torch.testing.assert_close(probabilities(model, ids).sum(1), draws(len(ids) * 7) * 0 + 1)


def test_a_share_moves_negative_weights_alone_and_frozen_ones_not_at_all(built):
    weight = built.model.head.weight
    with torch.no_grad():
        weight.copy_(draws(*weight.shape) - 0.5)
    before = weight.detach().clone()
    NonNegative(NonNegativeConfig()).project(built.model)
    assert torch.equal(weight, before)
    NonNegative(NonNegativeConfig(share=0.25)).project(built.model)
    torch.testing.assert_close(weight, torch.where(before < 0, 0.75 * before, before))
    moved = weight.detach().clone()
    weight.requires_grad_(False)
    NonNegative(NonNegativeConfig(share=1.0)).project(built.model)
    assert torch.equal(weight, moved) and weight.min() < 0
