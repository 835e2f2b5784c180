"""One softmax over the vocabulary, its matrix tied to the word vectors or its own.

p = softmax(h W' + b),    W = L when tied (Inan et al. 2017, Eq. 3.9; Press & Wolf 2017)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.components.decoder import Decoder
from ablate.components.flow import Draw, Features, Mixture, Shapes
from ablate.components.head import Head
from ablate.components.regularizer import Masks
from ablate.errors import CombinationError
from ablate.fields import setting
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfig:
    """The output matrix of a single softmax."""

    tied: bool = setting(False, doc="the output matrix is that of the word vectors (RE)")
    bias: bool = setting(True, doc="a bias for every word")
    initial_range: float = setting(
        0.1, doc="an output matrix of its own starts uniform in +- this", low=0
    )
    bias_range: float = setting(
        0.0, doc="the words' biases start uniform in +- this; 0: at 0", low=0
    )


@register("head", "softmax", config=SoftmaxConfig, paper="inan2017tying", equation="Section 3")
@final
class Softmax(Head):
    """A mixture of one component, whose vector is the features' output."""

    def __init__(self, config: SoftmaxConfig, shapes: Shapes) -> None:
        super().__init__()
        if config.tied and shapes.output != shapes.embedding:
            raise CombinationError(
                f"a tied softmax needs vectors as wide as the words': the head reads "
                f"{shapes.output} units, but embedding.size = {shapes.embedding}. Give the last "
                f"layer {shapes.embedding} units (backbone.last_units of an lstm), set "
                f"embedding.size = {shapes.output}, or set head.tied = false."
            )
        self.decoder = Decoder(
            shapes.vocabulary,
            shapes.output,
            tied=config.tied,
            bias=config.bias,
            initial_range=config.initial_range,
            bias_range=config.bias_range,
        )

    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        return Mixture(
            vectors_NJE=features.output_TBH.flatten(0, 1)[:, None],
            log_prior_NJ=None,
            weight_VE=self.decoder.matrix(embedding_VE),
            bias_V=self.decoder.bias,
        )

    def initialize(self, draw: Draw) -> None:
        """The decoder draws its own."""
