"""Softmaxes and losses over rows of logits, by the kernels of `softmax.h`."""

from __future__ import annotations

import torch
from torch import Tensor

from ablate.lm.model.native.library import run, threads

ROWS = 8  # the fewest rows that are worth a thread


def exponentials_(logits_KV: Tensor, targets_n: Tensor) -> tuple[Tensor, Tensor]:
    """Turn logits into e^(logit - peak) of each row; return the sums and the targets' logits
    relative to the peak, [K, 1]. Every target applies to the same number of rows."""
    num_rows, num_words = logits_KV.shape
    sum_K1, target_K1 = logits_KV.new_empty(num_rows, 1), logits_KV.new_empty(num_rows, 1)
    sizes = (num_words, num_rows // max(len(targets_n), 1))
    tensors = (logits_KV, targets_n.contiguous(), sum_K1, target_K1)
    run("exponentials", num_rows, *sizes, *tensors, least=ROWS)
    return sum_K1, target_K1


def half_slopes_(
    logits_KV: Tensor, bias_V: Tensor | None, targets_n: Tensor
) -> tuple[Tensor, Tensor]:
    """The same for logits in bfloat16, after adding the bias. They become e - sum onehot."""
    num_rows, num_words = logits_KV.shape
    sum_K1 = torch.empty(num_rows, 1, device=logits_KV.device)
    target_K1 = torch.empty_like(sum_K1)
    sizes = (num_words, num_rows // max(len(targets_n), 1))
    tensors = (logits_KV, bias_V, targets_n.contiguous(), sum_K1, target_K1)
    run("half_slopes", num_rows, *sizes, *tensors, least=ROWS)
    return sum_K1, target_K1


def soft_targets_(logits_UV: Tensor, scale: float, soft_UV: Tensor) -> Tensor:
    """Scale the logits, fill in their softmax, and return its negative entropy, [U]."""
    num_rows, num_words = logits_UV.shape
    negative_U = logits_UV.new_empty(num_rows)
    run("soft_targets", num_rows, num_words, scale, logits_UV, soft_UV, negative_U, least=ROWS)
    return negative_U


def augmented_(
    scores_nV: Tensor,
    bias_V: Tensor | None,
    targets_n: Tensor,
    soft_UV: Tensor,
    soft_of_n: Tensor,
    negative_U: Tensor,
    numbers: tuple[float, float, float],
    d_bias_V: Tensor | None,
) -> Tensor:
    """of_nll * J + of_divergence * J_aug of every token, [n]; the scores become their gradient, and
    the bias's gradient is added. The numbers: temperature, of_nll, of_divergence."""
    num_rows, num_words = scores_nV.shape
    losses_n = scores_nV.new_empty(num_rows)
    # A row of sums for each thread, since two of them must not add to one.
    parts = None if d_bias_V is None else scores_nV.new_zeros(threads(num_rows, ROWS), num_words)
    soft = (soft_UV, soft_of_n.contiguous(), negative_U)
    tensors = (scores_nV, bias_V, targets_n.contiguous(), *soft, losses_n, parts)
    run("augmented", num_rows, num_words, *map(float, numbers), *tensors, least=ROWS)
    if d_bias_V is not None and parts is not None:
        d_bias_V.add_(parts.sum(0))
    return losses_n
