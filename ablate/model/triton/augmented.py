"""Rows of the augmented loss: soft targets, both losses of each token, and their slopes in place.

The formulas are those of `fast/tempered_gradient.py`. A program reads a row once, for the two sums
of exponentials; others read it once more, and write the slope. Those own some words of several
rows, so that they also add up the gradient of the bias there, always in the same order.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ablate.model.triton.library import launch
from ablate.model.triton.softmax import block_of

ROWS = 16  # whose bias's gradients a program adds up


def soft_targets_(logits_UV: Tensor, scale: float, soft_UV: Tensor) -> Tensor:
    """Scale the logits, fill in their softmax, and return its negative entropy, [U]."""
    num_rows, num_words = logits_UV.shape
    negative_U = torch.empty(num_rows, device=logits_UV.device)
    tensors = (logits_UV, soft_UV, negative_U)
    launch(_soft_row, (num_rows,), *tensors, num_words, scale, **block_of(num_words))
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
    block, parts = block_of(num_words), triton.cdiv(num_rows, ROWS)
    losses_n, *sums = torch.empty(5, num_rows, device=scores_nV.device).unbind()
    parts_PV = None if d_bias_V is None else d_bias_V.new_empty(parts, num_words)
    read = (scores_nV, bias_V, targets_n.contiguous(), soft_UV, soft_of_n.contiguous())
    launch(_sum_row, (num_rows,), *read, negative_U, losses_n, *sums, num_words, *numbers, **block)
    grid = (triton.cdiv(num_words, block["BLOCK"]), parts)
    sizes = (num_rows, num_words)
    launch(_slope_block, grid, *read, *sums, parts_PV, *sizes, *numbers, ROWS=ROWS, **block)
    if d_bias_V is not None and parts_PV is not None:
        d_bias_V.add_(parts_PV.sum(0))
    return losses_n


@triton.jit
def _larger(peak, x):
    """The largest number up to here, and what is subtracted from it: inf - inf is no number."""
    top = tl.maximum(peak, tl.max(x, 0))
    return top, tl.where(top == -float("inf"), 0.0, top)


@triton.jit
def _soft_row(logits, soft, negative, words, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * words
    soft += row * words
    peak = tl.full((), -float("inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    mean = tl.full((), 0.0, tl.float32)
    for first in range(0, words, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < words
        x = tl.load(logits + at, mask=inside, other=0.0).to(tl.float32) * scale
        top, shift = _larger(peak, tl.where(inside, x, -float("inf")))
        e = tl.where(inside, tl.exp(x - shift), 0.0)
        kept = tl.exp(peak - shift)
        total = total * kept + tl.sum(e, 0)
        mean = mean * kept + tl.sum(e * x, 0)
        peak = top
    for first in range(0, words, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < words
        x = tl.load(logits + at, mask=inside, other=0.0).to(tl.float32) * scale
        tl.store(logits + at, x, mask=inside)
        tl.store(soft + at, tl.exp(x - peak) / total, mask=inside)
    tl.store(negative + row, mean / total - peak - tl.log(total))


@triton.jit
def _read(scores, bias, at, inside):
    """Some words' scores without and with the bias."""
    score = tl.load(scores + at, mask=inside, other=0.0).to(tl.float32)
    biased = score
    if bias is not None:
        biased += tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    return score, biased


@triton.jit
def _sum_row(
    scores, bias, targets, soft, soft_of, negative, losses, colds, cold_peaks, warms, warm_peaks,
    words, temperature, of_nll, of_divergence, BLOCK: tl.constexpr,
):  # fmt: skip
    """One token: cold are the exponentials of J, and warm those of J_aug."""
    row = tl.program_id(0).to(tl.int64)
    scores += row * words
    own = tl.load(soft_of + row)
    cold_peak = tl.full((), -float("inf"), tl.float32)
    warm_peak = tl.full((), -float("inf"), tl.float32)
    cold = tl.full((), 0.0, tl.float32)
    warm = tl.full((), 0.0, tl.float32)
    mean = tl.full((), 0.0, tl.float32)
    for first in range(0, words, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < words
        score, biased = _read(scores, bias, at, inside)
        mean += tl.sum(tl.load(soft + own * words + at, mask=inside, other=0.0) * score, 0)
        biased = tl.where(inside, biased, -float("inf"))
        score = tl.where(inside, score / temperature, -float("inf"))
        top, shift = _larger(cold_peak, biased)
        cold = cold * tl.exp(cold_peak - shift) + tl.sum(tl.exp(biased - shift), 0)
        cold_peak = top
        top, shift = _larger(warm_peak, score)
        warm = warm * tl.exp(warm_peak - shift) + tl.sum(tl.exp(score - shift), 0)
        warm_peak = top
    target = tl.load(targets + row)
    _, at_target = _read(scores, bias, target, target < words)
    nll = tl.log(cold) + cold_peak - at_target
    divergence = tl.load(negative + own) - mean / temperature + tl.log(warm) + warm_peak
    tl.store(losses + row, of_nll * nll + of_divergence * divergence)
    tl.store(colds + row, cold)
    tl.store(cold_peaks + row, cold_peak)
    tl.store(warms + row, warm)
    tl.store(warm_peaks + row, warm_peak)


@triton.jit
def _slope_block(
    scores, bias, targets, soft, soft_of, colds, cold_peaks, warms, warm_peaks, d_bias,
    rows, words, temperature, of_nll, of_divergence, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Some words of several tokens."""
    part = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < words
    total = tl.zeros((BLOCK,), tl.float32)
    of_soft = of_divergence / temperature
    for number in range(tl.minimum(ROWS, rows - part * ROWS)):
        row = part * ROWS + number
        here = scores + row * words
        score, biased = _read(here, bias, at, inside)
        cold = tl.load(colds + row)
        slope = tl.exp(biased - tl.load(cold_peaks + row))
        slope -= tl.where(at == tl.load(targets + row), cold, 0.0)
        slope *= of_nll / cold
        total += slope
        warm = tl.exp(score / temperature - tl.load(warm_peaks + row)) / tl.load(warms + row)
        own = tl.load(soft + tl.load(soft_of + row) * words + at, mask=inside, other=0.0)
        slope += of_soft * (warm - own)
        tl.store(here + at, slope.to(scores.dtype.element_ty), mask=inside)
    if d_bias is not None:
        tl.store(d_bias + part * words + at, total, mask=inside)
