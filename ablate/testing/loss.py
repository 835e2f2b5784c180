"""The contracts of every loss."""

from __future__ import annotations

import torch

from ablate.config import registry
from ablate.testing.subject import Subject, require, require_finite


def trains_every_parameter(subject: Subject) -> None:
    """It is a finite scalar that gives every parameter a finite gradient, under every head."""
    for head in registry.names("head"):
        small = subject.small({"head": head})
        loss = small.summed_loss()
        require(loss.shape == (), f"{head}: the loss has shape {tuple(loss.shape)}.")
        require(bool(torch.isfinite(loss)), f"{head}: the loss is {loss.item()}.")
        gradients = small.gradients()
        without = {name for name, _ in small.model.named_parameters()} - gradients.keys()
        require(not without, f"{head}: no gradient: {', '.join(sorted(without))}.")
        require_finite(gradients, f"{head}: the gradients")


def same_draws_same_loss(subject: Subject) -> None:
    """Its random numbers come from the streams that it is passed."""
    first, second = (subject.small().summed_loss() for _ in range(2))
    require(torch.equal(first, second), f"{first.item()}, then {second.item()}.")
