"""Direct output connection: a mixture of softmaxes fed by several layers (Takase et al. 2018).

    P = sum_j prior_j softmax(k_j W' + b)      Eq. 4-5
    prior = softmax(h^N W_prior')              Eq. 6, all J of them from the last layer
    k_j = h^n W_j', i_n of them from layer n   Eq. 7-9, 11; layer 0 is the embedded input

The components of the last layer come first. With all of them there it is the mixture of
softmaxes, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from ablate.components.decoder import Decoder
from ablate.components.flow import Draw, Features, Mixture, Shapes
from ablate.components.head import Head
from ablate.components.head.mos import mixture_of
from ablate.components.projection import Projection
from ablate.components.regularizer import Masks
from ablate.errors import CombinationError
from ablate.fields import setting
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class DocConfig:
    """The components each layer feeds and the output matrix they share."""

    experts: tuple[int, ...] = setting(
        (15, 5), doc="components of each layer, last layer first, the word vectors last", low=0
    )
    latent_activation: str = setting(
        "tanh", doc="on the components' vectors; Eq. 11 prints none", choices=("tanh", "none")
    )
    latent_bias: bool = setting(True, doc="a bias in the components' vectors; Eq. 11 has none")
    tied: bool = setting(True, doc="the output matrix is that of the word vectors")
    bias: bool = setting(True, doc="a bias for every word")
    initial_range: float = setting(
        0.1, doc="an output matrix of its own starts uniform in +- this", low=0
    )
    bias_range: float = setting(
        0.0, doc="the words' biases start uniform in +- this; 0: at 0", low=0
    )
    floor: float = setting(
        0.0, doc="added to every probability: the public code adds 1e-8, in evaluation too", low=0
    )


def experts_by_layer(experts: tuple[int, ...], num_layers: int) -> dict[int, int]:
    """Layer -> components, last layer first, without those that have none; 0 is the embedding."""
    found = {num_layers - below: count for below, count in enumerate(experts) if count}
    if not found:
        raise CombinationError(
            f"head.experts = {list(experts)} gives no layer a component. Allowed: one at least."
        )
    lowest = min(found)
    if lowest < 0:
        raise CombinationError(
            f"head.experts = {list(experts)} asks for a layer {-lowest} below the embedded input: "
            f"the backbone has {num_layers} layers, so experts may name {num_layers + 1} (last "
            f"layer first, the word vectors last). Shorten it, or raise backbone.num_layers."
        )
    return found


@register(
    "head",
    "doc",
    config=DocConfig,
    paper="takase2018doc",
    equation="Eq. 4-9, 11",
    departures=(
        "log p is exact by default; the MoS code that DOC's derives from takes log(p + 1e-8)",
        "tanh and a bias on the components' vectors by default, as in the MoS that DOC with all "
        "components on the last layer must be; Eq. 11 prints neither",
        "with a bridge, the last layer is what the bridge hands on",
    ),
)
@final
class Doc(Head):
    """Components from any layers, read after their masks; mask site "latent" on all of them."""

    def __init__(self, config: DocConfig, shapes: Shapes) -> None:
        super().__init__()
        num_layers = len(shapes.layers)
        self.experts = experts_by_layer(config.experts, num_layers)
        self.num_layers = num_layers
        self.activation, self.floor = config.latent_activation, config.floor
        widths = (shapes.embedding, *shapes.layers[:-1], shapes.output)
        for layer, count in self.experts.items():
            latent = Projection(widths[layer], count * shapes.embedding, bias=config.latent_bias)
            self.add_module(self._latent(layer), latent)
        self.num_components = sum(self.experts.values())
        self.prior = Projection(shapes.output, self.num_components, bias=False)
        self.decoder = Decoder(
            shapes.vocabulary,
            shapes.embedding,
            tied=config.tied,
            bias=config.bias,
            initial_range=config.initial_range,
            bias_range=config.bias_range,
        )

    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        latents = [self._vectors(features, layer) for layer in self.experts]
        latent_TBK = masks("latent", torch.cat(latents, -1))
        prior_logits_TBJ = self.prior(features.output_TBH)
        weight_VE = self.decoder.matrix(embedding_VE)
        return mixture_of(latent_TBK, prior_logits_TBJ, weight_VE, self.decoder.bias, self.floor)

    def initialize(self, draw: Draw) -> None:
        """The parts draw their own."""

    def _vectors(self, features: Features, layer: int) -> Tensor:
        last = layer == self.num_layers
        h_TBH = features.output_TBH if last else features.layer(layer)
        latent = self.get_submodule(self._latent(layer))(h_TBH)
        return latent.tanh() if self.activation == "tanh" else latent

    def _latent(self, layer: int) -> str:
        """Named by the distance from the last layer, so that depths and MoS share their draws."""
        return f"latent_{self.num_layers - layer}"
