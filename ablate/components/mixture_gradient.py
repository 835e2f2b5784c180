"""The loss of a mixture with its closed-form gradient, formed chunk by chunk in the forward pass.

With r_j the responsibility of component j for the target,

    d nll / d logits_j = r_j (softmax_j - onehot),    d nll / d log_prior_j = -r_j,

so the backward pass only scales what the forward pass has gathered. A chunk's exponentials
e = exp(logits - peak), of sum Z, stay unnormalised: r (softmax - onehot) = (e - Z onehot) r/Z,
and the factor r/Z goes onto the small side of each matrix product.

Shape suffixes: n tokens of a chunk, K = n*J component rows; others as in `flow.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ablate.components.flow import GateSignal, Mixture

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
    weight_VE: Tensor | None
    bias_V: Tensor | None
    gate_vectors_NG: Tensor | None
    gate_weight_VG: Tensor | None
    gate_bias_V: Tensor | None


def fused_summed_nll(mixture: Mixture, targets_N: Tensor) -> Tensor:
    """-sum log p of the targets, with its gradients already computed."""
    return _SummedNll.apply(targets_N, *_tensors(mixture))  # type: ignore[return-value]


def token_chunks(mixture: Mixture) -> Iterator[slice]:
    """The tokens in slices whose logits stay within `CHUNK_BYTES`."""
    num_tokens, num_components, _ = mixture.vectors_NJE.shape
    row_bytes = mixture.weight_VE.shape[0] * mixture.weight_VE.element_size()
    step = max(1, CHUNK_BYTES // (num_components * row_bytes))
    return (slice(at, min(at + step, num_tokens)) for at in range(0, num_tokens, step))


def token_log_probs(mixture: Mixture, targets_N: Tensor, rows: slice) -> Scored:
    """log p of the targets of some tokens. Takes one pass of each kind over the logits."""
    targets_n = targets_N[rows]
    num_components = mixture.vectors_NJE.shape[1]
    targets_K1 = targets_n.repeat_interleave(num_components)[:, None]
    scores_KV, gate_nV = _scores(mixture, rows), _gate(mixture.gate, rows)
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
        gradients = _wanted(ctx.needs_input_grad[1:], tensors)
        log_probs = []
        for rows in token_chunks(mixture):
            scored = token_log_probs(mixture, targets_N, rows)
            log_probs.append(scored.log_prob_n)
            _add_gradients(gradients, mixture, scored, targets_N[rows], rows)
        ctx.save_for_backward(*(getattr(gradients, field.name) for field in fields(Gradients)))
        return -torch.cat(log_probs).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, *outer: Tensor):
        (scale,) = outer
        return None, *(None if g is None else g * scale for g in ctx.saved_tensors)


def _tensors(mixture: Mixture) -> tuple[Tensor | None, ...]:
    """A mixture's tensors, in the order of `Gradients`."""
    gate = mixture.gate
    factors = (None, None, None) if gate is None else (gate.vectors_NG, gate.weight_VG, gate.bias_V)
    return (
        mixture.vectors_NJE, mixture.log_prior_NJ, mixture.weight_VE, mixture.bias_V, *factors
    )  # fmt: skip


def _mixture(vectors, log_prior, weight, bias, gate_vectors, gate_weight, gate_bias) -> Mixture:
    gate = None
    if gate_vectors is not None:
        gate = GateSignal(vectors_NG=gate_vectors, weight_VG=gate_weight, bias_V=gate_bias)
    return Mixture(
        vectors_NJE=vectors, log_prior_NJ=log_prior, weight_VE=weight, bias_V=bias, gate=gate
    )


def _wanted(needed: tuple[bool, ...], tensors: tuple[Tensor | None, ...]) -> Gradients:
    """Zeros of the shapes of the tensors whose gradient is needed."""
    zeros = [
        torch.zeros_like(tensor, memory_format=torch.contiguous_format)
        if tensor is not None and need
        else None
        for need, tensor in zip(needed, tensors, strict=True)
    ]
    return Gradients(**dict(zip((f.name for f in fields(Gradients)), zeros, strict=True)))


def _scores(mixture: Mixture, rows: slice) -> Tensor:
    vectors_KE = mixture.vectors_NJE[rows].flatten(0, 1)
    if mixture.bias_V is None:
        return torch.mm(vectors_KE, mixture.weight_VE.t())
    return torch.addmm(mixture.bias_V, vectors_KE, mixture.weight_VE.t())


def _gate(gate: GateSignal | None, rows: slice) -> Tensor | None:
    if gate is None:
        return None
    product_nV = torch.mm(gate.vectors_NG[rows], gate.weight_VG.t())
    return (product_nV if gate.bias_V is None else product_nV.add_(gate.bias_V)).sigmoid_()


def _gated(x_KV: Tensor, gate_nV: Tensor) -> Tensor:
    """Every component's row times its token's gate."""
    num_tokens, num_words = gate_nV.shape
    return (x_KV.view(num_tokens, -1, num_words) * gate_nV[:, None]).view(-1, num_words)


def _add_gradients(
    gradients: Gradients, mixture: Mixture, scored: Scored, targets_n: Tensor, rows: slice
) -> None:
    responsibility_nJ, slope_KV = scored.responsibility_nJ, scored.exponentials_KV
    num_components = responsibility_nJ.shape[1]
    targets_K1 = targets_n.repeat_interleave(num_components)[:, None]
    slope_KV.scatter_add_(1, targets_K1, -scored.sum_K1)  # e - Z onehot
    factor_K1 = responsibility_nJ.reshape(-1, 1) / scored.sum_K1
    if gradients.log_prior_NJ is not None:
        gradients.log_prior_NJ[rows] = -responsibility_nJ
    if scored.gate_nV is not None:
        _add_gate_gradients(gradients, mixture, scored, factor_K1, rows)
        slope_KV = _gated(slope_KV, scored.gate_nV)
    if gradients.vectors_NJE is not None:
        product_KE = torch.mm(slope_KV, mixture.weight_VE).mul_(factor_K1)
        gradients.vectors_NJE[rows] = product_KE.view(-1, *mixture.vectors_NJE.shape[1:])
    if gradients.weight_VE is not None:
        vectors_KE = mixture.vectors_NJE[rows].flatten(0, 1)
        gradients.weight_VE.addmm_(slope_KV.t(), vectors_KE * factor_K1)
    if gradients.bias_V is not None:
        gradients.bias_V.addmv_(slope_KV.t(), factor_K1.squeeze(1))


def _add_gate_gradients(
    gradients: Gradients, mixture: Mixture, scored: Scored, factor_K1: Tensor, rows: slice
) -> None:
    """Through gate = sigmoid(z W' + b), whose slope is sum_j slope_j scores_j."""
    gate, gate_nV, scores_KV = mixture.gate, scored.gate_nV, scored.scores_KV
    if gate is None or gate_nV is None or scores_KV is None:
        return
    weighted_KV = scores_KV.mul_(scored.exponentials_KV).mul_(factor_K1)
    slope_nV = weighted_KV.view(gate_nV.shape[0], -1, gate_nV.shape[1]).sum(1)
    slope_nV.mul_(gate_nV).mul_(1 - gate_nV)
    if gradients.gate_vectors_NG is not None:
        gradients.gate_vectors_NG[rows] = torch.mm(slope_nV, gate.weight_VG)
    if gradients.gate_weight_VG is not None:
        gradients.gate_weight_VG.addmm_(slope_nV.t(), gate.vectors_NG[rows])
    if gradients.gate_bias_V is not None:
        gradients.gate_bias_V.add_(slope_nV.sum(0))
