"""One softmax over the vocabulary; its matrix may be tied to the word vectors.

p = softmax(h W' + b),    W = L when tied (Inan et al. 2017, Section 4: RE; Press & Wolf 2017)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ablate.errors import CombinationError
from ablate.lm.components import Features, Head, Masks, Mixture, Shapes, register
from ablate.lm.model.decoder import Decoder, OutputConfig


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfig(OutputConfig):
    """The output matrix of a single softmax."""


def check_tied(config: OutputConfig, shapes: Shapes) -> None:
    """Refuse to tie the output matrix to word vectors of another width."""
    if config.tied and shapes.output != shapes.embedding:
        raise CombinationError(
            "a tied softmax needs vectors as wide as the word vectors: the head reads "
            f"{shapes.output} units, but embedding.size = {shapes.embedding}. Give the last "
            f"layer {shapes.embedding} units (backbone.last_units of an lstm), set "
            f"embedding.size = {shapes.output}, or set head.tied = false."
        )


def softmax_of(features: Features, decoder: Decoder, embedding_VE: Tensor) -> Mixture:
    """A mixture of one expert, whose vector is the head's input."""
    return Mixture(
        vectors_NJE=features.output_TBH.flatten(0, 1)[:, None],
        log_prior_NJ=None,
        weight_VE=decoder.matrix(embedding_VE),
        bias_V=decoder.bias,
    )


@register(
    "head",
    "softmax",
    config=SoftmaxConfig,
    paper="inan2017tying",
    equation="Section 4 (tying, in the text: it has no equation)",
    departures=(
        "a tied matrix keeps one bias per word unless bias = false; the paper's section 4 ties "
        "with b = 0, and its section 6.3 does not repeat it",
    ),
)
@final
class Softmax(Head):
    """A mixture with one expert, whose vector is the output of the features."""

    sites = frozenset()

    def __init__(self, config: SoftmaxConfig, shapes: Shapes) -> None:
        super().__init__()
        check_tied(config, shapes)
        self.decoder = Decoder(shapes.vocabulary, shapes.output, config)

    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        return softmax_of(features, self.decoder, embedding_VE)
