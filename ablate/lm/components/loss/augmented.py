"""Cross entropy plus a divergence from word-similarity targets (Inan et al. 2017, Section 3).

J + alpha J_aug, with J_aug = KL(ytilde || yhat) as defined in `model/fast/tempered.py`; or, as in
the experiment of the paper's Section 6.2,

    beta tau^2 V J_aug + (1 - beta) J

whose factor tau^2 keeps the divergence's gradient from vanishing as tau grows (Eq. 4.3). The
paper's text gives neither tau nor alpha; its later version, from memory, has tau = 20 and
alpha = gamma tau, with gamma from 0.5 to 0.8 on PTB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.lm.components import (
    Chance,
    CombinationError,
    LanguageModel,
    Loss,
    Pass,
    TrainingText,
    register,
    setting,
)
from ablate.lm.model.cap import check_uncapped
from ablate.lm.model.fast.tempered import summed_augmented
from ablate.lm.model.fast.tempered_gradient import Terms
from ablate.lm.model.mixture import summed_nll
from ablate.lm.model.operations import FORWARD_PASSES

HOTTEST, COLDEST = 1e6, 1e-3


@dataclass(frozen=True, kw_only=True)
class AugmentedConfig:
    """The divergence's weight and temperature. With weight 0 this is cross entropy."""

    temperature: float = setting(
        20.0, doc="tau: larger makes both distributions softer", low=COLDEST, high=HOTTEST
    )
    weight: float = setting(10.0, doc="alpha, or beta (at most 1) with form = 'section_6_2'", low=0)
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
        "over a mixture of softmaxes, which the paper does not have, yhat is the mixture of the "
        "tempered experts",
        "detach = false lets the gradient through the soft targets, which are constants in the "
        "paper's Eq. 3.4",
    ),
)
@final
class Augmented(Loss):
    """J and J_aug from one product of the output matrix; no bias in J_aug."""

    def __init__(self, config: AugmentedConfig, text: TrainingText | None) -> None:
        if config.form == "section_6_2" and config.weight > 1:
            raise CombinationError(
                f"loss.form = 'section_6_2' weights J by 1 - loss.weight, and loss.weight = "
                f"{config.weight:g}. Instead: a weight from 0 to 1, or loss.form = 'standard'."
            )
        self.config = config

    def check(self, model: LanguageModel) -> None:
        if self.config.weight:
            check_uncapped(
                model.head.logit_cap,
                f"loss.weight = {self.config.weight:g} of 'augmented'",
                "loss = 'cross_entropy'",
            )

    def __call__(
        self, passed: Pass, targets_N: Tensor, embedding_VE: Tensor, chance: Chance
    ) -> Tensor:
        if self.config.weight == 0:
            return summed_nll(passed.mixture, targets_N)
        terms = terms_of(self.config, len(embedding_VE))
        return summed_augmented(passed.mixture, targets_N, embedding_VE, terms)

    def operations(self, model: LanguageModel) -> float:
        """L L_y of every token, at most: one softmax takes it once for equal targets of a chunk."""
        if self.config.weight == 0:
            return 0
        passes = 1 if self.config.detach else FORWARD_PASSES
        return passes * 2 * model.shapes.vocabulary * model.shapes.embedding
