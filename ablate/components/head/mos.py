"""Mixture of softmaxes (Yang et al. 2018, Eq. in Section 2.3).

prior = softmax(h W_prior'),   k_j = tanh(h W_j' + b_j)
p = sum_j prior_j softmax(k_j W' + b) + floor
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.components.decoder import Decoder
from ablate.components.flow import Draw, Features, Mixture, Shapes
from ablate.components.head import Head
from ablate.components.projection import Projection
from ablate.components.regularizer import Masks
from ablate.fields import setting
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class MosConfig:
    """The components of the mixture and the output matrix they share."""

    experts: int = setting(15, doc="components", low=1)
    tied: bool = setting(True, doc="the output matrix is that of the word vectors")
    bias: bool = setting(True, doc="a bias for every word")
    initial_range: float = setting(
        0.1, doc="an output matrix of its own starts uniform in +- this", low=0
    )
    bias_range: float = setting(
        0.0, doc="the words' biases start uniform in +- this; 0: at 0", low=0
    )
    floor: float = setting(
        0.0, doc="added to every probability: the authors' code adds 1e-8, in evaluation too", low=0
    )


def mixture_of(
    latent_TBK: Tensor, prior_logits_TBJ: Tensor, weight: Tensor, bias, floor: float
) -> Mixture:
    """The mixture of component-major latent vectors, [T, B, J*E], and unnormalised log priors."""
    num_components = prior_logits_TBJ.shape[-1]
    return Mixture(
        vectors_NJE=latent_TBK.flatten(0, 1).unflatten(1, (num_components, -1)),
        log_prior_NJ=prior_logits_TBJ.flatten(0, 1).log_softmax(-1),
        weight_VE=weight,
        bias_V=bias,
        floor=floor,
    )


@register(
    "head",
    "mos",
    config=MosConfig,
    paper="yang2018mos",
    equation="Section 2.3",
    departures=("log p is exact by default; the authors' code takes log(p + 1e-8)",),
)
@final
class Mos(Head):
    """Components from the last layer alone; mask site "latent" on the [T, B, J*E] of them."""

    def __init__(self, config: MosConfig, shapes: Shapes) -> None:
        super().__init__()
        width = shapes.output
        self.num_components, self.floor = config.experts, config.floor
        self.prior = Projection(width, config.experts, bias=False)
        self.latent_0 = Projection(width, config.experts * shapes.embedding, bias=True)
        self.decoder = Decoder(
            shapes.vocabulary,
            shapes.embedding,
            tied=config.tied,
            bias=config.bias,
            initial_range=config.initial_range,
            bias_range=config.bias_range,
        )

    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        latent_TBK = masks("latent", self.latent_0(features.output_TBH).tanh())
        prior_logits_TBJ = self.prior(features.output_TBH)
        weight_VE = self.decoder.matrix(embedding_VE)
        return mixture_of(latent_TBK, prior_logits_TBJ, weight_VE, self.decoder.bias, self.floor)

    def initialize(self, draw: Draw) -> None:
        """The parts draw their own."""
