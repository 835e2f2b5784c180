"""Half precision in training: every technique learns in it, close to what float32 finds."""

from __future__ import annotations

import itertools

import pytest
import torch

from ablate.config import registry
from ablate.model.fast.precision import products_in
from ablate.testing import SmallModel

CLOSE = 0.02  # bfloat16 keeps 8 bits
BESIDE = {"guided_pointer": {"head": "pointer_sentinel"}}  # what a technique needs
NETWORK = ("backbone", "bridge", "head", "gate", "loss")
EVERY = [(slot, name) for slot in NETWORK for name in registry.names(slot)]


def loss_and_gradients(built, precision):
    with products_in(precision, "cpu"):
        loss = built.summed_loss()
    loss.backward()
    named = built.model.named_parameters()
    gradients = {name: p.grad for name, p in named if p.grad is not None}
    return loss.detach(), gradients


@pytest.mark.parametrize(("slot", "name"), EVERY)
def test_a_step_in_bfloat16_is_close_to_float32_and_leaves_float32(slot, name):
    chosen = {slot: name, **BESIDE.get(name, {})}
    loss, gradients = loss_and_gradients(SmallModel(chosen, dtype=torch.float32), "float32")
    half_loss, half = loss_and_gradients(SmallModel(chosen, dtype=torch.float32), "bfloat16")
    assert half_loss.dtype == torch.float32
    assert half_loss.item() == pytest.approx(loss.item(), rel=CLOSE)
    assert half.keys() == gradients.keys()
    for actual in half.values():
        assert actual.dtype == torch.float32
        assert torch.isfinite(actual).all()


def test_products_in_bfloat16_are_not_those_of_float32():
    actual = [
        loss_and_gradients(SmallModel({"head": head}, dtype=torch.float32), precision)[0].item()
        for head, precision in itertools.product(("softmax", "mos"), ("float32", "bfloat16"))
    ]
    assert actual[0] != actual[1]
    assert actual[2] != actual[3]
