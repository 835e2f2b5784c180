"""The augmented loss of a single softmax with its closed-form gradient, chunk by chunk.

With p = softmax(s + b) of the logits s = W h, and ytilde, yhat as in `tempered.py`,

    d J / d s = p - onehot,    d J_aug / d s = (yhat - ytilde) / tau    (Inan et al. 2017, Eq. 3.4)

so both terms share one product for s, one for h's gradient and one for W's. The tokens are sorted
by target: a chunk's tokens with the same target share its ytilde. If ytilde is not a constant, the
gradient of its logits t = L L_y / tau is, for the c tokens of a target,

    d sum J_aug / d t = ytilde * (d - sum ytilde d),    d = c t - sum s / tau

Shape suffixes: n tokens of a chunk, U different targets of a chunk, D units of a word vector;
others as in `flow.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from ablate.lm.model.fast.mixture_gradient import NARROW_PARTS, PARTS, token_chunks
from ablate.lm.model.fast.precision import autocast_dtype, full, rounded
from ablate.lm.model.fast.product import (
    NARROW,
    SumOfProducts,
    product,
    product_back,
)
from ablate.lm.model.fast.stored_gradients import Gradients, Needed, Tensors, with_gradients
from ablate.lm.model.flow import Mixture
from ablate.lm.model.native import softmax as compiled
from ablate.lm.model.native.library import usable


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The weighted sum of_nll * J + of_divergence * J_aug."""

    temperature: float
    of_nll: float
    of_divergence: float
    detach: bool  # ytilde is a constant


@dataclass(frozen=True)
class Inputs:
    """The inputs of the loss: one expert's vectors, its matrix and bias, and the word vectors."""

    vectors_NE: Tensor
    weight_VE: Tensor
    bias_V: Tensor | None
    words_VD: Tensor


@dataclass(frozen=True, kw_only=True)
class Sums:
    """The sums of the gradients; None if not needed."""

    vectors_NE: Tensor | None
    weight_VE: SumOfProducts | None
    bias_V: Tensor | None
    words_VD: SumOfProducts | None


@dataclass(frozen=True, kw_only=True)
class SoftTargets:
    """ytilde of a chunk's distinct targets."""

    words_U: Tensor
    of_token_n: Tensor  # which of the U belongs to each token
    count_U: Tensor
    logits_UV: Tensor  # t above
    ytilde_UV: Tensor
    negative_entropy_U: Tensor


class Buffers:
    """Buffers [n, V] that all chunks share, since first use of memory is slow.

    Compiled kernels write the soft targets, the scores and t there; torch allocates its own, and
    uses two buffers for intermediate results.
    """

    def __init__(self, most: int, inputs: Inputs) -> None:
        like_V = inputs.weight_VE[:, 0] if inputs.bias_V is None else inputs.bias_V
        self.dtype = torch.promote_types(like_V.dtype, torch.float32)
        first = like_V.new_empty((most, len(like_V)), dtype=self.dtype)
        self.kernels = compiled if usable(first) else None
        more = 1 if self.kernels is None else 2
        self._tensors = [first, *(torch.empty_like(first) for _ in range(more))]

    def of(self, num_tokens: int) -> list[Tensor]:
        """Return the buffers' first rows, for a chunk of this many tokens."""
        return [tensor[:num_tokens] for tensor in self._tensors]


def fused_augmented(mixture: Mixture, targets_N: Tensor, words_VD: Tensor, terms: Terms) -> Tensor:
    """The weighted sum of J and J_aug for one expert without a gate."""
    order_N = targets_N.argsort(stable=True)
    vectors_NE = mixture.vectors_NJE.squeeze(1)[order_N]
    narrow = mixture.weight_VE.shape[1] < NARROW
    chunks = list(token_chunks(mixture, NARROW_PARTS if narrow else PARTS))
    tensors = (vectors_NE, mixture.weight_VE, mixture.bias_V, words_VD)
    compute = partial(_augmented, autocast_dtype(targets_N.device), chunks, terms)
    return with_gradients(compute, targets_N[order_N], *tensors)


def _augmented(
    dtype: torch.dtype | None,
    chunks: list[slice],
    terms: Terms,
    tensors: Tensors,
    needed: Needed,
) -> tuple[Tensor, Gradients]:
    """The loss and its gradients."""
    targets_N, *rest = tensors
    inputs = Inputs(*rest)
    sums = _zeros(inputs, needed[1:])
    total = _add_chunks(sums, _lowered(inputs, dtype), targets_N, chunks, terms)
    return total, [None, *vars(sums).values()]


def _lowered(inputs: Inputs, dtype: torch.dtype | None) -> Inputs:
    """The inputs with the factors of the large products rounded to `dtype`, if given."""
    if dtype is None:
        return inputs
    vectors, weight = rounded(inputs.vectors_NE, dtype), rounded(inputs.weight_VE, dtype)
    return replace(
        inputs, vectors_NE=vectors, weight_VE=weight, words_VD=rounded(inputs.words_VD, dtype)
    )


def _add_chunks(
    sums: Sums, inputs: Inputs, targets_N: Tensor, chunks: list[slice], terms: Terms
) -> Tensor:
    """The loss; its gradients are added. The buffers are freed before anything is copied."""
    buffers = Buffers(chunks[0].stop, inputs)
    total = torch.zeros((), dtype=buffers.dtype, device=inputs.weight_VE.device)
    for rows in chunks:
        total += _add_chunk(sums, inputs, targets_N[rows], rows, terms, buffers)
    return total


def _add_chunk(
    sums: Sums,
    inputs: Inputs,
    targets_n: Tensor,
    rows: slice,
    terms: Terms,
    buffers: Buffers,
) -> Tensor:
    """The loss of a chunk; its gradients are added."""
    vectors_nE = inputs.vectors_NE[rows]
    soft = _soft_targets(inputs.words_VD, targets_n, terms.temperature, buffers)
    scores_nV = product(vectors_nE, inputs.weight_VE, None, buffers.of(len(targets_n))[-1])
    if sums.words_VD is not None:
        _add_word_gradients(sums.words_VD, inputs.words_VD, soft, full(scores_nV), terms)
    loss, slope_nV = _slope_(soft, scores_nV, inputs.bias_V, targets_n, terms, sums.bias_V, buffers)
    slope_nV = slope_nV.to(inputs.weight_VE.dtype)
    if sums.vectors_NE is not None:
        sums.vectors_NE[rows] = product_back(slope_nV, inputs.weight_VE)
    if sums.weight_VE is not None:
        sums.weight_VE.add(slope_nV, vectors_nE)
    return loss


def _slope_(
    soft: SoftTargets,
    scores_nV: Tensor,
    bias_V: Tensor | None,
    targets_n: Tensor,
    terms: Terms,
    d_bias_V: Tensor | None,
    buffers: Buffers,
) -> tuple[Tensor, Tensor]:
    """The loss of a chunk and its gradient with respect to the scores, which are overwritten; the
    bias's gradient is added."""
    if buffers.kernels is not None:
        numbers = (terms.temperature, terms.of_nll, terms.of_divergence)
        targets = (targets_n, soft.ytilde_UV, soft.of_token_n, soft.negative_entropy_U)
        losses_n = buffers.kernels.augmented_(scores_nV, bias_V, *targets, numbers, d_bias_V)
        return losses_n.sum(), scores_nV
    first_nV, second_nV = buffers.of(len(targets_n))
    divergence = _divergence_(soft, scores_nV, terms.temperature, first_nV, second_nV)
    nll = _nll_(scores_nV, bias_V, targets_n, first_nV)
    slope_nV = first_nV if terms.of_nll == 1 else first_nV.mul_(terms.of_nll)
    if d_bias_V is not None:
        d_bias_V.add_(slope_nV.sum(0))
    slope_nV.add_(second_nV, alpha=terms.of_divergence / terms.temperature)
    return terms.of_nll * nll + terms.of_divergence * divergence, slope_nV


def _soft_targets(
    words_VD: Tensor, targets_n: Tensor, temperature: float, buffers: Buffers
) -> SoftTargets:
    words_U, of_token_n, count_U = targets_n.unique_consecutive(
        return_inverse=True, return_counts=True
    )
    if buffers.kernels is not None:
        ytilde_UV, *others = buffers.of(len(words_U))
        out_UV = others[0] if others else None
        logits_UV = product(words_VD[words_U], words_VD, None, out_UV).contiguous()
        negative_entropy_U = buffers.kernels.soft_targets_(logits_UV, 1 / temperature, ytilde_UV)
    else:
        logits_UV = product(words_VD[words_U], words_VD)
        ytilde_UV = logits_UV.mul_(1 / temperature).softmax(1)
        mean_U = torch.linalg.vecdot(ytilde_UV, logits_UV)
        negative_entropy_U = mean_U - log_sum(logits_UV, ytilde_UV)
    return SoftTargets(
        words_U=words_U,
        of_token_n=of_token_n,
        count_U=count_U,
        logits_UV=logits_UV,
        ytilde_UV=ytilde_UV,
        negative_entropy_U=negative_entropy_U,
    )


def _divergence_(
    soft: SoftTargets, scores_nV: Tensor, temperature: float, scratch_nV: Tensor, slope_nV: Tensor
) -> Tensor:
    """J_aug summed over a chunk; writes yhat - ytilde to `slope_nV`."""
    torch.mul(scores_nV, 1 / temperature, out=scratch_nV)
    torch.softmax(scratch_nV, 1, out=slope_nV)
    log_sum_n = log_sum(scratch_nV, slope_nV)
    torch.index_select(soft.ytilde_UV, 0, soft.of_token_n, out=scratch_nV)
    mean_n = torch.linalg.vecdot(scratch_nV, scores_nV) / temperature
    slope_nV.sub_(scratch_nV)
    return (soft.negative_entropy_U[soft.of_token_n] - mean_n + log_sum_n).sum()


def _nll_(scores_nV: Tensor, bias_V: Tensor | None, targets_n: Tensor, slope_nV: Tensor) -> Tensor:
    """J summed over a chunk; writes p - onehot to `slope_nV`, and adds the bias to the scores."""
    if bias_V is not None:
        scores_nV.add_(bias_V)
    torch.softmax(scores_nV, 1, out=slope_nV)
    targets_n1 = targets_n[:, None]
    nll_n = log_sum(scores_nV, slope_nV) - scores_nV.gather(1, targets_n1).squeeze(1)
    slope_nV.scatter_add_(1, targets_n1, slope_nV.new_full((1, 1), -1).expand_as(targets_n1))
    return nll_n.sum()


def log_sum(logits_nV: Tensor, softmax_nV: Tensor) -> Tensor:
    """log sum exp of the logits: the largest logit minus its log-probability."""
    return logits_nV.amax(1) - softmax_nV.amax(1).log()


def _add_word_gradients(
    total_VD: SumOfProducts, words_VD: Tensor, soft: SoftTargets, scores_nV: Tensor, terms: Terms
) -> None:
    """Through ytilde, whose logits read the word vectors on both sides."""
    ytilde_UV, temperature = soft.ytilde_UV, terms.temperature
    difference_UV = (soft.logits_UV * soft.count_U[:, None]).index_add_(
        0, soft.of_token_n, scores_nV, alpha=-1 / temperature
    )
    mean_U = torch.linalg.vecdot(ytilde_UV, difference_UV)
    slope_UV = difference_UV.sub_(mean_U[:, None]).mul_(ytilde_UV)
    slope_UV.mul_(terms.of_divergence / temperature)
    slope_UV = slope_UV.to(words_VD.dtype)
    total_VD.add(slope_UV, words_VD[soft.words_U])
    total_VD.add_rows(soft.words_U, product_back(slope_UV, words_VD))


def _zeros(inputs: Inputs, needed: tuple[bool, ...]) -> Sums:
    """Zero-initialized gradients, for the inputs that need one."""
    vectors, weight, bias, words = needed
    return Sums(
        vectors_NE=torch.zeros_like(inputs.vectors_NE) if vectors else None,
        weight_VE=SumOfProducts(inputs.weight_VE) if weight else None,
        bias_V=torch.zeros_like(inputs.bias_V) if bias and inputs.bias_V is not None else None,
        words_VD=SumOfProducts(inputs.words_VD) if words else None,
    )
