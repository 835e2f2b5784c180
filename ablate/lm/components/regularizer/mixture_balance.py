"""Keeps the use of a mixture's experts even, by penalizing the variation of their priors.

Takase et al. 2018 print (Section 4, Eq. 12-13), with p_j the prior of expert j summed over the
mini-batch (their "beta", weighted by lambda_beta),

    (std(p) / mean(p))^2

while their code sums over time only and so also penalizes uneven use within each row:

    var(p_BJ) (J - 1) / mean(p_BJ)^2,    var unbiased, over all B*J entries

which is at least J - 1 times larger. The published tables come from the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from ablate.lm.components import (
    CombinationError,
    LanguageModel,
    Pass,
    Regularizer,
    register,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class MixtureBalanceConfig:
    """The penalty's weight, and which of the two formulas. 0 is the identity."""

    weight: float = setting(0.0, doc="lambda_beta, the penalty's weight", low=0)
    mode: str = setting(
        "code",
        doc="the formula of the authors' code, or the printed one",
        choices=("code", "paper"),
    )

    @property
    def off(self) -> bool:
        """Return whether the penalty has no weight."""
        return self.weight == 0


def squared_variation_of_paper(prior_TBJ: Tensor) -> Tensor:
    """(std/mean)^2 of the J priors summed over the batch."""
    sum_J = prior_TBJ.sum((0, 1))
    return sum_J.var(correction=0) / sum_J.mean().square()


def squared_variation_of_code(prior_TBJ: Tensor) -> Tensor:
    """The unbiased variance of the B*J priors summed over time, times (J - 1)/mean^2.

    Their means over time give the same number.
    """
    sum_BJ = prior_TBJ.sum(0)
    return sum_BJ.var() * (sum_BJ.shape[1] - 1) / sum_BJ.mean().square()


@register(
    "regularizer",
    "mixture_balance",
    config=MixtureBalanceConfig,
    paper="takase2018doc",
    equation="Section 4, Eq. 12-13 (the coefficient of variation, lambda_beta)",
    departures=(
        "mode 'paper' computes std over the J experts as a whole population, which the paper "
        "leaves open",
        "of sentences of different lengths, mode 'code' takes each one's mean over its tokens, "
        "which is the same if the lengths are equal",
    ),
)
@final
class MixtureBalance(Regularizer):
    """A penalty for mixtures; refuses a head with one expert, which has nothing to balance."""

    def __init__(self, config: MixtureBalanceConfig) -> None:
        self.weight_of_penalty = config.weight
        from_code = config.mode == "code"
        self.variation = squared_variation_of_code if from_code else squared_variation_of_paper

    def check(self, model: LanguageModel) -> None:
        if self.weight_of_penalty and model.head.num_experts < 2:
            raise CombinationError(
                f"regularizer.mixture_balance.weight = {self.weight_of_penalty:g} balances the "
                "experts of a mixture, and the head has one expert. Instead: a head with several "
                "(head = 'mos' or 'doc'), or regularizer.mixture_balance.weight = 0."
            )

    def penalty(self, passed: Pass, model: nn.Module) -> Tensor | None:
        log_prior_NJ = passed.mixture.log_prior_NJ
        if self.weight_of_penalty == 0 or log_prior_NJ is None:
            return None
        return self.weight_of_penalty * self.variation(self._priors(log_prior_NJ.exp(), passed))

    def _priors(self, prior_NJ: Tensor, passed: Pass) -> Tensor:
        """The priors by step and row; of sentences, their means or one long row."""
        steps, rows = passed.features.ids_TB.shape
        if passed.kept_N is None:
            return prior_NJ.unflatten(0, (steps, rows))
        if self.variation is squared_variation_of_paper:
            return prior_NJ[None]  # the paper's sum is over steps and rows alike
        row_N = passed.kept_N % rows
        sum_BJ = prior_NJ.new_zeros(rows, prior_NJ.shape[1]).index_add(0, row_N, prior_NJ)
        # Not `bincount`, which waits for a GPU to learn how long its result is.
        num_B = prior_NJ.new_zeros(rows).index_add(0, row_N, torch.ones_like(prior_NJ[:, 0]))
        return (sum_BJ / num_B[:, None])[None]
