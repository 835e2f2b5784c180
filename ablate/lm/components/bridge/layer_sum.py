"""The head reads the sum of all layers' outputs: connections that skip layers (Melis et al. 2018).

    s = m * (h^1 + ... + h^n),    y = softmax(E s)        m: the mask of the site "output"
    s = m' * W (m * (h^1 + ... + h^n))                    with `units`, W without a bias

Each layer reads the layer below as usual. All of this is read in the authors' code (lamb): the
papers draw the connections only. There, too, the same rate masks the sum and what W makes of it.
Open: whether the published row without W and the one with it were trained by the same version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import (
    Bridge,
    CombinationError,
    Draw,
    Features,
    Masks,
    Shapes,
    register,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class LayerSumConfig:
    """The units that the sum is projected to, if any."""

    units: int | None = setting(
        None, doc="project the sum, without a bias, to N units; none: no projection", low=1
    )


@register(
    "bridge",
    "layer_sum",
    config=LayerSumConfig,
    paper="melis2018",
    equation="the skip connections of its LSTMs, as in the authors' code (lamb)",
    departures=(
        "as in the authors' code; the paper does not write the sum down",
        "the projection's rows, or columns if they are fewer, start orthonormal",
    ),
)
@final
class LayerSum(Bridge):
    """Reads every layer's output before its mask."""

    def __init__(self, config: LayerSumConfig, shapes: Shapes) -> None:
        super().__init__()
        if len(set(shapes.layers)) > 1:
            raise CombinationError(
                "bridge = 'layer_sum' adds up the layers' outputs, and they have different units: "
                f"{', '.join(map(str, shapes.layers))}. Instead: the same units for all layers."
            )
        summed = shapes.layers[-1]
        self.width = config.units or summed
        projects = config.units is not None
        self.weight = nn.Parameter(torch.empty(self.width, summed)) if projects else None

    def forward(self, features: Features, masks: Masks) -> Features:
        # Outputs before masks, since m acts on their sum alone.
        output = masks("output", layer_sum(features.raw))
        if self.weight is not None:
            output = masks("output/projected", F.linear(output, self.weight))
        return replace(features, output_TBH=output)

    def initialize(self, draw: Draw) -> None:
        if self.weight is not None:
            nn.init.orthogonal_(self.weight, generator=draw("weight"))


def layer_sum(layers: tuple[Tensor, ...]) -> Tensor:
    """h^1 + ... + h^n."""
    return torch.stack(layers).sum(0)
