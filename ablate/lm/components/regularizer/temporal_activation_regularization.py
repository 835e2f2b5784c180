"""TAR: keeps the last layer's outputs slow (Merity et al. 2018, Section 4.6, second formula).

beta * mean((h_{t+1} - h_t)^2),    over every element of the raw output of the last layer, except
                                   where t + 1 fills up a shorter sentence
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor, nn

from ablate.lm.components import Pass, Regularizer, register, setting


@dataclass(frozen=True, kw_only=True)
class TemporalActivationRegularizationConfig:
    """The penalty's weight. 0 is the identity."""

    beta: float = setting(0.0, doc="weight of the mean square difference", low=0)


def mean_square_difference(passed: Pass) -> Tensor | None:
    """The mean over all elements of the squared change from one step to the next, if any."""
    raw_TBH = passed.features.raw[-1]
    # A change belongs to its later step: into filling it does not count.
    changes = passed.kept(raw_TBH[1:] - raw_TBH[:-1], since=1)
    return changes.pow(2).mean() if changes.numel() else None


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
        mean = None if self.beta == 0 else mean_square_difference(passed)
        return None if mean is None else self.beta * mean
