"""Products with an output layer's matrix, and sums of them, against float64."""

from __future__ import annotations

import pytest
import torch

from ablate.lm.model.fast import product as products
from ablate.lm.model.fast.product import SumOfProducts, product, product_back
from ablate.lm.model.native.library import usable
from ablate.lm.model.native.product import FEWEST_ROWS

both_ways = pytest.mark.usefixtures("both_ways")

# Narrow, narrow for oneDNN, and wide; of rows that fill cache lines and that do not.
WIDTHS = (5, 160, 321)


@pytest.fixture(params=["onednn", "mkl", "torch"])
def library(request, monkeypatch):
    if request.param == "onednn" and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this torch offers no linear map of oneDNN's")
    monkeypatch.setattr(products, "prefers_onednn", lambda: request.param == "onednn")
    monkeypatch.setattr(products, "prefers_mkl", lambda: request.param == "mkl")
    return request.param


def drawn(*shape: int, dtype=torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


@both_ways
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-4), (torch.bfloat16, 0.3)])
def test_products_are_those_of_float64(library, width, dtype, close):
    x, weight, bias = drawn(7, width, dtype=dtype), drawn(43, width, dtype=dtype), drawn(43)
    bias = bias.to(torch.promote_types(dtype, torch.float32))
    exact = x.double() @ weight.double().t()
    slope = drawn(7, 43, dtype=dtype)
    for result, wanted in (
        (product(x, weight), exact),
        (product(x, weight, bias), exact + bias.double()),
        (product_back(slope, weight), slope.double() @ weight.double()),
    ):
        assert result.dtype == bias.dtype
        torch.testing.assert_close(result.double(), wanted, rtol=close, atol=close)


@both_ways
@pytest.mark.parametrize(("width", "rows"), [(5, 40), (133, 7), (133, 40), (321, 40)])
def test_a_product_fills_the_caller_s_buffer_if_kernels_can_use_it(library, width, rows):
    """Without kernels its caller needs the buffer for something else."""
    x, weight, bias, buffer = drawn(rows, width), drawn(43, width), drawn(43), drawn(50, 43)
    before = buffer.clone()
    exact = x.double() @ weight.double().t() + bias.double()
    result = product(x, weight, bias, buffer[:rows])
    torch.testing.assert_close(result.double(), exact, rtol=1e-4, atol=1e-4)
    fills = rows >= FEWEST_ROWS and usable(x)
    assert (result.data_ptr() == buffer.data_ptr()) == fills
    assert torch.equal(buffer, before) == (not fills)


@both_ways
def test_the_kernel_multiplies_what_mkl_does_not(library, monkeypatch):
    """Narrow matrices always; others unless MKL is preferred. Without kernels nothing."""
    taken = []
    monkeypatch.setattr(products, "multiply", lambda *given: taken.append(given[0].shape))
    for width in (127, 128):
        product(drawn(40, width), drawn(43, width), None, drawn(40, 43))
    narrow, wide = (40, 127), (40, 128)
    kernels = [narrow] if library == "mkl" else [narrow, wide]
    assert taken == (kernels if usable(drawn(1)) else [])


@both_ways
@pytest.mark.parametrize("width", WIDTHS)
def test_a_sum_of_products_is_that_of_float64_and_lies_in_a_row(library, width):
    dtype, close = torch.float32, 1e-4
    num_words = 2 * products.BLOCK + 3  # moved forward in three pieces, where rows were padded
    total, exact = SumOfProducts(drawn(num_words, width, dtype=dtype)), 0
    for rows in (4, 9):
        slope = drawn(rows, num_words, dtype=dtype)
        vectors = drawn(rows, width, dtype=dtype)
        total.add(slope, vectors)
        exact = exact + slope.double().t() @ vectors.double()
    words, added = torch.tensor([3, 0, 3]), drawn(3, width, dtype=dtype)
    total.add_rows(words, added)
    exact = exact.index_add(0, words, added.double())
    result = total.scaled(torch.tensor(0.5, dtype=dtype))
    assert result.is_contiguous()
    assert result.dtype == dtype
    torch.testing.assert_close(result.double(), 0.5 * exact, rtol=close, atol=close)


@both_ways
@pytest.mark.parametrize("width", (5, 16, 133, 160, 321))
def test_sums_beside_it_are_those_of_float64(library, width):
    """By the kernel or MKL, and only there; a further column costs a panel if a width fills one."""
    total, exact, sums = SumOfProducts(drawn(43, width), sums=True), 0, 0
    for rows in (4, 9):
        slope, vectors, weights = drawn(rows, 43), drawn(rows, width), drawn(rows, 1)
        total.add(slope, vectors, weights if total.has_sums else None)
        exact = exact + slope.double().t() @ vectors.double()
        sums = sums + slope.double().t() @ weights.double()[:, 0]
    if total.has_sums:
        torch.testing.assert_close(total.sums().double(), sums, rtol=1e-4, atol=1e-4)
    by_mkl = library == "mkl" and width in (133, 160)
    assert total.has_sums == ((by_mkl or usable(slope)) and width in (5, 16, 133))
    result = total.scaled(torch.tensor(1.0))
    torch.testing.assert_close(result.double(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("sums", "on_gpu"), [(False, False), (True, False), (True, True)])
def test_factors_of_half_precision_are_summed_in_float32(library, monkeypatch, sums, on_gpu):
    monkeypatch.setattr(products, "_on_gpu", lambda x: on_gpu)
    total = SumOfProducts(drawn(30, 20), sums=sums, half=True)
    slope, vectors, weights = drawn(6, 30, dtype=torch.bfloat16), drawn(6, 20), drawn(6, 1)
    for _ in range(64):
        total.add(slope, vectors, weights if sums else None)
    exact = 64 * slope.double().t() @ vectors.bfloat16().double()
    assert total.has_sums == sums
    if sums:
        summed = 64 * slope.double().t() @ weights.bfloat16().double()[:, 0]
        torch.testing.assert_close(total.sums().double(), summed, rtol=0.02, atol=0.5)
    result = total.scaled(torch.ones(()))
    assert result.is_contiguous()
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.double(), exact, rtol=0.02, atol=0.5)


def test_on_a_gpu_the_rows_of_products_in_half_precision_are_aligned(monkeypatch):
    """Here on torch's device without memory: the shapes are those of a GPU."""
    plain, read = torch.mm, []

    def noted(slope, vectors, **more):
        read.append(vectors)
        return plain(slope, vectors, **more)

    monkeypatch.setattr(torch, "mm", noted)
    shapes, meta = ((30, 280), (6, 30), (6, 280), (6, 1)), torch.device("meta")
    like, slope, vectors, weights = (torch.empty(shape, device=meta) for shape in shapes)
    total = SumOfProducts(like, sums=True, half=True)
    for _ in range(2):
        total.add(slope.bfloat16(), vectors, weights)
    assert [each.shape[1] for each in read] == [288, 288]
    assert all(each.stride(0) % 8 == 0 for each in read)
    assert total.sums().shape == (30,)
    assert total.scaled(torch.ones((), device=meta)).shape == like.shape
