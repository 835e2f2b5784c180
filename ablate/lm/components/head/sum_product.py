"""A sum-product network over the words just read (Cheng et al. 2014).

    M_k = A_k . x                                x: the word vectors of a window, side by side
    S_k = b_k + sum_(j = 1..J) v_kj M_k^j        p(k) = S_k / sum_k' S_k'

A, b, v and the word vectors are never negative: the regularizer `non_negative` clips them after
every update, as the authors' code does. Squares or exponentials of free parameters would be
positive too, but their gradient steps are different, and exponentials never reach 0. A negative x
counts as 0, so that the head also works over other layers.

At the start v_kj = 1/j! and b_k = 1, so S_k is nearly exp(M_k); rows of A are uniform and sum to 1.
The word vectors start uniform from 0 to 2: `embedding.initial_center` = `initial_range` = 1.

High powers have large gradients, and a step that clips all of a word's weights leaves S = 0, from
which no gradient returns. Small networks lost words so in our trials unless `training.clip` was
small, which the code does not have.

The mixture's vectors are log S themselves, and its matrix is the identity: so every gate, loss and
evaluator works, at the cost of a product with V x V numbers.

Known from the authors' code: all of the above but the identity, J = 10, D = 100 units of a word,
SGD at 0.05 on the mean over 100 n-grams. Their published perplexity is of another text: all
terminals of the treebank, neither lower-cased nor with numbers mapped (1.11M training tokens, where
Mikolov's text has 0.93M). So a result on Mikolov's text does not reproduce it. Open: how the
network of 5-grams was started from one of 4-grams, when training stopped, and the exact sections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import Draw, Features, Head, Masks, Mixture, Shapes, register, setting
from ablate.lm.model.fast.precision import full


@dataclass(frozen=True, kw_only=True)
class SumProductConfig:
    """The powers, and how rows of A start."""

    max_power: int = setting(10, doc="J: the highest power of M", low=1, high=30)
    initial_range: float = setting(
        1.0, doc="A starts uniform in 1 +- this; then each row is divided by its sum", low=0, high=1
    )


def network(m_NV: Tensor, bias_V: Tensor, powers_VJ: Tensor) -> Tensor:
    """S: b + v_1 M + v_2 M^2 + ..., from the highest power down."""
    s_NV = powers_VJ[:, -1].expand_as(m_NV)
    for of_power_V in reversed(powers_VJ[:, :-1].unbind(1)):
        s_NV = of_power_V + m_NV * s_NV
    return bias_V + m_NV * s_NV


@register(
    "head",
    "sum_product",
    config=SumProductConfig,
    paper="cheng2014spn",
    equation="the network of the authors' code",
    departures=(
        "the code also adds 1e-6 A to A in every update",
        "the code starts the network of 5-grams from one of 4-grams",
    ),
)
@final
class SumProduct(Head):
    """One expert whose vectors are log S."""

    sites = frozenset()

    def __init__(self, config: SumProductConfig, shapes: Shapes) -> None:
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(torch.empty(shapes.vocabulary, shapes.output))
        self.powers = nn.Parameter(torch.empty(shapes.vocabulary, config.max_power))
        self.bias = nn.Parameter(torch.empty(shapes.vocabulary))
        # V x V numbers that need not be saved. A plan counts parameters on torch's device "meta",
        # where `torch.eye` imports torch's compiler, for a second.
        identity = torch.zeros(shapes.vocabulary, shapes.vocabulary).fill_diagonal_(1)
        self.register_buffer("identity", identity, persistent=False)

    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        x_NH = features.output_TBH.flatten(0, 1).clamp_min(0)
        s_NV = network(full(F.linear(x_NH, self.weight)), self.bias, self.powers)
        # S is 0 for a word whose weights were all clipped, and its log would be -inf.
        log_s_NV = s_NV.clamp_min(torch.finfo(s_NV.dtype).tiny).log()
        return Mixture(
            vectors_NJE=log_s_NV[:, None],
            log_prior_NJ=None,
            weight_VE=self.get_buffer("identity"),
            bias_V=None,
        )

    def initialize(self, draw: Draw) -> None:
        bound = self.config.initial_range
        self.weight.data.uniform_(1 - bound, 1 + bound, generator=draw("weight"))
        self.weight.data /= self.weight.data.sum(1, keepdim=True)
        factorials = [math.factorial(power + 1) for power in range(self.config.max_power)]
        self.powers.data.copy_(1 / self.powers.new_tensor(factorials))
        self.bias.data.fill_(1)
