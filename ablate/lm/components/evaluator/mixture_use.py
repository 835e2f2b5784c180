"""How evenly a mixture uses its experts (Takase et al. 2018, Table 4).

    sqrt(beta) = std(p) / mean(p),    p_j = mean over the split's tokens of expert j's prior

the square root of the beta of Eq. 12-13 over a whole split; 0 if all experts are used equally. The
standard deviation is that of the experts as a whole population. An ensemble has no such number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from ablate.config.metrics import VARIATION
from ablate.lm.components import (
    CombinationError,
    Evaluator,
    LanguageModel,
    Pass,
    Reading,
    register,
    setting,
)
from ablate.lm.components.regularizer.mixture_balance import squared_variation_of_paper
from ablate.lm.model.evaluator import no_log_probs
from ablate.lm.model.reading import read


@dataclass(frozen=True, kw_only=True)
class MixtureUseConfig:
    """How a split is read."""

    rows: int = setting(10, doc="rows to read in parallel, each from a zero state", low=1)


def mean_prior(passed: Iterable[Pass]) -> Tensor | None:
    """The mean prior of each expert over all tokens, [J]; None if there is one softmax."""
    total, num = torch.zeros((), dtype=torch.float64), 0
    for each in passed:
        log_prior_NJ = each.mixture.log_prior_NJ
        if log_prior_NJ is None:
            return None
        total = total + log_prior_NJ.double().exp().sum(0).cpu()
        num += len(log_prior_NJ)
    return total / num


def coefficient_of_variation(prior_J: Tensor) -> float:
    """std / mean of the experts' (mean, or summed) priors."""
    return float(squared_variation_of_paper(prior_J[None, None]).sqrt())


@register(
    "evaluator",
    "mixture_use",
    config=MixtureUseConfig,
    paper="takase2018doc",
    equation="Table 4, Eq. 12-13",
    metrics=(VARIATION,),
)
@final
class MixtureUse(Evaluator):
    """The coefficient of variation of a mixture's mean priors."""

    gives_log_probs = False

    def __init__(self, config: MixtureUseConfig) -> None:
        self.config = config

    def check(self, model: LanguageModel) -> None:
        if not model.members and model.head.num_experts == 1:
            raise CombinationError(
                "evaluator.mixture_use: the head is one softmax, and has no experts to use evenly "
                "or not. Instead: a head with several experts (mos, doc), or the evaluator only "
                "in arms that have one."
            )

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        raise no_log_probs("mixture_use", "measures priors")

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        if len(reading.models) > 1:
            return {}
        (model,) = reading.models
        prior_J = mean_prior(read(model, reading.stream(split), self.config.rows))
        return {VARIATION.name: 0.0 if prior_J is None else coefficient_of_variation(prior_J)}
