"""Direct output connection: a mixture of softmaxes fed by several layers (Takase et al. 2018).

    P = sum_j prior_j softmax(k_j W' + b)      Eq. 7-8
    prior = softmax(h^N W_prior')              Eq. 10, all J of them from the last layer
    k_j = h^n W_j', i_n of them from layer n   Eq. 11; layer 0 is the embedded input

The experts of the last layer come first. If all experts read the last layer, this is the mixture
of softmaxes (mos), bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from ablate.errors import CombinationError
from ablate.lm.components import Features, Head, Masks, Mixture, Shapes, register, setting
from ablate.lm.components.head.mos import mixture_of
from ablate.lm.model.decoder import Decoder, MixtureOutputConfig
from ablate.lm.model.projection import Projection


@dataclass(frozen=True, kw_only=True)
class DocExpertsConfig:
    """The experts, and the layers they read."""

    experts: tuple[int, ...] = setting(
        (15, 5), doc="number of experts per layer: last layer first, word vectors last", low=0
    )
    latent_activation: str = setting(
        "tanh",
        doc="nonlinearity of the experts' vectors (Eq. 11 has none)",
        choices=("tanh", "none"),
    )
    latent_bias: bool = setting(True, doc="add a bias to the experts' vectors (Eq. 11 has none)")


@dataclass(frozen=True, kw_only=True)
class DocConfig(MixtureOutputConfig, DocExpertsConfig):  # the fields of the last base come first
    """The experts that each layer feeds and the output matrix they share."""


def experts_by_layer(experts: tuple[int, ...], num_layers: int) -> dict[int, int]:
    """Map each layer that feeds experts to their number, last layer first; 0 is the embedding."""
    by_layer = {num_layers - below: count for below, count in enumerate(experts) if count}
    if not by_layer:
        raise CombinationError(
            f"head.experts = {list(experts)} has no experts. At least one layer needs an expert."
        )
    lowest = min(by_layer)
    if lowest < 0:
        raise CombinationError(
            f"head.experts = {list(experts)} reads a layer {-lowest} below the word vectors: the "
            f"backbone has {num_layers} layers, so experts takes at most {num_layers + 1} numbers "
            "(last layer first, word vectors last). Instead: shorten it, or raise "
            "backbone.num_layers."
        )
    return by_layer


@register(
    "head",
    "doc",
    config=DocConfig,
    paper="takase2018doc",
    equation="Eq. 7, 8, 10, 11",
    departures=(
        "log p is exact by default; the MoS code that DOC's derives from takes log(p + 1e-8)",
        "tanh and a bias on the experts' vectors by default, because DOC with all experts on the "
        "last layer must equal MoS, which has both; Eq. 11 prints neither",
        "with a bridge, the last layer is the bridge's output",
    ),
)
@final
class Doc(Head):
    """Experts read any layers, after their masks. Mask site: "latent", on all experts' vectors."""

    sites = frozenset({"latent"})

    def __init__(self, config: DocConfig, shapes: Shapes) -> None:
        super().__init__()
        num_layers = len(shapes.layers)
        self.experts = experts_by_layer(config.experts, num_layers)
        self.num_layers = num_layers
        self.activation, self.floor = config.latent_activation, config.floor
        # With a bridge, the last layer is the bridge's output.
        widths = (shapes.embedding, *shapes.layers[:-1], shapes.output)
        for layer, count in self.experts.items():
            latent = Projection(widths[layer], count * shapes.embedding, bias=config.latent_bias)
            self.add_module(self._latent(layer), latent)
        self.num_experts = sum(self.experts.values())
        self.prior = Projection(shapes.output, self.num_experts, bias=False)
        self.decoder = Decoder(shapes.vocabulary, shapes.embedding, config)

    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        latents = [self._vectors(features, layer) for layer in self.experts]
        latent_TBK = masks("latent", torch.cat(latents, -1))
        prior_logits_TBJ = self.prior(features.output_TBH)
        weight_VE = self.decoder.matrix(embedding_VE)
        return mixture_of(latent_TBK, prior_logits_TBJ, weight_VE, self.decoder.bias, self.floor)

    def _vectors(self, features: Features, layer: int) -> Tensor:
        last = layer == self.num_layers
        h_TBH = features.output_TBH if last else features.layer(layer)
        latent = self.get_submodule(self._latent(layer))(h_TBH)
        return latent.tanh() if self.activation == "tanh" else latent

    def _latent(self, layer: int) -> str:
        """Name by distance from the last layer, so that all depths, and MoS, start alike."""
        return f"latent_{self.num_layers - layer}"
