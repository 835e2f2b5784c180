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

from torch import Tensor, nn

from ablate.components import CombinationError, LanguageModel, Pass, Regularizer, register, setting


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
        return self.weight == 0


def squared_variation_of_paper(prior_TBJ: Tensor) -> Tensor:
    """(std/mean)^2 of the J priors summed over the batch."""
    sum_J = prior_TBJ.sum((0, 1))
    return sum_J.var(correction=0) / sum_J.mean().square()


def squared_variation_of_code(prior_TBJ: Tensor) -> Tensor:
    """The unbiased variance of the B*J priors summed over time, times (J - 1)/mean^2."""
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
        prior_TBJ = log_prior_NJ.exp().unflatten(0, passed.features.ids_TB.shape)
        return self.weight_of_penalty * self.variation(prior_TBJ)
