"""L1 against sums of magnitudes, and its soft threshold against the problem that it solves.

The groups, when it is off, and what it refuses are tested in test_l2.py.
"""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def sparse(build):
    """A model whose recurrent weights have some zeros, and its regularizer."""

    def make(**values):
        assembly = build({f"regularizer.l1.{name}": value for name, value in values.items()})
        for name, parameter in assembly.model.named_parameters():
            if "weight_hh" in name:
                parameter.data[0] = 0
        return assembly.model, assembly.regularizers[0]

    return make


def test_the_penalty_is_the_sum_of_magnitudes(sparse):
    model, regularizer = sparse(everything=0.1, recurrent=0.3)
    penalty = regularizer.penalty(None, model)
    penalty.backward()
    expected = 0.0
    for name, parameter in model.named_parameters():
        weight = 0.4 if "weight_hh" in name else 0.1
        expected += weight * sum(abs(w) for w in parameter.detach().flatten().tolist())
        torch.testing.assert_close(parameter.grad, weight * parameter.detach().sign())
    assert penalty.item() == pytest.approx(expected, rel=1e-12)


def test_the_threshold_is_where_a_square_and_the_penalty_are_least(sparse):
    """argmin_w (w - v)^2 / 2 + weight |w|, by trying many values."""
    model, regularizer = sparse(recurrent=0.2, mode="decoupled")
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    assert regularizer.penalty(None, model) is None
    regularizer.project(model)
    tried = torch.linspace(-0.5, 0.5, 10001, dtype=torch.float64)
    for name, parameter in model.named_parameters():
        if "weight_hh" not in name:
            assert torch.equal(parameter, before[name])
            continue
        v = before[name].flatten()
        cost = (tried - v[:, None]) ** 2 / 2 + 0.2 * tried.abs()
        actual = parameter.detach().flatten()
        torch.testing.assert_close(actual, tried[cost.argmin(1)], rtol=0, atol=1e-4)
        assert 0 < (actual == 0).sum() < len(actual)
