"""What every optimizer owes: it lowers a loss, and goes on from a checkpoint to the same bits."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load, save

from ablate import registry

pytestmark = pytest.mark.parametrize("name", registry.names("optimizer"))
UPDATES_AN_EPOCH = 3


class Run:
    """A model and its optimizer, some updates long."""

    def __init__(self, small, name):
        self.given = small(optimizer=name, dtype=torch.float32)
        chosen = self.given.config["optimizer"]
        self.optimizer = registry.make("optimizer", name, chosen.config, self.given.model)
        self.update = 0

    def go(self, updates: int):
        for _ in range(updates):
            self.given.gradients()
            torch.nn.utils.clip_grad_norm_(self.given.model.parameters(), 0.01)
            self.optimizer.step(scale=0.5 + 0.1 * (self.update % 5))
            self.update += 1
            if self.update % UPDATES_AN_EPOCH == 0:
                epoch = self.update // UPDATES_AN_EPOCH
                self.optimizer.epoch_ended(epoch, 3.0 + (epoch > 1))
        return self

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        return {k: v.detach().clone() for k, v in self.given.model.named_parameters()}

    @property
    def judged(self) -> dict[str, torch.Tensor]:
        with self.optimizer.evaluated_weights(self.given.model):
            return self.weights


def same(ours, theirs) -> bool:
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_step_goes_down(small, name):
    run = Run(small, name)
    before = run.given.summed_loss().item()
    run.go(1)
    assert run.given.summed_loss().item() < before
    assert run.optimizer.rate > 0


@pytest.mark.parametrize("cut", [0, 4, 27])
def test_a_checkpoint_goes_on_to_the_same_bits(small, name, cut):
    whole, first, second = (Run(small, name) for _ in range(3))
    whole.go(30)
    first.go(cut)
    tensors, plain = first.optimizer.saved()
    second.given.model.load_state_dict(first.given.model.state_dict())
    second.optimizer.restore(load(save(tensors)), json.loads(json.dumps(plain)))
    second.update = cut
    second.go(30 - cut)
    assert same(whole.weights, second.weights)
    assert same(whole.judged, second.judged)
    assert whole.optimizer.rate == second.optimizer.rate


def test_what_was_saved_does_not_change_afterwards(small, name):
    run = Run(small, name).go(25)
    tensors, plain = run.optimizer.saved()
    before = save(tensors), json.dumps(plain)
    run.go(8)
    assert (save(tensors), json.dumps(plain)) == before


def test_judging_leaves_the_weights_as_they_were(small, name):
    run = Run(small, name).go(30)
    before = run.weights
    assert all(torch.isfinite(p).all() for p in run.judged.values())
    assert same(before, run.weights)
