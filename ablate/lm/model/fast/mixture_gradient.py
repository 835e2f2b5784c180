"""The loss of a mixture with its closed-form gradient, computed by chunks in the forward pass.

With r_j the responsibility of expert j for the target,

    d nll / d logits_j = r_j (softmax_j - onehot),    d nll / d log_prior_j = -r_j,

with p_j / (p + floor) for r_j if a floor is added to p, and the same if a pointer adds to p. So
the backward pass only scales the gradients that the forward pass has stored. A chunk's exponentials
e = exp(logits - peak), with sum Z, are not normalized: r (softmax - onehot) = (e - Z onehot) r/Z,
and the factor r/Z is applied to the small side of each matrix product.

Under autocast the large products take factors in half precision; everything else stays float32.

Shape suffixes: n tokens of a chunk, K = n*J rows, one per expert; others as in `flow.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from ablate.lm.model.fast.precision import autocast_dtype, rounded
from ablate.lm.model.fast.product import (
    SumOfProducts,
    half_product,
    product,
    product_back,
)
from ablate.lm.model.fast.stored_gradients import Gradients, Needed, Tensors, with_gradients
from ablate.lm.model.flow import GateSignal, Mixture
from ablate.lm.model.native.library import usable
from ablate.lm.model.native.product import FEWEST_ROWS
from ablate.lm.model.native.softmax import exponentials_, half_slopes_
from ablate.lm.model.pointer import copied_targets, of_copied, with_copied


@dataclass(frozen=True)
class ChunkSize:
    """The maximum size of a chunk's logits: in bytes, or as a share of the matrix whose gradient
    they are added to, whichever is larger."""

    num_bytes: int
    of_matrix: float


SINGLE = ChunkSize(6 << 20, 1 / 4)  # the logits are most of a single softmax's memory
MIXTURE = ChunkSize(16 << 20, 1 / 8)  # more logits, or half as large; large products are faster
PARTS = ChunkSize(4 << 20, 1 / 24)  # if several tensors of a chunk's size are in memory
NARROW_PARTS = ChunkSize(8 << 20, 1 / 24)  # narrow products are faster with more rows
GPU_CHUNKS = 128  # chunks that would fill a GPU's memory


@dataclass(frozen=True, kw_only=True)
class Scored:
    """The scores of a chunk's targets, and the inputs of its gradient. `exponentials_KV` is e, or
    already e - Z onehot."""

    log_prob_n: Tensor
    responsibility_nJ: Tensor
    exponentials_KV: Tensor
    sum_K1: Tensor
    scores_KV: Tensor | None  # the logits before the gate
    gate_nV: Tensor | None
    tanh_KV: Tensor | None  # tanh(logit / cap)
    less_targets: bool


@dataclass(frozen=True, kw_only=True)
class MixtureGradients:
    """The gradients of a mixture's tensors; None if not needed."""

    vectors_NJE: Tensor | None
    log_prior_NJ: Tensor | None
    weight_VE: SumOfProducts | None
    bias_V: Tensor | None
    gate_vectors_NG: Tensor | None
    gate_weight_VG: SumOfProducts | None
    gate_bias_V: Tensor | None


def fused_summed_nll(mixture: Mixture, targets_N: Tensor) -> Tensor:
    """-sum log p of the targets, with its gradients already computed."""
    dtype = autocast_dtype(targets_N.device)
    compute = partial(_summed_nll, dtype, mixture.floor, mixture.cap)
    copied_N = copied_targets(mixture, targets_N)
    return with_gradients(compute, targets_N, copied_N, *tensors_of(mixture))


def token_chunks(mixture: Mixture, size: ChunkSize | None = None) -> Iterator[slice]:
    """Even slices of the tokens whose logits stay within `size`, or larger ones on a GPU; the
    default size depends on the mixture and on its precision."""
    num_tokens, num_experts, width = mixture.vectors_NJE.shape
    half = mixture.weight_VE.dtype.itemsize == 2
    row_bytes = mixture.weight_VE.shape[0] * mixture.weight_VE.element_size()
    # In half precision products are cheap, and adding each chunk's gradient is not.
    size = size or (SINGLE if num_experts == 1 and not half else MIXTURE)
    num_bytes = max(size.num_bytes, int(width * row_bytes * size.of_matrix))
    num_bytes = max(num_bytes, _gpu_bytes(mixture.weight_VE.device))
    most = max(1, num_bytes // (num_experts * row_bytes))
    step = -(-num_tokens // -(-num_tokens // most)) if num_tokens else 1
    return (slice(at, min(at + step, num_tokens)) for at in range(0, num_tokens, step))


def logits_buffer(mixture: Mixture, chunks: list[slice]) -> Tensor | None:
    """A buffer for the logits of any chunk, since first use of memory is slow; None if products
    allocate their own."""
    weight_VE, (_, num_experts, _) = mixture.weight_VE, mixture.vectors_NJE.shape
    most = chunks[0].stop * num_experts if chunks else 0
    if most < FEWEST_ROWS or not (usable(weight_VE) or takes_half(mixture)):
        return None
    return weight_VE.new_empty(most, len(weight_VE))


@cache
def _gpu_bytes(device: torch.device) -> int:
    """Bytes of a chunk by a GPU's total memory; bits would depend on its free memory."""
    if device.type != "cuda":
        return 0
    return torch.cuda.get_device_properties(device).total_memory // GPU_CHUNKS


def score_targets(
    mixture: Mixture,
    targets_N: Tensor,
    rows: slice,
    buffer_KV: Tensor | None = None,
    copied_N: Tensor | None = None,
) -> Scored:
    """log p of the targets of some tokens; `buffer_KV` is at least as large as their logits, and
    `copied_N` the probability that a pointer adds."""
    num_experts = mixture.vectors_NJE.shape[1]
    vectors_KE = mixture.vectors_NJE[rows].flatten(0, 1)
    buffer_KV = None if buffer_KV is None else buffer_KV[: len(vectors_KE)]
    scores_KV = gate_nV = tanh_KV = None
    in_half = takes_half(mixture)
    if in_half:
        logits_KV = half_product(vectors_KE, mixture.weight_VE, buffer_KV)
        sum_K1, target_K1 = half_slopes_(logits_KV, mixture.bias_V, targets_N[rows])
    else:
        scores_KV = product(vectors_KE, mixture.weight_VE, mixture.bias_V, buffer_KV)
        gate_nV = _gate(mixture.gate, rows)
        logits_KV = scores_KV if gate_nV is None else _gated(scores_KV, gate_nV)
        if mixture.cap is not None:
            tanh_KV = logits_KV.div_(mixture.cap).tanh_()
            logits_KV = tanh_KV * mixture.cap
        sum_K1, target_K1 = exponentials(logits_KV, targets_N[rows])
    log_p_nJ = (target_K1 - sum_K1.log()).view(-1, num_experts)
    if mixture.log_prior_NJ is not None:
        log_p_nJ = log_p_nJ + mixture.log_prior_NJ[rows]
    log_prob_n = floored(log_p_nJ.logsumexp(1), mixture.floor)
    log_prob_n = with_copied(log_prob_n, None if copied_N is None else copied_N[rows])
    return Scored(
        log_prob_n=log_prob_n,
        responsibility_nJ=(log_p_nJ - log_prob_n[:, None]).exp_(),
        exponentials_KV=logits_KV,
        sum_K1=sum_K1,
        scores_KV=None if gate_nV is None else scores_KV,
        gate_nV=gate_nV,
        tanh_KV=tanh_KV,
        less_targets=in_half,
    )


def exponentials(logits_KV: Tensor, targets_n: Tensor) -> tuple[Tensor, Tensor]:
    """Turn logits into e^(logit - peak) of each row; return the sums and the targets' logits
    relative to the peak, [K, 1]. Each token has one row per expert."""
    if usable(logits_KV):
        return exponentials_(logits_KV, targets_n)
    targets_K1 = targets_n.repeat_interleave(len(logits_KV) // max(len(targets_n), 1))[:, None]
    peak_K1 = logits_KV.amax(1, keepdim=True)
    target_K1 = logits_KV.gather(1, targets_K1) - peak_K1
    return logits_KV.sub_(peak_K1).exp_().sum(1, keepdim=True), target_K1


def floored(log_p: Tensor, floor: float) -> Tensor:
    """log(p + floor)."""
    return torch.logaddexp(log_p, log_p.new_full((), math.log(floor))) if floor else log_p


def _summed_nll(
    dtype: torch.dtype | None, floor: float, cap: float | None, tensors: Tensors, needed: Needed
) -> tuple[Tensor, Gradients]:
    """The loss and its gradients, with products in this precision, this floor and this cap."""
    targets_N, copied_N, given = *tensors[:2], mixture_of(*tensors[2:])
    mixture = replace(_lowered(given, dtype), floor=floor, cap=cap)
    # Like the tensors that were given: sums stay float32 where factors are rounded.
    gradients = _zeros(given, needed[2:], half=takes_half(mixture))
    chunks, log_probs = list(token_chunks(mixture)), []
    buffer_KV = logits_buffer(mixture, chunks)
    for rows in chunks:
        scored = score_targets(mixture, targets_N, rows, buffer_KV, copied_N)
        log_probs.append(scored.log_prob_n)
        _add_gradients(gradients, mixture, scored, targets_N[rows], rows)
        del scored  # before the next chunk takes as much memory
    matrix = gradients.weight_VE
    if gradients.bias_V is not None and matrix is not None and matrix.has_sums:
        gradients.bias_V.add_(matrix.sums())
    log_prob_N = torch.cat(log_probs)
    of_copied_N = None if copied_N is None else of_copied(log_prob_N, copied_N)
    return -log_prob_N.sum(), [None, of_copied_N, *vars(gradients).values()]


def tensors_of(mixture: Mixture) -> tuple[Tensor | None, ...]:
    """The mixture's tensors in a fixed order, with None for those it lacks."""
    gate = mixture.gate
    own = (mixture.vectors_NJE, mixture.log_prior_NJ, mixture.weight_VE, mixture.bias_V)
    return (*own, *((None,) * 3 if gate is None else vars(gate).values()))


def mixture_of(vectors, log_prior, weight, bias, gate_vectors, gate_weight, gate_bias) -> Mixture:
    """The inverse of `tensors_of`."""
    gate = None
    if gate_vectors is not None:
        gate = GateSignal(vectors_NG=gate_vectors, weight_VG=gate_weight, bias_V=gate_bias)
    return Mixture(
        vectors_NJE=vectors, log_prior_NJ=log_prior, weight_VE=weight, bias_V=bias, gate=gate
    )


def _lowered(mixture: Mixture, dtype: torch.dtype | None) -> Mixture:
    """The mixture with the factors of the large products rounded to `dtype`, if given."""
    if dtype is None:
        return mixture
    vectors, log_prior, weight, bias, *gate = tensors_of(mixture)
    factors = (vectors, weight, *gate[:2])
    vectors, weight, *gate[:2] = (None if f is None else rounded(f, dtype) for f in factors)
    return mixture_of(vectors, log_prior, weight, bias, *gate)


def takes_half(mixture: Mixture) -> bool:
    """Return whether a kernel for logits in bfloat16 computes this mixture."""
    plain = mixture.gate is None and mixture.cap is None
    return plain and usable(mixture.weight_VE, dtype=torch.bfloat16)


def _zeros(mixture: Mixture, needed: Needed, *, half: bool) -> MixtureGradients:
    """Zero-initialized gradients, for the tensors that need one."""
    zeros: dict[str, Any] = {}
    needs = dict(zip((f.name for f in fields(MixtureGradients)), needed, strict=True))
    with_bias = mixture.bias_V is not None and needs["bias_V"]
    for (name, need), tensor in zip(needs.items(), tensors_of(mixture), strict=True):
        if not need or tensor is None:
            zeros[name] = None
        elif "weight" in name:
            zeros[name] = SumOfProducts(tensor, sums=with_bias and name == "weight_VE", half=half)
        else:
            zeros[name] = torch.zeros_like(tensor)
    return MixtureGradients(**zeros)


def _gate(gate: GateSignal | None, rows: slice) -> Tensor | None:
    if gate is None:
        return None
    return product(gate.vectors_NG[rows], gate.weight_VG, gate.bias_V).sigmoid_()


def _gated(x_KV: Tensor, gate_nV: Tensor) -> Tensor:
    """Every expert's row times its token's gate."""
    num_tokens, num_words = gate_nV.shape
    return (x_KV.view(num_tokens, -1, num_words) * gate_nV[:, None]).view(-1, num_words)


def _add_gradients(
    gradients: MixtureGradients, mixture: Mixture, scored: Scored, targets_n: Tensor, rows: slice
) -> None:
    responsibility_nJ = scored.responsibility_nJ
    factor_K1 = responsibility_nJ.reshape(-1, 1) / scored.sum_K1
    if gradients.log_prior_NJ is not None:
        gradients.log_prior_NJ[rows] = -responsibility_nJ
    slope_KV, gate_slope_nV = _slopes(mixture, scored, factor_K1, targets_n)
    if gate_slope_nV is not None:
        _add_gate_gradients(gradients, mixture, gate_slope_nV, rows)
    matrix = gradients.weight_VE
    with_sums = matrix is not None and matrix.has_sums and mixture.weight_VE.dtype == slope_KV.dtype
    if gradients.bias_V is not None and not with_sums:
        slope_VK = slope_KV.t().to(factor_K1.dtype)
        gradients.bias_V.add_(torch.mv(slope_VK, factor_K1.squeeze(1)))
    slope_KV = slope_KV.to(mixture.weight_VE.dtype)
    if gradients.vectors_NJE is not None:
        product_KE = product_back(slope_KV, mixture.weight_VE).mul_(factor_K1)
        gradients.vectors_NJE[rows] = product_KE.view(-1, *mixture.vectors_NJE.shape[1:])
    if matrix is not None:
        vectors_KE = mixture.vectors_NJE[rows].flatten(0, 1) * factor_K1
        matrix.add(slope_KV, vectors_KE, factor_K1 if with_sums else None)


def _slopes(
    mixture: Mixture, scored: Scored, factor_K1: Tensor, targets_n: Tensor
) -> tuple[Tensor, Tensor | None]:
    """The slopes of the scores without their factor, and the gate's."""
    slope_KV, gate_slope_nV = scored.exponentials_KV, None
    if not scored.less_targets:
        targets_K1 = targets_n.repeat_interleave(scored.responsibility_nJ.shape[1])[:, None]
        slope_KV.scatter_add_(1, targets_K1, -scored.sum_K1)  # e - Z onehot
    if scored.gate_nV is not None and scored.scores_KV is not None:
        gate_slope_nV = _gate_slopes(scored.gate_nV, scored.scores_KV, slope_KV, factor_K1)
        slope_KV = _gated(slope_KV, scored.gate_nV)
    if scored.tanh_KV is not None:
        slope_KV.mul_(scored.tanh_KV.square_().neg_().add_(1))
    return slope_KV, gate_slope_nV


def _gate_slopes(gate_nV: Tensor, scores_KV: Tensor, slope_KV: Tensor, factor_K1: Tensor) -> Tensor:
    """Through gate = sigmoid(z W' + b), whose slope is sum_j slope_j scores_j."""
    weighted_KV = scores_KV.mul_(slope_KV).mul_(factor_K1)
    slope_nV = weighted_KV.view(gate_nV.shape[0], -1, gate_nV.shape[1]).sum(1)
    return slope_nV.mul_(gate_nV).mul_(1 - gate_nV)


def _add_gate_gradients(
    gradients: MixtureGradients, mixture: Mixture, slope_nV: Tensor, rows: slice
) -> None:
    gate = mixture.gate
    if gate is None:
        return
    if gradients.gate_bias_V is not None:
        gradients.gate_bias_V.add_(slope_nV.sum(0))
    slope_nV = slope_nV.to(gate.weight_VG.dtype)
    if gradients.gate_vectors_NG is not None:
        gradients.gate_vectors_NG[rows] = product_back(slope_nV, gate.weight_VG)
    if gradients.gate_weight_VG is not None:
        gradients.gate_weight_VG.add(slope_nV, gate.vectors_NG[rows])
