"""Products by the compiled kernel, of any strides, against float64; threads change no bit."""

from __future__ import annotations

from itertools import product as combinations

import pytest
import torch

from ablate.lm.model.fast import product as products
from ablate.lm.model.fast.product import product_back, product_over
from ablate.lm.model.native.product import add_product_, multiply

pytestmark = pytest.mark.kernels

SIZES = [(1, 1, 1), (33, 17, 50), (10, 5, 32), (64, 300, 16), (215, 97, 33), (40, 2100, 35)]
SIZES += [(30, 20, 9000)]  # more columns than a block holds


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def in_order(x: torch.Tensor, turned: bool) -> torch.Tensor:
    """The same matrix, by rows or by columns in memory."""
    return x.t().contiguous().t() if turned else x


@pytest.mark.parametrize(("turned_a", "turned_b"), [*combinations([False, True], repeat=2)])
@pytest.mark.parametrize("size", SIZES)
def test_a_product_is_that_of_float64(size, turned_a, turned_b):
    rows, inner, columns = size
    a, b = in_order(drawn(rows, inner), turned_a), in_order(drawn(inner, columns), turned_b)
    bias, exact = drawn(columns), a.double() @ b.double()
    scale = inner**0.5
    for added, wanted in ((None, exact), (bias, exact + bias.double())):
        apart = (multiply(a, b, added).double() - wanted).abs().max()
        assert apart <= 1e-5 * scale
    total = drawn(rows, columns)
    wanted = total.double() + exact
    add_product_(total, a, b)
    assert (total.double() - wanted).abs().max() <= 1e-5 * scale


def test_the_number_of_threads_changes_no_bit(threads):
    a, b = drawn(400, 130), drawn(130, 210)
    threads(1)
    alone = multiply(a, b)
    threads(3)
    assert torch.equal(multiply(a, b), alone)


@pytest.mark.parametrize("turned_b", [False, True])
def test_neither_chunks_nor_blocks_change_a_bit(turned_b):
    """Every number is summed in the order of the inner dimension, wherever that is cut."""
    a, b = drawn(215, 77), in_order(drawn(77, 147), turned_b)
    whole = multiply(a, b)
    assert torch.equal(torch.cat([multiply(a[:101], b), multiply(a[101:], b)]), whole)
    total = torch.zeros_like(whole)
    for part in (slice(0, 41), slice(41, 77)):
        add_product_(total, a[:, part], b[part])
    assert torch.equal(total, whole)


def test_a_sum_over_nothing_is_the_bias():
    bias = drawn(35)
    result = multiply(torch.empty(40, 0), torch.empty(0, 35), bias)
    assert torch.equal(result, bias.expand(40, 35))
    total = drawn(40, 35)
    before = total.clone()
    add_product_(total, torch.empty(40, 0), torch.empty(0, 35))
    assert torch.equal(total, before)


def test_what_is_no_number_stays_none():
    a, b = drawn(33, 20), drawn(20, 40)
    a[5, 3] = torch.nan
    assert multiply(a, b)[5].isnan().all() and not multiply(a, b)[:5].isnan().any()


def test_large_products_of_layers_go_this_way(monkeypatch):
    """Where there are enough rows; and they are what torch computes."""
    num_rows = []

    def seen(*arguments):
        num_rows.append(len(arguments[0]))
        return multiply(*arguments)

    monkeypatch.setattr(products, "multiply", seen)
    slope, weight, read = drawn(130, 40), drawn(40, 30), drawn(130, 30)
    torch.testing.assert_close(product_back(slope, weight), slope @ weight, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(product_over(slope, read), slope.t() @ read, rtol=1e-5, atol=1e-4)
    assert num_rows == [130, 40]
    product_back(slope[:9], weight), product_over(slope[:9], read[:9])
    assert num_rows == [130, 40]
