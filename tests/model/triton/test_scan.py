"""The diagonal scan by Triton's kernels against the loop over steps."""

from __future__ import annotations

import itertools

import pytest
import torch

from ablate.model.fast.scan import scan, scan_plain
from tests.model.test_scan import ROWS, result, window


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("num_steps", [1, 4])
def test_it_is_the_loop(dtype, num_steps, ran):
    """With one factor for all steps or one each, for all rows or each; 111 units, and 129, which
    are two programs."""
    firsts = itertools.product({1, num_steps}, (1, ROWS))
    for first, units in [*((first, 37) for first in firsts), ((num_steps, 1), 43)]:
        inputs = window(dtype, num_steps, first, units=units)
        ours, loop = result(scan, inputs), result(scan_plain, inputs)
        assert ran()
        for mine, wanted in zip(ours, loop, strict=True):
            torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-5)


def test_inputs_may_be_views_with_other_strides(ran):
    a, b, h = (x.detach() for x in window(torch.complex64, 3, (3, ROWS)))
    turned = b.transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(scan(a.conj(), turned, h), scan_plain(a.conj(), b, h))
    assert ran()


def test_double_precision_is_torchs(ran):
    inputs = window(torch.float64, 3)
    torch.testing.assert_close(scan(*inputs), scan_plain(*inputs))
    assert not ran()
