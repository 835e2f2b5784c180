"""L2 on activations: Keras' activity regularizer on the recurrent layers' outputs.

weight * sum(h^2) / B,    over every step, row and unit of every layer, before masks; B rows.
                          What fills up shorter sentences does not count

(Oliva & Lago-Fernandez 2021, Table 3.) A sum, where AR takes a mean over the last layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from ablate.lm.components import Pass, Regularizer, register, setting


@dataclass(frozen=True, kw_only=True)
class ActivationL2Config:
    """The penalty's weight. 0 is the identity."""

    weight: float = setting(0.0, doc="weight of the sum of squares per row of the batch", low=0)


def squares_per_row(passed: Pass) -> Tensor:
    """The layers' squared outputs, averaged over rows and summed over everything else."""
    layers = passed.features.raw
    return torch.stack([passed.kept(x).square().sum() / x.shape[1] for x in layers]).sum()


@register(
    "regularizer",
    "activation_l2",
    config=ActivationL2Config,
    paper="oliva2021dual",
    equation="Table 3 (Activation L2reg)",
    departures=("the layers and the average are those of Keras; the paper names neither",),
)
@final
class ActivationL2(Regularizer):
    """A penalty on every layer's output."""

    def __init__(self, config: ActivationL2Config) -> None:
        self.weight_of_penalty = config.weight

    def penalty(self, passed: Pass, model: nn.Module) -> Tensor | None:
        if self.weight_of_penalty == 0:
            return None
        return self.weight_of_penalty * squares_per_row(passed)
