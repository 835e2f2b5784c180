"""The operations that training takes, estimated from its products with matrices.

They are those of the model, of the further passes that regularizers ask for, and of the products
that these and the loss make themselves. What the optimizer computes is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.loss import Loss
from ablate.lm.model.regularizer import Regularizer, num_passes
from ablate.lm.sections import PairTrainingConfig, TrainingConfig

FORWARD_PASSES = 3  # of work in a training step, about: the backward pass takes two
BACKWARD = 4  # operations for each trained parameter and token: the gradients of both factors


def per_training_token(
    model: LanguageModel,
    loss: Loss,
    regularizers: Sequence[Regularizer],
    training: TrainingConfig | PairTrainingConfig,
    steps: int,
) -> int:
    """Estimate the operations for each token of windows, or sentences, of `steps` tokens."""
    rows = max(1, training.batch_size // training.accumulate)  # computed at once
    passes = num_passes(regularizers)
    added = sum(each.operations(model, rows * steps, passes) for each in regularizers)
    return round(passes * (_per_pass(model, steps) + loss.operations(model)) + added)


def _per_pass(model: LanguageModel, steps: int) -> int:
    """Where only a gate is trained, the frozen rest runs forward alone."""
    forward = model.flops_per_token(steps)
    if not model.only_gate:
        return FORWARD_PASSES * forward
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return forward + BACKWARD * trained
