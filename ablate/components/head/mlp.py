"""A softmax over a hidden layer: the "NN output" of Pachitariu & Sahani 2013, Table 1a.

p = softmax(f(h W_hidden' + b_hidden) W' + b),    W = L when tied
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.components.activation import ACTIVATIONS, Activation
from ablate.components.decoder import Decoder
from ablate.components.flow import Draw, Features, Mixture, Shapes
from ablate.components.head import Head
from ablate.components.projection import Projection
from ablate.components.regularizer import Masks
from ablate.errors import CombinationError
from ablate.fields import setting
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class MlpConfig:
    """The hidden layer, and the output matrix after it."""

    units: int = setting(512, doc="units of the hidden layer", low=1)
    activation: str = setting("relu", doc="of the hidden layer", choices=ACTIVATIONS)
    smoothing: float = setting(
        1.0, doc="the a of the smoothed rectifier max(0, x - a tanh(x / a))", low=1e-6
    )
    hidden_bias: bool = setting(True, doc="a bias for every hidden unit")
    tied: bool = setting(False, doc="the output matrix is that of the word vectors")
    bias: bool = setting(True, doc="a bias for every word")
    initial_range: float = setting(
        0.1, doc="an output matrix of its own starts uniform in +- this", low=0
    )
    bias_range: float = setting(
        0.0, doc="the words' biases start uniform in +- this; 0: at 0", low=0
    )


@register(
    "head",
    "mlp",
    config=MlpConfig,
    paper="pachitariu2013irlm",
    equation="IRLM w/ NN output of Table 1a",
    departures=("the paper tells neither the units nor the nonlinearity of its hidden layer",),
)
@final
class Mlp(Head):
    """A mixture of one component, whose vector is the hidden layer; mask site "latent" on it."""

    def __init__(self, config: MlpConfig, shapes: Shapes) -> None:
        super().__init__()
        if config.tied and config.units != shapes.embedding:
            raise CombinationError(
                f"a tied mlp needs a hidden layer as wide as the word vectors: head.units = "
                f"{config.units}, but embedding.size = {shapes.embedding}. Set head.units = "
                f"{shapes.embedding}, embedding.size = {config.units}, or head.tied = false."
            )
        self.f = Activation(config.activation, config.smoothing)
        self.hidden = Projection(shapes.output, config.units, bias=config.hidden_bias)
        self.decoder = Decoder(
            shapes.vocabulary,
            config.units,
            tied=config.tied,
            bias=config.bias,
            initial_range=config.initial_range,
            bias_range=config.bias_range,
        )

    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        hidden_TBH = masks("latent", self.f(self.hidden(features.output_TBH)))
        return Mixture(
            vectors_NJE=hidden_TBH.flatten(0, 1)[:, None],
            log_prior_NJ=None,
            weight_VE=self.decoder.matrix(embedding_VE),
            bias_V=self.decoder.bias,
        )

    def initialize(self, draw: Draw) -> None:
        """The parts draw their own."""
