"""The recurrence with its own backward against plain autograd and finite differences."""

from __future__ import annotations

import pytest
import torch

from ablate.lm.model.activation import ACTIVATIONS, Activation
from ablate.lm.model.fast.recurrence import recurrence

T, B, H = 6, 3, 5
both_masks = pytest.mark.parametrize("with_mask", [False, True])
every_f = pytest.mark.parametrize("name", ACTIVATIONS)


def arguments(dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()

    mask = torch.randint(0, 2, (B, H), generator=generator).to(dtype) * 2
    return (draw(T, B, H), draw(B, H), draw(H, H)), mask


@every_f
@both_masks
def test_its_gradients_are_those_of_finite_differences(name, with_mask):
    inputs, mask = arguments()
    chosen = mask if with_mask else None
    torch.autograd.gradcheck(lambda *g: recurrence(*g, Activation(name, 0.5), chosen), inputs)


def test_the_mask_is_on_the_state_as_it_is_read():
    """With all of the state masked, every step is independent; its output is not masked."""
    (u_TBH, x_BH, weight_HH), _ = arguments()
    x_TBH = recurrence(u_TBH, x_BH, weight_HH, Activation("tanh"), torch.zeros(B, H).double())
    torch.testing.assert_close(x_TBH, u_TBH.tanh())


def test_a_fixed_matrix_is_given_no_gradient():
    (u_TBH, x_BH, weight_HH), _ = arguments()
    f = Activation("tanh")
    free = torch.autograd.grad(recurrence(u_TBH, x_BH, weight_HH, f).sum(), u_TBH)
    fixed = weight_HH.detach()
    recurrence(u_TBH, x_BH.detach(), fixed, f).sum().backward()
    assert fixed.grad is None
    torch.testing.assert_close(u_TBH.grad, free[0])
