"""Fraternal dropout: predictions under two masks should agree (Zolna et al. 2018, Eq. 3).

    (nll_1 + nll_2) / 2 + kappa * mean((o_1 - o_2)^2)

with o_i the logits of every expert (the paper's pre-softmax outputs), or the last layer's masked
output. Two passes share W and b, so without a gate,

    sum_w (o_1 - o_2)_w^2 = d' (W'W) d,    d = vectors_1 - vectors_2

which needs no tensor [N, J, V]; with a gate the logits are computed in chunks of tokens, and again
for the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ablate.lm.components import LanguageModel, Mixture, Pass, Regularizer, register, setting
from ablate.lm.model.fast.mixture_gradient import token_chunks
from ablate.lm.model.language_model import Embedding
from ablate.lm.model.mixture import expert_logits
from ablate.lm.model.operations import FORWARD_PASSES


@dataclass(frozen=True, kw_only=True)
class FraternalDropoutConfig:
    """The penalty's weight, and the outputs compared. 0 is the identity, without a second pass."""

    kappa: float = setting(0.0, doc="weight of the mean squared difference", low=0)
    on: str = setting(
        "logits",
        doc="what should agree: each expert's logits, or the last layer's masked output",
        choices=("logits", "output"),
    )

    @property
    def off(self) -> bool:
        """Return whether the penalty has no weight."""
        return self.kappa == 0


def mean_squared_difference(first: Tensor, second: Tensor) -> Tensor:
    """Return the mean squared difference of two tensors."""
    return (first - second).square().mean()


def logits_difference(first: Mixture, second: Mixture) -> Tensor:
    """The mean squared difference of two mixtures' logits, over tokens, experts and words."""
    num_tokens, num_experts, _ = first.vectors_NJE.shape
    num_logits = num_tokens * num_experts * first.weight_VE.shape[0]
    plain = all(each.gate is None and each.cap is None for each in (first, second))
    # A tied head's words, if they are made of letters, are another tensor in each pass.
    if plain and first.weight_VE is second.weight_VE:
        difference_KE = (first.vectors_NJE - second.vectors_NJE).flatten(0, 1)
        gram_EE = first.weight_VE.t() @ first.weight_VE
        return (difference_KE @ gram_EE * difference_KE).sum() / num_logits
    sums = [
        checkpoint(
            # Nothing in a chunk is random, so no generator's state need be saved.
            _squared_in_chunk,
            first,
            second,
            rows,
            use_reentrant=False,
            preserve_rng_state=False,
        )
        for rows in token_chunks(first)
    ]
    return torch.stack(sums).sum() / num_logits


def _squared_in_chunk(first: Mixture, second: Mixture, rows: slice) -> Tensor:
    return (expert_logits(first, rows) - expert_logits(second, rows)).square().sum()


def _has_own_logits(model: LanguageModel) -> bool:
    """Whether `logits_difference` needs the logits of every token."""
    if any(True for _ in model.gate.parameters()) or model.head.logit_cap is not None:
        return True
    return model.head.reads_words and not isinstance(model.embedding, Embedding)


@register(
    "regularizer",
    "fraternal_dropout",
    config=FraternalDropoutConfig,
    paper="zolna2018fraternal",
    equation="Eq. 3",
    departures=("for a mixture, every expert's logits are compared, and the priors are not",),
)
@final
class FraternalDropout(Regularizer):
    """A second pass with different masks, which the other regularizers draw."""

    def __init__(self, config: FraternalDropoutConfig) -> None:
        self.config = config
        self.num_passes = 1 if config.off else 2

    def operations(self, model: LanguageModel, tokens: int, passes: int) -> float:
        """W'W, once for all tokens, and d' (W'W); or the logits of both passes, which are
        computed a second time for their gradients."""
        if self.config.off or self.config.on != "logits":
            return 0
        if _has_own_logits(model):
            return 2 * (1 + FORWARD_PASSES) * model.logits_operations()
        vocabulary, width = model.shapes.vocabulary, model.shapes.embedding
        return FORWARD_PASSES * 2 * width**2 * (vocabulary / tokens + model.head.num_experts)

    def between(self, passes: Sequence[Pass]) -> Tensor | None:
        if self.config.off:
            return None
        first, second = passes[:2]
        if self.config.on == "logits":
            return self.config.kappa * logits_difference(first.mixture, second.mixture)
        outputs = (passed.kept(passed.features.masked[-1]) for passed in (first, second))
        return self.config.kappa * mean_squared_difference(*outputs)
