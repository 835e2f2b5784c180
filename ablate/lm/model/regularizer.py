"""Regularizers: masks on activations, transforms of weights, penalties, and projections.

A regularizer overrides those of the four that it uses; the others stay the identity. Masks and
transforms act only in training, each drawn from a stream with its own name. A regularizer may have
parameters of its own, in a module that only training uses (`auxiliary`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor, nn

from ablate.lm.model.masks import Masking

if TYPE_CHECKING:
    from ablate.lm.model.flow import Pass, TrainingText
    from ablate.lm.model.language_model import LanguageModel


class Regularizer(Masking):
    """Built as `Regularizer(config)`."""

    @property
    def acts_on(self) -> Mapping[str, str]:
        """The settings that are on and the sites that they act on: `{"latent": "latent"}`. If a
        model asks for no mask at that site, its records say that the setting had no effect.

        "words" is the site of masks on word types, "weight" that of transforms of weights.
        """
        return {}

    def auxiliary(self, model: LanguageModel, text: TrainingText | None) -> nn.Module | None:
        """Create the module of its own parameters, if it has any.

        It is initialized, trained, saved and loaded with the model, unless it says that a parameter
        requires no gradient. Evaluation and the number of parameters leave it out. `text` is None
        where only shapes are needed.
        """
        return None

    def penalty(self, passed: Pass, model: nn.Module) -> Tensor | None:
        """A term of the loss of one window, a scalar."""
        return None

    bounds = False  # True: `project` only puts parameters back within bounds, so twice is as once

    def project(self, model: nn.Module) -> None:
        """Called after an update, to change parameters in place: back onto a constraint, or by a
        step of the regularizer's own."""

    def operations(self, model: LanguageModel, tokens: int, passes: int) -> float:
        """The operations for each training token of what it multiplies with matrices itself: in
        `penalty`, `between` and `project`, with their backward passes.

        `tokens` are computed at once, in as many `passes`. The passes are counted for it.
        """
        return 0

    num_passes = 1  # forward passes of a window, each with its own masks; losses are averaged

    def between(self, passes: Sequence[Pass]) -> Tensor | None:
        """A term of the loss that compares the passes of one window."""
        return None

    def check(self, model: LanguageModel) -> None:
        """Called with the model before training; raise a `CombinationError` if the model has
        nothing for it to act on."""


def num_passes(regularizers: Sequence[Regularizer]) -> int:
    """Return how many passes a window takes: as many as the regularizer that compares most."""
    return max([1, *(each.num_passes for each in regularizers)])
