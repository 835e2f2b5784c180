"""Exponentials and the functions of gates against float64, also where they end."""

from __future__ import annotations

import pytest
import torch

from ablate.lm.components.backbone.lstm import lstm_layer
from ablate.lm.model.fast.lstm_steps import lstm_steps
from ablate.lm.model.native.softmax import exponentials_, half_slopes_

pytestmark = pytest.mark.kernels


def row(values: torch.Tensor) -> torch.Tensor:
    """e^(x - peak) of one row, whose first word is its target."""
    logits = values.float()[None].clone()
    exponentials_(logits, torch.zeros(1, dtype=torch.long))
    return logits[0]


@pytest.mark.parametrize("num_words", [1, 3, 16, 17, 33, 1000])
@pytest.mark.parametrize("components", [1, 3])
def test_exponentials_sums_and_targets(num_words, components):
    logits = torch.randn(5 * components, num_words).mul_(4)
    targets = torch.randint(num_words, (5,))
    exact = logits.double() - logits.double().amax(1, keepdim=True)
    sums, at_target = exponentials_(logits, targets)
    torch.testing.assert_close(logits.double(), exact.exp(), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(sums.double(), exact.exp().sum(1, keepdim=True), rtol=1e-6, atol=0)
    wanted = exact.gather(1, targets.repeat_interleave(components)[:, None])
    torch.testing.assert_close(at_target.double(), wanted, rtol=1e-6, atol=1e-6)


def test_e_is_close_to_itself_over_all_its_range():
    x = torch.linspace(-86.9, 0, 200_001)
    torch.testing.assert_close(row(x).double(), x.double().exp(), rtol=3e-7, atol=0)
    assert row(torch.tensor([0.0, -88.0, -1e30, -torch.inf])).tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("at", [0, 3, 30])
def test_what_is_no_number_spoils_its_row_and_no_other(at):
    logits = torch.randn(3, 40)
    logits[1, at] = torch.nan
    sums, _ = exponentials_(logits, torch.zeros(3, dtype=torch.long))
    assert sums[:, 0].isnan().tolist() == [False, True, False]
    endless = torch.randn(1, 40)
    endless[0, at] = torch.inf
    assert exponentials_(endless, torch.zeros(1, dtype=torch.long))[0].isnan().all()


@pytest.mark.parametrize("num_words", [1, 3, 16, 17, 33, 1000])
@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("biased", [False, True])
def test_slopes_in_bfloat16_are_rounded_once(num_words, components, biased):
    logits = torch.randn(5 * components, num_words).mul_(4).bfloat16()
    bias = torch.randn(num_words) if biased else None
    targets = torch.randint(num_words, (5,))
    of_row = targets.repeat_interleave(components)[:, None]
    exact = logits.double() if bias is None else logits.double() + bias.double()
    exact -= exact.amax(1, keepdim=True)
    wanted_sums = exact.exp().sum(1, keepdim=True)
    slopes = exact.exp().scatter_add(1, of_row, -wanted_sums)
    sums, at_target = half_slopes_(logits, bias, targets)
    torch.testing.assert_close(sums.double(), wanted_sums, rtol=2e-5, atol=0)
    torch.testing.assert_close(at_target.double(), exact.gather(1, of_row), rtol=2e-5, atol=2e-5)
    assert ((logits.double() - slopes).abs() <= 1.001 * 2**-8 * slopes.abs() + 2e-5).all()


def test_rounding_to_bfloat16_is_torchs_also_of_ties():
    below = torch.arange(1, 2001)[None] * 2.0**-11  # every second one is a tie
    logits = below.log().bfloat16()
    bias = below.log()[0] - logits[0].float()
    expected = ((logits.float() + bias) - (logits.float() + bias).amax()).exp()
    half_slopes_(logits, bias, torch.zeros(1, dtype=torch.long))
    same = logits[0, 1:] == expected[0, 1:].bfloat16()
    assert same.float().mean() > 0.99  # e differs from torch's in its last bit


@pytest.mark.slow
def test_gates_are_sigmoids_and_tanhs_far_out_and_near_0():
    """One step of an LSTM of nothing but its bias shows both functions."""
    at = torch.cat((torch.linspace(-100, 100, 4001), torch.logspace(-8, 0, 500))).float()
    num = len(at)
    nothing = torch.zeros(1, 1, 1), torch.zeros(1, num), torch.zeros(1, num)
    weights = torch.zeros(4 * num, 1), torch.zeros(4 * num, num)
    gates = torch.cat((torch.full((num,), 30.0), torch.zeros(num), at, torch.full((num,), 30.0)))
    _, c = lstm_steps(*nothing, *weights, gates)
    torch.testing.assert_close(c[0].double(), at.double().tanh(), rtol=5e-7, atol=0)
    gates = torch.cat((at, torch.zeros(num), torch.full((num,), 30.0), torch.full((num,), 30.0)))
    _, c = lstm_steps(*nothing, *weights, gates)
    torch.testing.assert_close(c[0].double(), at.double().sigmoid(), rtol=5e-7, atol=1e-38)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_window_is_torchs_and_threads_change_no_bit(threads, number):
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=generator).requires_grad_()

    x, h, c = draw(9, 12, 21), draw(12, 34), draw(12, 34)
    weights = draw(136, 21), draw(136, 34), draw(136)
    threads(number)
    outputs, last = lstm_steps(x, h, c, *weights)
    leaves = (x, h, c, *weights)
    gradients = torch.autograd.grad(outputs.square().sum() + last.sum(), leaves)
    theirs, _, end = lstm_layer(x, h[None], c[None], (*weights, None))
    expected = torch.autograd.grad(theirs.square().sum() + end.sum(), leaves)
    for ours, other in zip((outputs, *gradients), (theirs, *expected), strict=True):
        assert (ours - other).norm() <= 1e-5 * other.norm()
    threads(1)
    assert torch.equal(lstm_steps(x, h, c, *weights)[0], outputs)
