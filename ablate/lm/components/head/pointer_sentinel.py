"""A softmax and a pointer to the words just read, in one mixture (Merity et al. 2017).

    q_t = tanh(W h_t + b),    z_i = q_t . h_i,    z_s = q_t . s
    [a, g] = softmax([z_{t-L+1}, ..., z_t, z_s])
    p(w) = g p_vocabulary(w) + sum over i with x_i = w of a_i

h_i is the output after x_i was read, and points at x_i itself; s, the sentinel, is learned. The
last L words stay in reach across windows, in training as in evaluation; gradients reach the
outputs of this window alone. Before the first L words, the missing ones have no weight.

The softmax reads h as the pointer does: after the masks, and after the bridge if there is one. The
loss `guided_pointer` also trains the pointer itself, as the paper does.

Sources: the idea is in the paper's abstract and the formula is written from memory. Not known
here: whether h or q has a dropout of its own, and whether a printed count of 21M parameters (51M
on WikiText-2) is this formula's 20.2M (50.5M) rounded up, or has another matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor, nn

from ablate.lm.components import (
    Draw,
    Features,
    Head,
    Masks,
    Mixture,
    Past,
    Pointer,
    Shapes,
    register,
    setting,
)
from ablate.lm.components.head.softmax import check_tied, softmax_of
from ablate.lm.model.decoder import Decoder, OutputConfig
from ablate.lm.model.fast.precision import full
from ablate.lm.model.projection import Projection


@dataclass(frozen=True, kw_only=True)
class ReachConfig:
    """The words that can be copied."""

    length: int = setting(100, doc="L: the last words read that can be copied", low=1)


@dataclass(frozen=True, kw_only=True)
class PointerSentinelConfig(OutputConfig, ReachConfig):  # the fields of the last base come first
    """The pointer's reach, and the softmax beside it."""


class Sentinel(nn.Module):
    """The vector s, initially uniform in +- 1/sqrt(units)."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(units))

    def initialize(self, draw: Draw) -> None:
        """Draw the vector, within one over the root of its width."""
        bound = len(self.weight) ** -0.5
        self.weight.data.uniform_(-bound, bound, generator=draw("weight"))


def in_reach(ids_PB: Tensor, num_steps: int, length: int) -> Tensor:
    """Which positions each step can copy from, [T, B, P]: the last `length`, if they exist.

    The positions are those of the past and then those of the steps."""
    positions_P = torch.arange(len(ids_PB), device=ids_PB.device)
    newest_T1 = positions_P[len(ids_PB) - num_steps :, None]
    near_TP = (positions_P <= newest_T1) & (positions_P > newest_T1 - length)
    return near_TP[:, None] & (ids_PB >= 0).t()


def log_weights(
    q_TBH: Tensor, h_PBH: Tensor, sentinel_H: Tensor, reach_TBP: Tensor
) -> tuple[Tensor, Tensor]:
    """log a of every position, and log g, [T, B, 1]."""
    scores_TBP = torch.einsum("tbh,pbh->tbp", q_TBH, h_PBH)
    scores_TBP = scores_TBP.masked_fill(~reach_TBP, -torch.inf)
    sentinel_TB1 = (q_TBH @ sentinel_H)[..., None]
    # The sentinel is always in reach, so no softmax is over -inf alone.
    log_TBP = full(torch.cat((scores_TBP, sentinel_TB1), -1)).log_softmax(-1)
    return log_TBP[..., :-1], log_TBP[..., -1:]


@register(
    "head",
    "pointer_sentinel",
    config=PointerSentinelConfig,
    paper="merity2017pointer",
    equation="the formula above, from memory",
    departures=(
        "the softmax and the pointer read h after the masks on the output; the paper's masks are "
        "not known here",
    ),
)
@final
class PointerSentinel(Head):
    """One expert whose prior is g, and a pointer with the rest."""

    points = True
    sites = frozenset()

    def __init__(self, config: PointerSentinelConfig, shapes: Shapes) -> None:
        super().__init__()
        check_tied(config, shapes)
        self.length = config.length
        self.looks_back = config.length - 1
        self.query = Projection(shapes.output, shapes.output, bias=True)
        self.sentinel = Sentinel(shapes.output)
        self.decoder = Decoder(shapes.vocabulary, shapes.output, config)

    def operations(self, steps: int) -> int:
        return 2 * (self.looks_back + steps) * len(self.sentinel.weight)

    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        h_TBH, ids_TB = features.output_TBH, features.ids_TB
        before = features.past or Past(h_TBH[:0], ids_TB[:0])
        h_PBH = torch.cat((before.outputs_LBH.to(h_TBH.dtype), h_TBH))
        ids_PB = torch.cat((before.ids_LB, ids_TB))
        reach_TBP = in_reach(ids_PB, len(ids_TB), self.length)
        q_TBH = self.query(h_TBH).tanh()
        log_a_TBP, log_g_TB1 = log_weights(q_TBH, h_PBH, self.sentinel.weight, reach_TBP)
        ids_TBP = ids_PB.t().expand_as(log_a_TBP)
        return replace(
            softmax_of(features, self.decoder, embedding_VE),
            log_prior_NJ=log_g_TB1.flatten(0, 1),
            pointer=Pointer(weights_NP=log_a_TBP.exp().flatten(0, 1), ids_NP=ids_TBP.flatten(0, 1)),
        )
