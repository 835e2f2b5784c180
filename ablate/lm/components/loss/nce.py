"""Noise-contrastive estimation: distinguish the target word from words drawn from unigrams.

With s(w) the model's log score of a word, unnormalized except for a constant log Z, and k noise
words w' from p_n (Mnih and Teh 2012; Pachitariu and Sahani 2013, Section 5.2),

    -log sigma(s(w) - log k p_n(w)) - sum_w' log sigma(log k p_n(w') - s(w'))

so no update sums over the vocabulary. Over a mixture,

    s(w) = log sum_j prior_j exp(gate * (vectors_j . W_w + b_w)) - log Z

The model learns to be normalized; evaluators normalize it exactly.

Shape suffixes: K words scored, for each of n tokens (n = 1: the same for all); others as in
`flow.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast, final

import torch
from torch import Tensor
from torch.nn import functional as F

from ablate.errors import ConfigError
from ablate.lm.components import (
    Chance,
    LanguageModel,
    Loss,
    Mixture,
    Pass,
    TrainingText,
    register,
    setting,
)
from ablate.lm.model.cap import capped
from ablate.lm.model.operations import FORWARD_PASSES
from ablate.lm.model.pointer import copied, with_copied


@dataclass(frozen=True, kw_only=True)
class NceConfig:
    """The number of noise words, and whether tokens share them."""

    noise: int = setting(25, doc="number of noise words per target (k)", low=1)
    shared: bool = setting(
        False, doc="share the noise words among all tokens of a window: faster, so k may be larger"
    )
    log_normalizer: float = setting(
        0.0, doc="constant log Z, subtracted from all scores; 0 as in the paper", low=0
    )


class UnigramNoise:
    """p_n: words by their frequency in the training text."""

    def __init__(self, counts_V: Tensor) -> None:
        share_V = counts_V.double() / counts_V.sum()
        self.log_p_V = share_V.log()
        self.cumulative_V = share_V.cumsum(0)

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw words, by the inverse of the cumulative distribution."""
        self._move(generator.device)
        last = self.cumulative_V[-1]
        u = torch.rand(shape, generator=generator, dtype=last.dtype, device=last.device) * last
        # The product may round up to the whole sum, beyond the last word.
        return torch.searchsorted(self.cumulative_V, u, right=True).clamp_(
            max=len(self.log_p_V) - 1
        )

    def _move(self, device: torch.device) -> None:
        self.log_p_V, self.cumulative_V = (
            tensor.to(device) for tensor in (self.log_p_V, self.cumulative_V)
        )


def scores(mixture: Mixture, words_nK: Tensor) -> Tensor:
    """The unnormalized log-probabilities of some words after each token, [N, K]."""
    gate = mixture.gate
    scores_NJK = _products(mixture.vectors_NJE, mixture.weight_VE, mixture.bias_V, words_nK)
    scores_NJK = capped(scores_NJK, mixture.cap)
    if gate is not None:
        gate_N1K = _products(gate.vectors_NG[:, None], gate.weight_VG, gate.bias_V, words_nK)
        scores_NJK = scores_NJK * gate_N1K.sigmoid()
    if mixture.log_prior_NJ is None:
        return scores_NJK.squeeze(1)
    scores_NK = (scores_NJK + mixture.log_prior_NJ[..., None]).logsumexp(1)
    pointer = mixture.pointer
    return with_copied(scores_NK, None if pointer is None else copied(pointer, words_nK))


def nce_loss(
    target_N1: Tensor, noise_NK: Tensor, log_kp_target_N1: Tensor, log_kp_noise_nK: Tensor
) -> Tensor:
    """The loss of the scores, summed over the tokens."""
    from_targets = F.logsigmoid(target_N1 - log_kp_target_N1).sum()
    from_noise = F.logsigmoid(log_kp_noise_nK - noise_NK).sum()
    return -from_targets - from_noise


def _products(x_NJE: Tensor, weight_VE: Tensor, bias_V: Tensor | None, words_nK: Tensor) -> Tensor:
    rows_nKE = F.embedding(words_nK, weight_VE)
    bias_nK = None if bias_V is None else bias_V[words_nK]
    if len(words_nK) == 1:  # shared words: one product of matrices
        return F.linear(x_NJE, rows_nKE[0], None if bias_nK is None else bias_nK[0])
    products_NJK = x_NJE @ rows_nKE.transpose(1, 2)
    return products_NJK if bias_nK is None else products_NJK + bias_nK[:, None]


@register(
    "loss",
    "nce",
    config=NceConfig,
    paper="pachitariu2013irlm",
    equation="Section 5.2 (noise-contrastive estimation, after Mnih and Teh 2012)",
    departures=(
        "the paper leaves k open; 25 is Mnih and Teh's",
        "over mixtures and gates, which the paper does not have, s is the log of the mixture's sum "
        "of unnormalized experts; a pointer adds its probability to that sum",
    ),
)
@final
class Nce(Loss):
    """Scores of 1 + k words per token; never a whole distribution."""

    reads_words = False

    def __init__(self, config: NceConfig, text: TrainingText | None) -> None:
        self.config = config
        # Without a text only parameters are counted.
        self.noise = None if text is None else UnigramNoise(text.counts())

    def __call__(
        self, passed: Pass, targets_N: Tensor, embedding_VE: Tensor, chance: Chance
    ) -> Tensor:
        if self.noise is None:
            raise ConfigError(
                "loss 'nce' draws noise words from a training text, and was built without one. "
                "Instead: assemble(..., text=corpus)."
            )
        words_nK = self._words(len(targets_N), chance)
        log_kp_V = self.noise.log_p_V + math.log(self.config.noise)
        # The noise is in float64, the scores are not.
        log_kp_V = log_kp_V.to(passed.mixture.vectors_NJE.dtype)
        log_z, targets_N1 = self.config.log_normalizer, targets_N[:, None]
        return nce_loss(
            scores(passed.mixture, targets_N1) - log_z,
            scores(passed.mixture, words_nK) - log_z,
            log_kp_V[targets_N1],
            log_kp_V[words_nK],
        )

    def operations(self, model: LanguageModel) -> float:
        """The logits of k + 1 words in place of all."""
        left = (self.config.noise + 1) / model.shapes.vocabulary
        return FORWARD_PASSES * model.logits_operations() * (left - 1)

    def _words(self, num_tokens: int, chance: Chance) -> Tensor:
        """The noise words of every token, or one row of them for all."""
        noise, draws = cast(UnigramNoise, self.noise), chance.generator("nce")
        num_rows = 1 if self.config.shared else num_tokens
        return noise.draw((num_rows, self.config.noise), draws)
