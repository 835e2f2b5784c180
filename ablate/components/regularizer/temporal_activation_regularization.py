"""TAR: keeps the last layer's outputs slow (Merity et al. 2018, Section 4.6, second formula).

beta * mean((h_{t+1} - h_t)^2),    over every element of the raw output of the last layer
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor, nn

from ablate.components import Pass, Regularizer, register, setting


@dataclass(frozen=True, kw_only=True)
class TemporalActivationRegularizationConfig:
    """The penalty's weight. 0 is the identity."""

    beta: float = setting(0.0, doc="weight of the mean square difference", low=0)


def mean_square_difference(raw_TBH: Tensor) -> Tensor:
    """The mean over all elements of the squared change from one step to the next."""
    return (raw_TBH[1:] - raw_TBH[:-1]).pow(2).mean()


@register(
    "regularizer",
    "temporal_activation_regularization",
    config=TemporalActivationRegularizationConfig,
    paper="merity2018awd",
    equation="Section 4.6 (TAR)",
    departures=(
        "the mean square of the authors' code, not the L2 norm that the paper prints",
        "a window of one step has no penalty; the authors' code would give NaN",
    ),
)
@final
class TemporalActivationRegularization(Regularizer):
    """A penalty on the last layer's output, before its mask."""

    def __init__(self, config: TemporalActivationRegularizationConfig) -> None:
        self.beta = config.beta

    def penalty(self, passed: Pass, model: nn.Module) -> Tensor | None:
        raw_TBH = passed.features.raw[-1]
        if self.beta == 0 or raw_TBH.shape[0] < 2:
            return None
        return self.beta * mean_square_difference(raw_TBH)
