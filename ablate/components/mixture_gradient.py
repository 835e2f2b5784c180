"""The loss of a mixture with its closed-form gradient, formed chunk by chunk in the forward pass.

With r_j the responsibility of component j for the target,

    d nll / d logits_j = r_j (softmax_j - onehot),    d nll / d log_prior_j = -r_j,

so the backward pass only scales what the forward pass has gathered. A chunk's exponentials
e = exp(logits - peak), of sum Z, stay unnormalised: r (softmax - onehot) = (e - Z onehot) r/Z,
and the factor r/Z goes onto the small side of each matrix product. A bias is one more column of
its matrix, against a vector's 1.

Shape suffixes: n tokens of a chunk, K = n*J component rows; others as in `flow.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.components.flow import GateSignal, Mixture
from ablate.components.product import add_product_, product

CHUNK_BYTES = 16 << 20  # of logits: large enough for the matrix products, small enough to last


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A chunk's targets scored, and what its gradient needs. `exponentials_KV` is e above."""

    log_prob_n: Tensor
    responsibility_nJ: Tensor
    exponentials_KV: Tensor
    sum_K1: Tensor
    scores_KV: Tensor | None  # the logits before the gate
    gate_nV: Tensor | None


@dataclass(frozen=True, kw_only=True)
class Gradients:
    """The gradients of a mixture's tensors; None where nobody asked."""

    vectors_NJE: Tensor | None
    log_prior_NJ: Tensor | None
    weight_EV: Tensor | None  # transposed: a product with few rows is the faster one
    gate_vectors_NG: Tensor | None
    gate_weight_GV: Tensor | None


def fused_summed_nll(mixture: Mixture, targets_N: Tensor) -> Tensor:
    """-sum log p of the targets, with its gradients already computed."""
    return _SummedNll.apply(targets_N, *_tensors(without_biases(mixture)))  # type: ignore


def without_biases(mixture: Mixture) -> Mixture:
    """The same mixture with every bias as one more column of its matrix."""
    gate = mixture.gate
    if gate is not None and gate.bias_V is not None:
        gate = GateSignal(
            vectors_NG=_with_column(gate.vectors_NG, gate.vectors_NG.new_ones(())),
            weight_VG=_with_column(gate.weight_VG, gate.bias_V),
            bias_V=None,
        )
    if mixture.bias_V is None:
        return replace(mixture, gate=gate)
    vectors_NJE = _with_column(mixture.vectors_NJE, mixture.vectors_NJE.new_ones(()))
    weight_VE = _with_column(mixture.weight_VE, mixture.bias_V)
    return replace(mixture, vectors_NJE=vectors_NJE, weight_VE=weight_VE, bias_V=None, gate=gate)


def token_chunks(mixture: Mixture, share: int = 1) -> Iterator[slice]:
    """The tokens in slices whose logits stay within `CHUNK_BYTES`, or a `share`-th of them."""
    num_tokens, num_components, _ = mixture.vectors_NJE.shape
    row_bytes = mixture.weight_VE.shape[0] * mixture.weight_VE.element_size()
    step = max(1, CHUNK_BYTES // (share * num_components * row_bytes))
    return (slice(at, min(at + step, num_tokens)) for at in range(0, num_tokens, step))


def score_targets(mixture: Mixture, targets_N: Tensor, rows: slice) -> Scored:
    """log p of the targets of some tokens, by a mixture without biases."""
    num_components = mixture.vectors_NJE.shape[1]
    targets_K1 = targets_N[rows].repeat_interleave(num_components)[:, None]
    scores_KV = product(mixture.vectors_NJE[rows].flatten(0, 1), mixture.weight_VE)
    gate_nV = _gate(mixture.gate, rows)
    logits_KV = scores_KV if gate_nV is None else _gated(scores_KV, gate_nV)
    at_target_K1 = logits_KV.gather(1, targets_K1)
    peak_K1 = logits_KV.amax(1, keepdim=True)
    exponentials_KV = logits_KV.sub_(peak_K1).exp_()
    sum_K1 = exponentials_KV.sum(1, keepdim=True)
    log_p_nJ = (at_target_K1 - peak_K1 - sum_K1.log()).view(-1, num_components)
    if mixture.log_prior_NJ is not None:
        log_p_nJ = log_p_nJ + mixture.log_prior_NJ[rows]
    log_prob_n = log_p_nJ.logsumexp(1)
    return Scored(
        log_prob_n=log_prob_n,
        responsibility_nJ=(log_p_nJ - log_prob_n[:, None]).exp_(),
        exponentials_KV=exponentials_KV,
        sum_K1=sum_K1,
        scores_KV=None if gate_nV is None else scores_KV,
        gate_nV=gate_nV,
    )


class _SummedNll(torch.autograd.Function):
    """Its forward pass leaves the gradients behind; its backward pass scales them."""

    @staticmethod
    def forward(ctx, targets_N: Tensor, *tensors: Tensor | None) -> Tensor:
        mixture = _mixture(*tensors)
        gradients = _zeros(mixture, ctx.needs_input_grad[1:])
        log_probs = []
        for rows in token_chunks(mixture):
            scored = score_targets(mixture, targets_N, rows)
            log_probs.append(scored.log_prob_n)
            _add_gradients(gradients, mixture, scored, targets_N[rows], rows)
        ctx.save_for_backward(
            gradients.vectors_NJE,
            gradients.log_prior_NJ,
            transposed(gradients.weight_EV),
            gradients.gate_vectors_NG,
            transposed(gradients.gate_weight_GV),
        )
        return -torch.cat(log_probs).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, *outer: Tensor):
        (scale,) = outer
        return None, *(None if g is None else g * scale for g in ctx.saved_tensors)


def _tensors(mixture: Mixture) -> tuple[Tensor | None, ...]:
    gate = mixture.gate
    factors = (None, None) if gate is None else (gate.vectors_NG, gate.weight_VG)
    return (mixture.vectors_NJE, mixture.log_prior_NJ, mixture.weight_VE, *factors)


def _mixture(vectors, log_prior, weight, gate_vectors, gate_weight) -> Mixture:
    """`_tensors` undone."""
    gate = None
    if gate_vectors is not None:
        gate = GateSignal(vectors_NG=gate_vectors, weight_VG=gate_weight, bias_V=None)
    return Mixture(
        vectors_NJE=vectors, log_prior_NJ=log_prior, weight_VE=weight, bias_V=None, gate=gate
    )


def _zeros(mixture: Mixture, needed: tuple[bool, ...]) -> Gradients:
    """Room for the gradients that are needed."""
    vectors, log_prior, weight, gate_vectors, gate_weight = (
        tensor if need else None for tensor, need in zip(_tensors(mixture), needed, strict=True)
    )
    return Gradients(
        vectors_NJE=None if vectors is None else vectors.new_zeros(vectors.shape),
        log_prior_NJ=None if log_prior is None else log_prior.new_zeros(log_prior.shape),
        weight_EV=None if weight is None else weight.new_zeros(weight.t().shape),
        gate_vectors_NG=None
        if gate_vectors is None
        else gate_vectors.new_zeros(gate_vectors.shape),
        gate_weight_GV=None
        if gate_weight is None
        else gate_weight.new_zeros(gate_weight.t().shape),
    )


def transposed(gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None else gradient.t().contiguous()


def _with_column(x: Tensor, last: Tensor) -> Tensor:
    return torch.cat([x, last.expand(x.shape[:-1])[..., None]], -1)


def _gate(gate: GateSignal | None, rows: slice) -> Tensor | None:
    return None if gate is None else product(gate.vectors_NG[rows], gate.weight_VG).sigmoid_()


def _gated(x_KV: Tensor, gate_nV: Tensor) -> Tensor:
    """Every component's row times its token's gate."""
    num_tokens, num_words = gate_nV.shape
    return (x_KV.view(num_tokens, -1, num_words) * gate_nV[:, None]).view(-1, num_words)


def _add_gradients(
    gradients: Gradients, mixture: Mixture, scored: Scored, targets_n: Tensor, rows: slice
) -> None:
    responsibility_nJ, slope_KV = scored.responsibility_nJ, scored.exponentials_KV
    targets_K1 = targets_n.repeat_interleave(responsibility_nJ.shape[1])[:, None]
    slope_KV.scatter_add_(1, targets_K1, -scored.sum_K1)  # e - Z onehot
    factor_K1 = responsibility_nJ.reshape(-1, 1) / scored.sum_K1
    if gradients.log_prior_NJ is not None:
        gradients.log_prior_NJ[rows] = -responsibility_nJ
    if scored.gate_nV is not None:
        _add_gate_gradients(gradients, mixture, scored, factor_K1, rows)
        slope_KV = _gated(slope_KV, scored.gate_nV)
    if gradients.vectors_NJE is not None:
        product_KE = product(slope_KV, mixture.weight_VE.t()).mul_(factor_K1)
        gradients.vectors_NJE[rows] = product_KE.view(-1, *mixture.vectors_NJE.shape[1:])
    if gradients.weight_EV is not None:
        weighted_KE = mixture.vectors_NJE[rows].flatten(0, 1) * factor_K1
        add_product_(gradients.weight_EV, weighted_KE.t(), slope_KV.t())


def _add_gate_gradients(
    gradients: Gradients, mixture: Mixture, scored: Scored, factor_K1: Tensor, rows: slice
) -> None:
    """Through gate = sigmoid(z W'), whose slope is sum_j slope_j scores_j."""
    gate, gate_nV, scores_KV = mixture.gate, scored.gate_nV, scored.scores_KV
    if gate is None or gate_nV is None or scores_KV is None:
        return
    weighted_KV = scores_KV.mul_(scored.exponentials_KV).mul_(factor_K1)
    slope_nV = weighted_KV.view(gate_nV.shape[0], -1, gate_nV.shape[1]).sum(1)
    slope_nV.mul_(gate_nV).mul_(1 - gate_nV)
    if gradients.gate_vectors_NG is not None:
        gradients.gate_vectors_NG[rows] = product(slope_nV, gate.weight_VG.t())
    if gradients.gate_weight_GV is not None:
        add_product_(gradients.gate_weight_GV, gate.vectors_NG[rows].t(), slope_nV.t())
