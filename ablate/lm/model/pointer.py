"""Copying words that were read before, beside a head's softmaxes.

    p(w) = sum_j prior_j softmax_j(w) + sum over positions i with x_i = w of a_i

The a_i are probabilities and the priors of the experts have the rest, so that all of them sum to 1.
A loss or an evaluator asks only for the probability of copying certain words; what is 0 there
takes no part in a logarithm, so that gradients stay finite.

Shape suffixes: P positions that may be copied from, K words asked for; others as in `flow.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ablate.lm.model.flow import Mixture, Pointer


def copied(pointer: Pointer, words_nK: Tensor, rows: slice = slice(None)) -> Tensor:
    """The probability of copying each of some words, [n, K]; `words_nK` may have one row."""
    weights_nP, ids_nP = pointer.weights_NP[rows], pointer.ids_NP[rows]
    columns = [(weights_nP * (ids_nP == words_n1)).sum(1) for words_n1 in words_nK.split(1, 1)]
    return torch.stack(columns, 1)


def copied_targets(mixture: Mixture, targets_N: Tensor) -> Tensor | None:
    """The probability of copying each token's target, [N]; None without a pointer."""
    pointer = mixture.pointer
    return None if pointer is None else copied(pointer, targets_N[:, None]).squeeze(1)


def copied_distribution(pointer: Pointer, rows: slice, num_words: int) -> Tensor:
    """The probability of copying every word, [n, V]."""
    weights_nP, ids_nP = pointer.weights_NP[rows], pointer.ids_NP[rows]
    zeros_nV = weights_nP.new_zeros(len(weights_nP), num_words)
    return zeros_nV.scatter_add(1, ids_nP.clamp_min(0), weights_nP)  # ids below 0 have no weight


def with_copied(log_p: Tensor, copied_p: Tensor | None) -> Tensor:
    """log(p + copied)."""
    if copied_p is None:
        return log_p
    smallest = torch.finfo(copied_p.dtype).tiny
    # The gradient of log 0 is infinite, and times 0 would be nan.
    both = torch.logaddexp(log_p, copied_p.clamp_min(smallest).log())
    return torch.where(copied_p > smallest, both, log_p)


def of_copied(log_p_total: Tensor, copied_p: Tensor) -> Tensor:
    """The gradient of -log(p + copied) with respect to what was copied."""
    smallest = torch.finfo(copied_p.dtype).tiny
    return torch.where(copied_p > smallest, -log_p_total.neg().exp(), 0.0)


def without_pointer(mixture: Mixture) -> Mixture:
    """The head's softmaxes alone, whose priors sum to 1 again."""
    if mixture.pointer is None:
        return mixture
    single = mixture.vectors_NJE.shape[1] == 1
    prior = None if single or mixture.log_prior_NJ is None else mixture.log_prior_NJ.log_softmax(1)
    return replace(mixture, log_prior_NJ=prior, pointer=None)


def selected_pointer(pointer: Pointer | None, rows_n: Tensor | slice) -> Pointer | None:
    """The pointers of some tokens, by their indices or as a slice."""
    if pointer is None:
        return None
    return Pointer(weights_NP=pointer.weights_NP[rows_n], ids_NP=pointer.ids_NP[rows_n])


def mean_pointer(mixtures: Sequence[Mixture]) -> Pointer | None:
    """The pointers of several models side by side, each with its share of the mean."""
    pointers = [mixture.pointer for mixture in mixtures if mixture.pointer is not None]
    if not pointers:
        return None
    return Pointer(
        weights_NP=torch.cat([pointer.weights_NP / len(mixtures) for pointer in pointers], 1),
        ids_NP=torch.cat([pointer.ids_NP for pointer in pointers], 1),
    )
