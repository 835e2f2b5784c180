"""What the tests of masked recurrent networks compare."""

from __future__ import annotations

import torch


def gradients(outputs, leaves):
    """The gradients of a sum in which every element has a different weight."""
    total = sum((x * torch.arange(x.numel()).view(x.shape).cos()).sum() for x in outputs)
    return torch.autograd.grad(total, leaves)
