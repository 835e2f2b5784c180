"""The contracts of every loss."""

from __future__ import annotations

import contextlib

import torch

from ablate.config import registry
from ablate.errors import CombinationError
from ablate.lm.testing.subject import Subject, require, require_finite


def trains_every_parameter(subject: Subject) -> None:
    """The loss and every parameter's gradient are finite, under every head that the loss allows."""
    for head in _heads(subject):
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
    head = _heads(subject)[-1]  # one head is enough: draws are the loss's own
    first, second = (subject.small({"head": head}).summed_loss() for _ in range(2))
    require(torch.equal(first, second), f"{first.item()}, then {second.item()}.")


def _heads(subject: Subject) -> list[str]:
    """The heads that the loss does not refuse."""
    accepted = []
    for head in registry.names("head"):
        # A loss may refuse a head, but with this error, which users can read.
        with contextlib.suppress(CombinationError):
            subject.small({"head": head})
            accepted.append(head)
    require(bool(accepted), "it refuses every head.")
    return accepted
