"""Computing with a `Mixture`: its log-probabilities, and its loss with gradients.

p(w) = sum_j prior_j softmax(gate * (vectors_j W' + bias))_w + floor, always through logsumexp, so
that log p is exact; the floor is 0 unless a head sets the 1e-8 of the public codes. A pointer adds
the probability of copying w (`pointer.py`). Everything is computed in chunks of tokens; the
training loss never holds the [N, J, V] logits (`mixture_gradient.py`).

Shape suffixes: n tokens of a chunk, K = n*J rows, one per expert; others as in `flow.py`.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from ablate.lm.model.cap import capped
from ablate.lm.model.fast.mixture_gradient import (
    floored,
    fused_summed_nll,
    score_targets,
    token_chunks,
)
from ablate.lm.model.fast.precision import full
from ablate.lm.model.flow import Mixture
from ablate.lm.model.pointer import (
    copied_distribution,
    copied_targets,
    selected_pointer,
    with_copied,
)


def log_probs(mixture: Mixture) -> Tensor:
    """log p of every word after every token, [N, V]; differentiable by plain autograd."""
    return torch.cat([log_probs_of(mixture, rows) for rows in token_chunks(mixture)])


def log_probs_of(mixture: Mixture, rows: slice) -> Tensor:
    """The same after some of the tokens, [n, V]."""
    experts_nJV = expert_logits(mixture, rows).log_softmax(-1)
    if mixture.log_prior_NJ is None:
        log_p_nV = experts_nJV.squeeze(1)
    else:
        log_p_nV = (experts_nJV + mixture.log_prior_NJ[rows, :, None]).logsumexp(1)
    log_p_nV = floored(log_p_nV, mixture.floor)
    if mixture.pointer is None:
        return log_p_nV
    return with_copied(log_p_nV, copied_distribution(mixture.pointer, rows, log_p_nV.shape[1]))


@torch.no_grad()
def token_nll(mixture: Mixture, targets_N: Tensor) -> Tensor:
    """-log p of each target, without gradients and without whole distributions."""
    chunks = token_chunks(mixture)
    copied_N = copied_targets(mixture, targets_N)
    scored = (score_targets(mixture, targets_N, rows, copied_N=copied_N) for rows in chunks)
    return -torch.cat([each.log_prob_n for each in scored])


def summed_nll(mixture: Mixture, targets_N: Tensor) -> Tensor:
    """-sum log p of the targets, a scalar with gradients: the training loss."""
    if not torch.is_grad_enabled():
        return token_nll(mixture, targets_N).sum()
    return fused_summed_nll(mixture, targets_N)


def summed_nll_plain(mixture: Mixture, targets_N: Tensor) -> Tensor:
    """The same by plain autograd over whole distributions, to debug and to test against."""
    return -log_probs(mixture).gather(1, targets_N[:, None]).sum()


def selected(mixture: Mixture, rows_n: Tensor | slice) -> Mixture:
    """The distributions of some tokens, by their indices or as a slice."""
    prior, gate = mixture.log_prior_NJ, mixture.gate
    return replace(
        mixture,
        vectors_NJE=mixture.vectors_NJE[rows_n],
        log_prior_NJ=None if prior is None else prior[rows_n],
        gate=gate and replace(gate, vectors_NG=gate.vectors_NG[rows_n]),
        pointer=selected_pointer(mixture.pointer, rows_n),
    )


def expert_logits(mixture: Mixture, rows: slice) -> Tensor:
    """The (capped or gated) logits of each expert for some tokens, [n, J, V]."""
    logits_nJV = full(F.linear(mixture.vectors_NJE[rows], mixture.weight_VE, mixture.bias_V))
    logits_nJV, gate = capped(logits_nJV, mixture.cap), mixture.gate
    if gate is None:
        return logits_nJV
    gate_nV = full(F.linear(gate.vectors_NG[rows], gate.weight_VG, gate.bias_V)).sigmoid()
    return logits_nJV * gate_nV[:, None]


def tempered(mixture: Mixture, temperature: float) -> Mixture:
    """The mixture with every expert's logits divided by a temperature, also under a gate.

    A gate multiplies the logits, so the order of the two does not matter.
    """
    if temperature == 1:
        return mixture
    bias_V = None if mixture.bias_V is None else mixture.bias_V / temperature
    return replace(
        mixture,
        vectors_NJE=mixture.vectors_NJE / temperature,
        bias_V=bias_V,
        cap=None if mixture.cap is None else mixture.cap / temperature,  # what is capped is divided
    )
