"""The running mean of the weights: the mean of their history, from the epoch that the rule says."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ablate.lm.sections import TrainingConfig
from ablate.lm.training.averaging import Averaging


def averaging_of(model, **config):
    return Averaging(TrainingConfig(**config), model)


def walk(model, averaging, updates, seed=1):
    """Move the weights at random; return them after each update."""
    generator, history = torch.Generator().manual_seed(seed), []
    for _ in range(updates):
        for parameter in model.parameters():
            step = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.data.add_(step)
        averaging.updated()
        history.append([p.detach().clone() for p in model.parameters()])
    return history


def test_it_is_the_mean_of_the_weights_since_the_start():
    model = nn.Linear(3, 2).double()
    averaging = averaging_of(model, average_by=2)
    for epoch in (1, 2):
        walk(model, averaging, 5)
        started = averaging.epoch_ended([3.0, 2.0][:epoch])
    assert started == "weights are averaged after epoch 2"
    history = walk(model, averaging, 7)
    with averaging.evaluated_weights():
        for mean, *weights in zip(model.parameters(), *history, strict=True):
            torch.testing.assert_close(mean.data, torch.stack(weights).mean(0))
    assert all(map(torch.equal, model.parameters(), history[-1])), "training goes on with these"


@pytest.mark.parametrize("decay", [0.0, 0.8, 0.999])
def test_an_exponential_mean_is_the_weighted_mean_of_all_weights(decay):
    """Started at once by its decay alone; the share of old weights falls by the decay."""
    model = nn.Linear(3, 2).double()
    averaging = averaging_of(model, average_decay=decay)
    history = walk(model, averaging, 9)
    shares = torch.tensor([decay ** (8 - n) for n in range(9)], dtype=torch.float64)
    with averaging.evaluated_weights():
        for mean, *weights in zip(model.parameters(), *history, strict=True):
            expected = torch.tensordot(shares / shares.sum(), torch.stack(weights), 1)
            torch.testing.assert_close(mean.data, expected)


def test_it_is_off_by_default_and_starts_at_once_at_epoch_0():
    model = nn.Linear(3, 2)
    off, at_once = averaging_of(model), averaging_of(model, average_by=0)
    walk(model, off, 2)
    assert off.epoch_ended([1.0] * 90) is None and not off.means
    walk(model, at_once, 1)
    assert len(at_once.means) == 2


@pytest.mark.parametrize(
    ("losses", "started"),
    [
        ([5, 4, 3, 2, 1], None),
        ([5, 4, 4, 4, 1], 4),  # equal to the best is not a new best
        ([5, 4, 3, 6, 7], 5),
        ([1, 2, 3, 4, 5], 3),
    ],
)
def test_it_starts_after_two_epochs_without_a_new_best(losses, started):
    averaging = averaging_of(nn.Linear(1, 1), average_after=2)
    said = [bool(averaging.epoch_ended(losses[: epoch + 1])) for epoch in range(len(losses))]
    assert said == [started == epoch for epoch in range(1, len(losses) + 1)]
