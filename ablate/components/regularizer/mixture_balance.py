"""Keeps a mixture's components in use evenly, by the variation of their priors.

Takase et al. 2018 print, with p_j the prior of component j summed over the mini-batch (their
"beta", weighted by lambda_beta),

    (std(p) / mean(p))^2

while their code sums over time alone and so penalises each row's uneven use, too:

    var(p_BJ) (J - 1) / mean(p_BJ)^2,    var unbiased, over all B*J entries

which is J - 1 times larger or more. The code's made the published tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from torch import Tensor, nn

from ablate.components.flow import Pass
from ablate.components.regularizer import Regularizer
from ablate.errors import CombinationError
from ablate.fields import setting
from ablate.registry import register

if TYPE_CHECKING:
    from ablate.model import LanguageModel


@dataclass(frozen=True, kw_only=True)
class MixtureBalanceConfig:
    """How much, and which of the two formulas. 0 is the identity."""

    weight: float = setting(0.0, doc="lambda_beta, the penalty's weight", low=0)
    mode: str = setting(
        "code", doc="the authors' code, or the formula they print", choices=("code", "paper")
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
    equation="Section 3.3 (the coefficient of variation, lambda_beta)",
    departures=(
        "mode 'paper' takes std over the J components as a whole population, which the paper "
        "leaves open",
    ),
)
@final
class MixtureBalance(Regularizer):
    """A penalty for mixtures; refuses a head of one component, which has nothing to balance."""

    def __init__(self, config: MixtureBalanceConfig) -> None:
        self.weight_of_penalty = config.weight
        of_code = config.mode == "code"
        self.variation = squared_variation_of_code if of_code else squared_variation_of_paper

    def check(self, model: LanguageModel) -> None:
        if self.weight_of_penalty and model.head.num_components < 2:
            raise CombinationError(
                f"regularizer.mixture_balance.weight = {self.weight_of_penalty:g} balances the "
                "components of a mixture, and the head has one component. Choose a head of "
                "several (head = 'mos' or 'doc'), or set the weight to 0."
            )

    def penalty(self, passed: Pass, model: nn.Module) -> Tensor | None:
        log_prior_NJ = passed.mixture.log_prior_NJ
        if self.weight_of_penalty == 0 or log_prior_NJ is None:
            return None
        prior_TBJ = log_prior_NJ.exp().unflatten(0, passed.features.ids_TB.shape)
        return self.weight_of_penalty * self.variation(prior_TBJ)
