"""What the tests of masked recurrent networks compare: outputs, states and gradients."""

from __future__ import annotations

from typing import Any

import torch

from ablate.config.streams import Streams
from ablate.lm.model.masks import OFF, Chance, Masks


def gradients(outputs, leaves):
    """The gradients of a sum in which every element has a different weight."""
    total = sum((x * torch.arange(x.numel()).view(x.shape).cos()).sum() for x in outputs)
    return torch.autograd.grad(total, leaves)


class Ones(Chance):
    """Masks that keep everything."""

    def keep(self, purpose, shape, rate, like):
        return like.new_ones(shape)


def assert_ones_are_no_masks(assembly: Any) -> None:
    """With masks of ones, step by step, a model computes what the fused kernel does without."""
    model, ids = assembly.model, torch.arange(18).view(9, 2)
    state = tuple(torch.randn_like(s) for s in model.initial_state(2))
    actual = []
    for masks in (Masks(assembly.regularizers, Ones(Streams(1), 0)), OFF):
        passed = model(ids, state, masks)
        outputs = (passed.features.output_TBH, *passed.state)
        leaves = [model.embedding.weight, *model.backbone.parameters()]
        actual.append((*outputs, *gradients(outputs, leaves)))
    for result, reference in zip(*actual, strict=True):
        torch.testing.assert_close(result, reference, rtol=1e-5, atol=1e-5)
