"""AR: keeps the last layer's outputs small (Merity et al. 2018, Section 4.6, first formula).

alpha * mean((m * h_t)^2),    over every element of the masked output of the last layer, except
                              where it fills up shorter sentences
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor, nn

from ablate.lm.components import Pass, Regularizer, register, setting


@dataclass(frozen=True, kw_only=True)
class ActivationRegularizationConfig:
    """The penalty's weight. 0 is the identity."""

    alpha: float = setting(0.0, doc="weight of the mean square", low=0)


def mean_square(masked: Tensor) -> Tensor:
    """The mean over all elements; the paper has a norm, its code has this."""
    return masked.pow(2).mean()


@register(
    "regularizer",
    "activation_regularization",
    config=ActivationRegularizationConfig,
    paper="merity2018awd",
    equation="Section 4.6 (AR)",
    departures=("the mean square of the authors' code, not the L2 norm that the paper prints",),
)
@final
class ActivationRegularization(Regularizer):
    """A penalty on the last layer's output, after its mask."""

    def __init__(self, config: ActivationRegularizationConfig) -> None:
        self.alpha = config.alpha

    def penalty(self, passed: Pass, model: nn.Module) -> Tensor | None:
        if self.alpha == 0:
            return None
        return self.alpha * mean_square(passed.kept(passed.features.masked[-1]))
