"""Rows of a mixture of softmaxes: the sums of their exponentials, then their slopes in place.

A chunk's scores [K, V], K = n*J, come from one product, in float32 or in bfloat16. They become
logits in registers only,

    logit = cap tanh((score + bias) gate / cap)

so `row_sums` reads every score once, and `slopes_` reads it once more and writes the slope there:

    d loss / d score_j = (r_j / Z_j) (e - Z_j onehot) (1 - tanh^2) gate,    e = exp(logit - peak)

without the factor r_j / Z_j, which its caller applies to the small side of each product, as it does
for the compiled kernels (`native/softmax.h`). The gate's slope sums over the experts,

    d loss / d gate = sum_j (r_j / Z_j) (e - Z_j onehot) (1 - tanh^2) (score_j + bias)

and is returned as that of the number before its sigmoid.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ablate.model.triton.functions import tanh
from ablate.model.triton.library import launch

BLOCK = 4096  # words that a program has in registers at a time
WARPS = 8


def row_sums(
    scores_KV: Tensor,
    bias_V: Tensor | None,
    gate_nV: Tensor | None,
    cap: float | None,
    targets_n: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Each row's largest logit, its sum of e^(logit - peak), and its target's logit relative to the
    peak, [K, 1]. Every target applies to the same number of rows."""
    num_rows, num_words = scores_KV.shape
    peak_K1, sum_K1, target_K1 = torch.empty(3, num_rows, 1, device=scores_KV.device).unbind()
    tensors = (scores_KV, bias_V, gate_nV, targets_n.contiguous(), peak_K1, sum_K1, target_K1)
    sizes = (num_words, num_rows // max(len(targets_n), 1))
    launch(_sum_row, (num_rows,), *tensors, *sizes, *_capped(cap), **block_of(num_words))
    return peak_K1, sum_K1, target_K1


def slopes_(
    scores_KV: Tensor,
    bias_V: Tensor | None,
    gate_nV: Tensor | None,
    cap: float | None,
    targets_n: Tensor,
    peak_K1: Tensor,
    sum_K1: Tensor,
    factor_K1: Tensor,
) -> Tensor | None:
    """Turn scores into their slopes, but for the factor; return the gate's, [n, V], with it."""
    num_rows, num_words = scores_KV.shape
    gate_slope_nV = None if gate_nV is None else torch.empty_like(gate_nV)
    of_rows = (targets_n.contiguous(), peak_K1, sum_K1, factor_K1.contiguous(), gate_slope_nV)
    tensors = (scores_KV, bias_V, gate_nV, *of_rows)
    sizes, block = (num_words, num_rows // max(len(targets_n), 1)), block_of(num_words)
    grid = (len(targets_n), triton.cdiv(num_words, block["BLOCK"]))
    launch(_slope_block, grid, *tensors, *sizes, *_capped(cap), **block)
    return gate_slope_nV


def block_of(num_words: int) -> dict[str, int]:
    """How many of a row's words a program takes at a time, by how many warps."""
    return {"BLOCK": min(BLOCK, triton.next_power_of_2(num_words)), "num_warps": WARPS}


def _capped(cap: float | None) -> tuple[float, bool]:
    """The cap, which is a number at run time, and whether there is one, which is compiled in."""
    return (1.0, False) if cap is None else (cap, True)


@triton.jit
def _read(scores, bias, gate, at, inside, cap, CAPPED: tl.constexpr):
    """The scores of some words with their bias, their gate, its tanh, and the logits.

    Words outside have a logit of -inf."""
    score = tl.load(scores + at, mask=inside, other=0.0).to(tl.float32)
    if bias is not None:
        score += tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    factor = 1.0
    if gate is not None:
        factor = tl.load(gate + at, mask=inside, other=0.0).to(tl.float32)
    logit = score * factor
    bent = 0.0
    if CAPPED:
        bent = tanh(logit / cap)
        logit = cap * bent
    return score, factor, bent, tl.where(inside, logit, -float("inf"))


@triton.jit
def _sum_row(
    scores, bias, gate, targets, peaks, sums, at_targets, words, experts, cap,
    CAPPED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row: its sum is scaled whenever a block has a larger logit than those before it."""
    row = tl.program_id(0).to(tl.int64)
    token = row // experts
    scores += row * words
    if gate is not None:
        gate += token * words
    peak = tl.full((), -float("inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for first in range(0, words, BLOCK):
        at = first + tl.arange(0, BLOCK)
        _, _, _, logit = _read(scores, bias, gate, at, at < words, cap, CAPPED)
        top = tl.maximum(peak, tl.max(logit, 0))
        shift = tl.where(top == -float("inf"), 0.0, top)  # inf - inf is no number
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(logit - shift), 0)
        peak = top
    target = tl.load(targets + token)
    _, _, _, at_target = _read(scores, bias, gate, target, target < words, cap, CAPPED)
    tl.store(peaks + row, peak)
    tl.store(sums + row, total)
    tl.store(at_targets + row, at_target - peak)


@triton.jit
def _slope_block(
    scores, bias, gate, targets, peaks, sums, factors, gate_slopes, words, experts, cap,
    CAPPED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Some words of all rows of a token, whose gate they share."""
    token = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < words
    target = tl.load(targets + token)
    if gate is not None:
        gate += token * words
        gate_slope = tl.zeros((BLOCK,), tl.float32)
    for expert in range(experts):
        row = token * experts + expert
        here = scores + row * words
        score, factor, bent, logit = _read(here, bias, gate, at, inside, cap, CAPPED)
        slope = tl.exp(logit - tl.load(peaks + row))
        slope -= tl.where(at == target, tl.load(sums + row), 0.0)
        if CAPPED:
            slope *= 1 - bent * bent
        if gate is not None:
            gate_slope += slope * score * tl.load(factors + row)
            slope *= factor
        tl.store(here + at, slope.to(scores.dtype.element_ty), mask=inside)
    if gate is not None:
        factor = tl.load(gate + at, mask=inside, other=0.0)
        gate_slope *= factor * (1 - factor)
        tl.store(gate_slopes + token * words + at, gate_slope, mask=inside)
