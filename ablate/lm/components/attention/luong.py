"""Global attention after the decoder's last layer (Luong et al. 2015).

    weights over s = softmax_s score(h_t, m_s)    score: h_t' W_a m_s (general), h_t' m_s (dot)
    c_t = sum_s weight_s m_s
    h~_t = tanh(W_c [c_t ; h_t])                  Eq. 5-8

The attentional vector h~ is the layer that the head reads (DOC counts it as the third). With input
feeding, h~ is also part of the decoder's next input (Section 3.3 there).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from ablate.lm.components import (
    Attention,
    CombinationError,
    Draw,
    Memory,
    Shapes,
    register,
    setting,
)


@dataclass(frozen=True, kw_only=True)
class LuongConfig:
    """How words of the source are weighted, and the layer that results."""

    units: int | None = setting(
        None, doc="units of the layer; none: the size of the word vectors, as a tied head needs",
        low=1,
    )  # fmt: skip
    score: str = setting("general", doc="of a decoder state and a word", choices=("general", "dot"))
    input_feeding: bool = setting(
        False, doc="the decoder also reads the layer's output at the step before; much slower"
    )


def attend(query_TBM: Tensor, memory: Memory) -> Tensor:
    """The mean of the real words' vectors, weighted by a softmax over the products, [T, B, M]."""
    query_BTM, vectors_BSM = query_TBM.transpose(0, 1), memory.vectors_SBM.transpose(0, 1)
    scores_BTS = torch.bmm(query_BTM, vectors_BSM.transpose(1, 2))
    real_B1S = memory.real_SB1.permute(1, 2, 0).bool()
    # Every sentence has a real token, its <eos>, so no softmax is over -inf alone.
    weights_BTS = scores_BTS.masked_fill(~real_B1S, -math.inf).softmax(-1)
    return torch.bmm(weights_BTS, vectors_BSM).transpose(0, 1)


@register(
    "attention",
    "luong",
    config=LuongConfig,
    paper="luong2015",
    equation="Eq. 5-8; Takase et al. 2018, Section 6",
    departures=(
        "no input feeding by default, so that a decoder's steps are computed together; the DOC "
        "paper does not say whether it has any",
        "with input feeding, masks are the same at every step of the decoder",
    ),
)
@final
class Luong(Attention):
    """Its parameters are `score` (W_a) and `combine` (W_c), without biases."""

    def __init__(self, config: LuongConfig, shapes: Shapes) -> None:
        super().__init__()
        units, memory = shapes.layers[-1], shapes.memory
        self.memory = memory
        self.width = shapes.embedding if config.units is None else config.units
        self.feeds = config.input_feeding
        if config.score == "dot" and units != memory:
            raise CombinationError(
                f"attention.score = 'dot' multiplies the decoder's {units} units by the encoder's "
                f"{memory}. Instead: the same number of units, or attention.score = 'general'."
            )
        self.score = nn.Parameter(torch.empty(units, memory)) if config.score == "general" else None
        self.combine = nn.Parameter(torch.empty(self.width, memory + units))

    def forward(self, query_TBH: Tensor, memory: Memory) -> Tensor:
        scored = query_TBH if self.score is None else query_TBH @ self.score
        context_TBM = attend(scored, memory)
        return (torch.cat((context_TBM, query_TBH), -1) @ self.combine.t()).tanh()

    def operations(self, steps: int) -> int:
        return 4 * steps * self.memory  # a score of every word, and their weighted mean

    def initialize(self, draw: Draw) -> None:
        for name, parameter in self.named_parameters():
            bound = parameter.shape[1] ** -0.5  # 1/sqrt(inputs), as torch's nn.Linear starts
            parameter.data.uniform_(-bound, bound, generator=draw(name))
