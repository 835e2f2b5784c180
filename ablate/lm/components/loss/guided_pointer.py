"""Cross entropy, and the same for the pointer by itself (Merity et al. 2017).

    -log p(y) - weight * log(g + sum over i with x_i = y of a_i)

The second term asks the pointer to look at the target where it was read before, and at its sentinel
where it was not. Source: from memory of the paper, with weight 1.
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
from ablate.lm.model.flow import Mixture
from ablate.lm.model.mixture import summed_nll
from ablate.lm.model.pointer import copied_targets, with_copied


@dataclass(frozen=True, kw_only=True)
class GuidedPointerConfig:
    """With weight 0 this is cross entropy."""

    weight: float = setting(1.0, doc="of the pointer's own term", low=0)


def pointer_nll(mixture: Mixture, targets_N: Tensor) -> Tensor:
    """-sum log(g + sum of the a_i at the targets)."""
    log_g_NJ = mixture.log_prior_NJ
    if log_g_NJ is None:  # without a pointer, g is 1
        return mixture.vectors_NJE.new_zeros(())
    return -with_copied(log_g_NJ.logsumexp(1), copied_targets(mixture, targets_N)).sum()


@register(
    "loss",
    "guided_pointer",
    config=GuidedPointerConfig,
    paper="merity2017pointer",
    equation="the supervised pointer's loss, from memory",
)
@final
class GuidedPointer(Loss):
    """Both terms, summed over the tokens; refuses a head without a pointer."""

    reads_words = False

    def __init__(self, config: GuidedPointerConfig, text: TrainingText | None) -> None:
        self.config = config

    def check(self, model: LanguageModel) -> None:
        if self.config.weight and not model.head.points:
            raise CombinationError(
                f"loss.weight = {self.config.weight:g} of 'guided_pointer' trains a pointer, and "
                "the head has none. Instead: head = 'pointer_sentinel', or loss = 'cross_entropy'."
            )

    def __call__(
        self, passed: Pass, targets_N: Tensor, embedding_VE: Tensor, chance: Chance
    ) -> Tensor:
        nll = summed_nll(passed.mixture, targets_N)
        if self.config.weight == 0:
            return nll
        return nll + self.config.weight * pointer_nll(passed.mixture, targets_N)
