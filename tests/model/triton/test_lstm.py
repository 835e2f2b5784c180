"""Steps of the masked LSTM by Triton's kernels against plain autograd in float64."""

from __future__ import annotations

import pytest
import torch

from ablate.model.fast.lstm_steps import lstm_steps


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) / 2


@pytest.mark.parametrize("shares", [None, 1, 4])
@pytest.mark.parametrize("sizes", [(3, 5, 4, 53), (1, 1, 1, 1)])
def test_a_window_is_that_of_plain_autograd(sizes, shares, ran):
    """265 units, which are two programs, with no masks, one for all gates, and one for each."""
    num_steps, num_rows, width, units = sizes
    mask = None if shares is None else drawn(shares, num_rows, units).sign().add(1)
    shapes = [(num_steps, num_rows, width), (num_rows, units), (num_rows, units)]
    shapes += [(4 * units, width), (4 * units, units), (4 * units,)]
    results = []
    for fast, dtype in ((True, torch.float32), (False, torch.float64)):
        inputs = [drawn(*shape).to(dtype).requires_grad_() for shape in shapes]
        h, c = lstm_steps(*inputs, None, None if mask is None else mask.to(dtype), fast=fast)
        loss = (h * drawn(*h.shape)).sum() + c.sin().sum()
        results.append([h, c, *torch.autograd.grad(loss, inputs)])
        assert ran() == fast
    for ours, wanted in zip(*results, strict=True):
        torch.testing.assert_close(ours.double(), wanted, rtol=1e-5, atol=1e-5)


def test_tanh_is_close_to_0_and_far_out_what_it_should_be():
    """One step of an LSTM whose gates are open and whose candidates are a range of numbers."""
    x = torch.cat((torch.logspace(-6, 0, 40), torch.linspace(-30, 30, 41)))
    bias = torch.zeros(4 * len(x))
    bias[: len(x)], bias[2 * len(x) : 3 * len(x)] = 100.0, x
    weights = [torch.zeros(4 * len(x), 1), torch.zeros(4 * len(x), len(x))]
    zeros = torch.zeros(1, len(x))
    _, c = lstm_steps(torch.zeros(1, 1, 1), zeros, zeros, *weights, bias)
    torch.testing.assert_close(c[0].double(), x.double().tanh(), rtol=2e-6, atol=0)
