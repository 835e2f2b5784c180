"""The augmented loss: cross entropy, plus a divergence from soft targets made of word similarity.

Inan et al. 2017, Eq. 3.1-3.7: for a target word y, the soft target says how close each word is to
it,

    ytilde = softmax(L L_y / tau),    yhat = softmax(W h / tau),    J_aug = KL(ytilde || yhat)

with L the word vectors, W the output matrix and no bias. Over a mixture, yhat is the mixture of
the tempered experts, still without the bias; a gate scales their logits as it does in J:

    yhat = sum_j prior_j softmax(gate * (W k_j) / tau)

With a pointer, J is that of the whole distribution, and yhat is that of the softmaxes alone.

One expert without a gate is computed by `tempered_gradient.py`, any other mixture in chunks of
tokens (`stored_gradients.py`).

Shape suffixes: n tokens of a chunk, D units of a word vector; others as in `flow.py`.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from ablate.lm.model.fast.mixture_gradient import PARTS, mixture_of, tensors_of, token_chunks
from ablate.lm.model.fast.stored_gradients import summed_by_chunk
from ablate.lm.model.fast.tempered_gradient import Terms, fused_augmented
from ablate.lm.model.flow import Mixture
from ablate.lm.model.mixture import log_probs, selected, summed_nll, tempered
from ablate.lm.model.pointer import without_pointer


def summed_augmented(mixture: Mixture, targets_N: Tensor, words_VD: Tensor, terms: Terms) -> Tensor:
    """The weighted sum of J and J_aug over the tokens, a scalar with gradients."""
    if terms.detach:
        words_VD = words_VD.detach()
    if mixture.pointer is not None:
        nll, alone = summed_nll(mixture, targets_N), without_pointer(mixture)
        divergence = summed_augmented(alone, targets_N, words_VD, replace(terms, of_nll=0.0))
        return terms.of_nll * nll + divergence
    if mixture.gate is None and mixture.log_prior_NJ is None:
        return fused_augmented(mixture, targets_N, words_VD, terms)
    return _augmented_by_chunk(mixture, targets_N, words_VD, terms)


def augmented_plain(mixture: Mixture, targets_N: Tensor, words_VD: Tensor, terms: Terms) -> Tensor:
    """The same by plain autograd over whole distributions; the soft targets are not detached."""
    nll = -log_probs(mixture).gather(1, targets_N[:, None]).sum()
    similarity_NV = words_VD[targets_N] @ words_VD.t() / terms.temperature
    log_soft_NV = similarity_NV.log_softmax(1)
    without_bias = replace(mixture, bias_V=None, floor=0.0)
    log_yhat_NV = log_probs(tempered(without_bias, terms.temperature))
    divergence = (log_soft_NV.exp() * (log_soft_NV - log_yhat_NV)).sum()
    return terms.of_nll * nll + terms.of_divergence * divergence


def _augmented_by_chunk(
    mixture: Mixture, targets_N: Tensor, words_VD: Tensor, terms: Terms
) -> Tensor:
    def part(rows, words_VD, *tensors):
        whole = replace(mixture_of(*tensors), floor=mixture.floor)
        return augmented_plain(selected(whole, rows), targets_N[rows], words_VD, terms)

    chunks = list(token_chunks(mixture, PARTS))
    return summed_by_chunk(part, chunks, words_VD, *tensors_of(mixture))
