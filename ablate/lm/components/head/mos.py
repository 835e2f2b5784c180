"""Mixture of softmaxes (Yang et al. 2018, Eq. in Section 2.3).

prior = softmax(h W_prior'),   k_j = tanh(h W_j' + b_j)
p = sum_j prior_j softmax(k_j W' + b) + floor
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.lm.components import Features, Head, Masks, Mixture, Shapes, register, setting
from ablate.lm.model.decoder import Decoder, MixtureOutputConfig
from ablate.lm.model.fast.precision import full
from ablate.lm.model.projection import Projection


@dataclass(frozen=True, kw_only=True)
class MosExpertsConfig:
    """The experts of the mixture."""

    experts: int = setting(15, doc="number of experts (softmaxes)", low=1)


@dataclass(frozen=True, kw_only=True)
class MosConfig(MixtureOutputConfig, MosExpertsConfig):  # the fields of the last base come first
    """The experts of the mixture and the output matrix they share."""


def mixture_of(
    latent_TBK: Tensor, prior_logits_TBJ: Tensor, weight: Tensor, bias, floor: float
) -> Mixture:
    """The mixture of the experts' vectors, [T, B, J*E], and unnormalized log priors."""
    num_experts = prior_logits_TBJ.shape[-1]
    return Mixture(
        vectors_NJE=latent_TBK.flatten(0, 1).unflatten(1, (num_experts, -1)),
        # In float32: priors in bfloat16 summed to 0.988.
        log_prior_NJ=full(prior_logits_TBJ).flatten(0, 1).log_softmax(-1),
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
    """All experts read the last layer. Mask site: "latent", on their vectors, [T, B, J*E]."""

    sites = frozenset({"latent"})

    def __init__(self, config: MosConfig, shapes: Shapes) -> None:
        super().__init__()
        width = shapes.output
        self.num_experts, self.floor = config.experts, config.floor
        self.prior = Projection(width, config.experts, bias=False)
        self.latent_0 = Projection(width, config.experts * shapes.embedding, bias=True)
        self.decoder = Decoder(shapes.vocabulary, shapes.embedding, config)

    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        latent_TBK = masks("latent", self.latent_0(features.output_TBH).tanh())
        prior_logits_TBJ = self.prior(features.output_TBH)
        weight_VE = self.decoder.matrix(embedding_VE)
        return mixture_of(latent_TBK, prior_logits_TBJ, weight_VE, self.decoder.bias, self.floor)
