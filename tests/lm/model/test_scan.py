"""The diagonal scan, by kernels and in chunks, against a loop over steps and finite differences."""

from __future__ import annotations

import itertools

import pytest
import torch

from ablate.lm.model.fast.scan import in_chunks, scan, scan_plain

SINGLE = (torch.float32, torch.complex64)  # those of the kernels
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
ROWS, UNITS = 3, 37


def window(dtype, num_steps, first=(1, 1), rows=ROWS, units=UNITS):
    """Factors of at most 1 in size, for `first` steps and rows; inputs; and a state before them."""
    generator = torch.Generator().manual_seed(7)
    shapes = ((*first, units), (num_steps, rows, units), (rows, units))
    a, b, h = (torch.randn(s, generator=generator, dtype=dtype) for s in shapes)
    return [x.requires_grad_() for x in (a / a.abs().clamp_min(1), b, h)]


def result(run, inputs):
    h_TBH = run(*inputs)
    weights = torch.randn(h_TBH.shape, generator=torch.Generator().manual_seed(8)).to(h_TBH)
    return h_TBH, *torch.autograd.grad((h_TBH * weights).sum().abs(), inputs)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("dtype", SINGLE)
@pytest.mark.parametrize("num_steps", [1, 7, 65])
def test_it_is_the_loop(dtype, num_steps):
    """With one factor for all steps or one each, for all rows or each."""
    for first in itertools.product({1, num_steps}, (1, ROWS)):
        inputs = window(dtype, num_steps, first)
        for ours, loop in zip(result(scan, inputs), result(scan_plain, inputs), strict=True):
            torch.testing.assert_close(ours, loop, **CLOSE)


@pytest.mark.parametrize("length", [1, 3, 10, 64, 100])
def test_the_length_of_chunks_changes_nothing(length):
    a, b, h = (x.detach() for x in window(torch.float64, 65, (65, ROWS)))
    torch.testing.assert_close(in_chunks(a, b, h, length), scan_plain(a, b, h))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("steps", [1, 5])
def test_its_gradients_are_those_of_finite_differences(dtype, steps):
    torch.autograd.gradcheck(scan, window(dtype, 5, (steps, 1), rows=2, units=2))


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("dtype", SINGLE)
def test_inputs_may_be_views_with_other_strides(dtype):
    """Of another order of dimensions, and the conjugates that torch computes only when asked."""
    a, b, h = (x.detach() for x in window(dtype, 7, (7, ROWS)))
    turned = b.transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(scan(a.conj(), turned, h), scan_plain(a.conj(), b, h))


def test_a_factor_of_zero_forgets_and_one_of_two_grows():
    """Nothing is divided by a product of factors, and no logarithm is taken of one."""
    ones = torch.ones(66, 1, 1)
    factors = ones.clone().index_fill_(0, torch.tensor([30]), 0.0)
    sums = scan(factors, ones, torch.zeros(1, 1)).flatten()
    assert sums.tolist() == [*range(1, 31), *range(1, 37)]
    assert scan(2 * ones, ones, torch.zeros(1, 1))[-1].item() == 2.0**66
