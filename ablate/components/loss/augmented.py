"""Cross entropy augmented by what the word vectors say is alike (Inan et al. 2017, Section 3).

J + alpha J_aug, with J_aug = KL(ytilde || yhat) as `components/tempered.py` has it; or, of the
experiment in the paper's Section 6.2,

    beta tau^2 V J_aug + (1 - beta) J

whose second factor keeps the divergence's gradient from vanishing as tau grows (Eq. 3.6). Neither
tau nor alpha is in the paper's text; its later version, as recalled, has tau = 20 and
alpha = gamma tau, with gamma from 0.5 to 0.8 on PTB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.components.flow import Pass, TrainingText
from ablate.components.loss import Loss
from ablate.components.mixture import summed_nll
from ablate.components.regularizer import Chance
from ablate.components.tempered import summed_augmented
from ablate.components.tempered_gradient import Terms
from ablate.errors import CombinationError
from ablate.fields import setting
from ablate.registry import register

HOTTEST, COLDEST = 1e6, 1e-3


@dataclass(frozen=True, kw_only=True)
class AugmentedConfig:
    """How much of the divergence, and how soft its targets. Weight 0 leaves cross entropy."""

    temperature: float = setting(
        20.0, doc="tau: the larger, the softer both distributions", low=COLDEST, high=HOTTEST
    )
    weight: float = setting(
        10.0, doc="alpha, or beta (at most 1) in the form of Section 6.2", low=0
    )
    detach: bool = setting(True, doc="no gradient through the soft targets (Eq. 3.4)")
    form: str = setting(
        "standard",
        doc="J + alpha J_aug, or beta tau^2 V J_aug + (1 - beta) J",
        choices=("standard", "section_6_2"),
    )


def terms_of(config: AugmentedConfig, num_words: int) -> Terms:
    """The weights of J and J_aug."""
    of_nll, of_divergence = 1.0, config.weight
    if config.form == "section_6_2":
        of_nll = 1 - config.weight
        of_divergence = config.weight * config.temperature**2 * num_words
    return Terms(
        temperature=config.temperature,
        of_nll=of_nll,
        of_divergence=of_divergence,
        detach=config.detach,
    )


@register(
    "loss",
    "augmented",
    config=AugmentedConfig,
    paper="inan2017tying",
    equation="Eq. 3.1-3.7; Section 6.2 for the form of that name",
    departures=(
        "over a mixture of softmaxes, which the paper has none of, yhat is the mixture of the "
        "tempered components",
        "detach = false lets the gradient through the soft targets, which the paper's Eq. 3.4 "
        "takes for constants",
    ),
)
@final
class Augmented(Loss):
    """J and J_aug from one product of the output matrix; no bias in J_aug."""

    def __init__(self, config: AugmentedConfig, text: TrainingText | None) -> None:
        if config.form == "section_6_2" and config.weight > 1:
            raise CombinationError(
                f"loss.form = 'section_6_2' weighs J by 1 - loss.weight, and loss.weight = "
                f"{config.weight:g}. Allowed: a weight from 0 to 1, or loss.form = 'standard'."
            )
        self.config = config

    def __call__(
        self, passed: Pass, targets_N: Tensor, embedding_VE: Tensor, chance: Chance
    ) -> Tensor:
        if self.config.weight == 0:
            return summed_nll(passed.mixture, targets_N)
        terms = terms_of(self.config, len(embedding_VE))
        return summed_augmented(passed.mixture, targets_N, embedding_VE, terms)
