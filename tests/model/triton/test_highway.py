"""Micro-steps of the highway network by Triton's kernels against its plain steps in float64."""

from __future__ import annotations

import pytest
import torch

from ablate.components.backbone.rhn import plain_window, window


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Matrices are small enough that their products do not blow up over many micro-steps."""
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + seed))
    return numbers / (shape[-1] ** 0.5 if len(shape) == 2 else 2)


@pytest.mark.parametrize("shares", [None, 1, 2])
@pytest.mark.parametrize("sizes", [(3, 5, 4, 53, 3), (2, 3, 2, 7, 10), (1, 1, 1, 1, 1)])
def test_a_window_is_that_of_plain_steps(sizes, shares, ran):
    """265 units, which are two programs, with no masks, one for both gates, and one for each."""
    num_steps, num_rows, width, units, depth = sizes
    mask = None if shares is None else drawn(shares, num_rows, units).sign().add(1)
    shapes = [(num_steps, num_rows, width), (num_rows, units), (2 * units, width)]
    shapes += [(2 * units, units)] * depth + [(2 * units,)] * depth
    results = []
    for run, dtype in ((window, torch.float32), (plain_window, torch.float64)):
        inputs = [drawn(*s, seed=n).to(dtype).requires_grad_() for n, s in enumerate(shapes)]
        on_s = None if mask is None else mask.to(dtype)
        x, s, weight_ih, *parameters = inputs
        states = run(x, s, None, on_s, weight_ih, parameters[:depth], parameters[depth:])
        loss = (states * drawn(*states.shape)).sum() + states[-1].sin().sum()
        results.append([states, *torch.autograd.grad(loss, inputs)])
        assert ran() == (run is window)
    for ours, wanted in zip(*results, strict=True):
        torch.testing.assert_close(ours.double(), wanted, rtol=1e-5, atol=1e-5)


def test_masks_of_any_strides_are_read_in_order(ran):
    """One mask for both gates, as `expand` gives it, is that mask twice."""
    one = drawn(1, 3, 5).sign().add(1)
    weights, biases = [drawn(10, 5), drawn(10, 5, seed=1)], [drawn(10), drawn(10) - 1]
    inputs = [each.requires_grad_() for each in (drawn(2, 3, 4), drawn(3, 5), drawn(10, 4))]
    x, s, weight_ih = inputs
    results = []
    for mask in (one, one.expand(2, -1, -1)):
        states = window(x, s, None, mask, weight_ih, weights, biases)
        results.append([states, *torch.autograd.grad(states.sum(), inputs)])
        assert ran()
    for one_mask, two in zip(*results, strict=True):
        torch.testing.assert_close(one_mask, two, rtol=1e-5, atol=1e-6)
