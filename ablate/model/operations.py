"""The operations that training takes, estimated from a model's products with its parameters."""

from __future__ import annotations

from ablate.model.language_model import LanguageModel

FORWARD_PASSES = 3  # of work in a training step, about: the backward pass takes two
BACKWARD = 4  # operations for each trained parameter and token: the gradients of both factors


def per_training_token(model: LanguageModel, steps: int) -> int:
    """Estimate the operations for each token of a window of `steps` tokens.

    Where only a gate is trained, the frozen rest runs forward alone.
    """
    forward = model.flops_per_token(steps)
    if not model.only_gate:
        return FORWARD_PASSES * forward
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return forward + BACKWARD * trained
