"""A softmax over a hidden layer: the "NN output" of Pachitariu & Sahani 2013, Table 1a.

p = softmax(f(h W_hidden' + b_hidden) W' + b),    W = L when tied
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.errors import CombinationError
from ablate.lm.components import Features, Head, Masks, Mixture, Shapes, register, setting
from ablate.lm.model.activation import ACTIVATIONS, Activation
from ablate.lm.model.decoder import Decoder, OutputConfig
from ablate.lm.model.projection import Projection


@dataclass(frozen=True, kw_only=True)
class HiddenLayerConfig:
    """The hidden layer."""

    units: int = setting(512, doc="units of the hidden layer", low=1)
    activation: str = setting("relu", doc="nonlinearity f of the hidden layer", choices=ACTIVATIONS)
    smoothing: float = setting(
        1.0, doc="a in the smoothed rectifier max(0, x - a tanh(x / a))", low=1e-6
    )
    hidden_bias: bool = setting(True, doc="one bias per hidden unit")


@dataclass(frozen=True, kw_only=True)
class MlpConfig(OutputConfig, HiddenLayerConfig):  # the fields of the last base come first
    """The hidden layer, and the output matrix after it."""


@register(
    "head",
    "mlp",
    config=MlpConfig,
    paper="pachitariu2013irlm",
    equation="IRLM w/ NN output of Table 1a",
    departures=("the paper gives neither the size nor the nonlinearity of its hidden layer",),
)
@final
class Mlp(Head):
    """A mixture with one expert, whose vector is the hidden layer. Mask site: "latent"."""

    sites = frozenset({"latent"})

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
        self.decoder = Decoder(shapes.vocabulary, config.units, config)

    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        hidden_TBH = masks("latent", self.f(self.hidden(features.output_TBH)))
        return Mixture(
            vectors_NJE=hidden_TBH.flatten(0, 1)[:, None],
            log_prior_NJ=None,
            weight_VE=self.decoder.matrix(embedding_VE),
            bias_V=self.decoder.bias,
        )
