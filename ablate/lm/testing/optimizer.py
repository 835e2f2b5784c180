"""The contracts of every optimizer: it lowers a loss, and resumes to the same bits."""

from __future__ import annotations

import json

import torch
from safetensors.torch import load, save
from torch import Tensor

from ablate.lm.testing.subject import Subject, require, require_equal, require_finite, weights

UPDATES_AN_EPOCH = 3
UPDATES = 30
CUTS = (0, 4, 27)  # before all updates, within an epoch, and between two


class ShortTraining:
    """A model and its optimizer in training."""

    def __init__(self, subject: Subject) -> None:
        self.small = subject.small(dtype=torch.float32)
        self.optimizer = self.small.config["optimizer"].make(self.small.model)
        self.update = 0

    def go(self, updates: int) -> ShortTraining:
        """Make updates, with a validation loss after each epoch; return the run."""
        for _ in range(updates):
            self.small.gradients()
            torch.nn.utils.clip_grad_norm_(self.small.model.parameters(), 0.01)
            # Windows of drawn lengths scale the rate of an update.
            self.optimizer.step(scale=0.5 + 0.1 * (self.update % 5))
            self.update += 1
            if self.update % UPDATES_AN_EPOCH == 0:
                epoch = self.update // UPDATES_AN_EPOCH
                # Worse after the first epoch, so that rules on validation losses take effect.
                self.optimizer.epoch_ended(epoch, 3.0 + (epoch > 1))
        return self

    @property
    def weights(self) -> dict[str, Tensor]:
        """Return a copy of the parameters."""
        return weights(self.small.model)

    @property
    def evaluated(self) -> dict[str, Tensor]:
        """Return the parameters that the optimizer would evaluate."""
        with self.optimizer.evaluated_weights(self.small.model):
            return self.weights


def a_step_lowers_the_loss(subject: Subject) -> None:
    """A step lowers the loss, at a rate above 0."""
    run = ShortTraining(subject)
    before = run.small.summed_loss().item()
    after = run.go(1).small.summed_loss().item()
    require(after < before, f"the loss changes from {before} to {after}.")
    require(run.optimizer.rate > 0, f"the learning rate is {run.optimizer.rate}.")


def resumes_to_the_same_bits(subject: Subject) -> None:
    """Resumed from files of its `saved` state, it gives the same bits as without interruption."""
    whole = ShortTraining(subject).go(UPDATES)
    for cut in CUTS:
        first, second = ShortTraining(subject).go(cut), ShortTraining(subject)
        tensors, plain = first.optimizer.saved()
        second.small.model.load_state_dict(first.small.model.state_dict())
        # Through the formats of a checkpoint, which keep neither tuples nor numbers as keys.
        second.optimizer.restore(load(save(tensors)), json.loads(json.dumps(plain)))
        second.update = cut
        second.go(UPDATES - cut)
        what = f"different after resuming at update {cut} of {UPDATES}"
        require_equal(whole.weights, second.weights, what)
        require_equal(whole.evaluated, second.evaluated, f"evaluated weights {what}")
        require(whole.optimizer.rate == second.optimizer.rate, f"the learning rate is {what}.")


def saved_state_is_a_copy(subject: Subject) -> None:
    """Saved state does not change with later updates."""
    run = ShortTraining(subject).go(25)
    tensors, plain = run.optimizer.saved()
    before = save(tensors), json.dumps(plain)
    run.go(8)
    require((save(tensors), json.dumps(plain)) == before, "later updates changed the saved state.")


def evaluation_leaves_the_weights(subject: Subject) -> None:
    """`evaluated_weights` gives finite weights, and restores the training weights."""
    run = ShortTraining(subject).go(UPDATES)
    before = run.weights
    require_finite(run.evaluated, "evaluated weights")
    require_equal(before, run.weights, "not restored after an evaluation")
