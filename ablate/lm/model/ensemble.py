"""Several finished models as one model, with one gate that is trained for all of them.

    P = 1/M sum_m softmax(g * s_m)    (Takase et al. 2017, Eq. 9)

An ensemble of mixtures is a mixture of all members' experts, each with a log prior smaller by
log M. To share one output matrix, the members' matrices are placed side by side, and each expert's
vector is zero outside its own member's columns. Losses, gates and evaluators need no special case;
because of the zeros, the products cost M times those of the members alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.errors import CombinationError
from ablate.lm.model.flow import Features, Mixture, Pass, Shapes, State
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.masks import OFF, Masks
from ablate.lm.model.pointer import mean_pointer
from ablate.lm.model.slots import Gate


@final
class Together(LanguageModel):
    """The members are frozen, run without masks, and are not among its parameters: only the gate is
    saved, and the trial's parents tell which models it belongs to."""

    def __init__(self, members: Sequence[LanguageModel], gate: Gate, shapes: Shapes) -> None:
        nn.Module.__init__(self)  # not LanguageModel's, whose parts are the members' here
        self.shapes = shapes
        self.gate = gate
        self.only_gate = True
        self.auxiliary = nn.ModuleDict()  # a regularizer has no word vectors to train here
        for member in members:
            member.requires_grad_(False).eval()
        for name, part in (("members", tuple(members)), ("embedding", members[0].embedding)):
            object.__setattr__(self, name, part)  # so that nn.Module finds no parameters there

    def initial_state(self, rows: int) -> State:
        """Return the states of all members, and the gate's."""
        states = (tensor for member in self.members for tensor in member.initial_state(rows))
        return (*states, *self.gate.initial_state(rows))

    def forward(self, ids_TB: Tensor, state: State, masks: Masks = OFF) -> Pass:
        passes, rest = [], state
        with torch.no_grad():
            for member in self.members:
                num_own = len(member.initial_state(1))
                passes.append(member(ids_TB, rest[:num_own]))
                rest = rest[num_own:]
            features = side_by_side([passed.features for passed in passes])
            mixture = mean_mixture([passed.mixture for passed in passes])
        signal, gate_after = self.gate(features, rest, masks)
        after = (tensor for passed in passes for tensor in passed.state)
        return Pass(
            features=features,
            mixture=replace(mixture, gate=signal),
            state=(*after, *gate_after),
        )

    def flops_per_token(self, steps: int) -> int:
        """Estimate the operations of the members' forward passes, and of the gate's."""
        members = sum(member.flops_per_token(steps) for member in self.members)
        return members + 2 * sum(p.numel() for p in self.gate.parameters())

    def _of_experts(self) -> int:
        return sum(member._of_experts() for member in self.members)

    @property
    def longest_window(self) -> int | None:
        """The longest window that every member can read."""
        every = [member.longest_window for member in self.members]
        return min((length for length in every if length is not None), default=None)

    def train_only_gate(self) -> None:
        """The members are frozen from the start."""


def mean_mixture(mixtures: Sequence[Mixture]) -> Mixture:
    """The mean of the members' distributions, as one mixture."""
    if any(mixture.gate is not None for mixture in mixtures):
        raise CombinationError(
            "a model that has a gate cannot be a member under another gate. Instead: members with "
            "gate = 'none'."
        )
    if any(mixture.cap is not None for mixture in mixtures):
        raise CombinationError(
            "a model whose logits are capped (head.logit_cap) cannot be a member under a gate, "
            "which would change them once more. Instead: members without head.logit_cap."
        )
    plain = [_without_bias(mixture) for mixture in mixtures]
    widths = [mixture.weight_VE.shape[1] for mixture in plain]
    blocks, priors = [], []
    for position, mixture in enumerate(plain):
        around = (sum(widths[:position]), sum(widths[position + 1 :]))
        blocks.append(F.pad(mixture.vectors_NJE, around))
        priors.append(_log_prior(mixture) - math.log(len(plain)))
    return Mixture(
        vectors_NJE=torch.cat(blocks, 1),
        log_prior_NJ=torch.cat(priors, 1),
        weight_VE=torch.cat([mixture.weight_VE for mixture in plain], 1),
        bias_V=None,
        pointer=mean_pointer(mixtures),
        floor=sum(mixture.floor for mixture in plain) / len(plain),
    )


def _without_bias(mixture: Mixture) -> Mixture:
    """The same mixture with its bias as another column of the matrix, times a 1 in each vector."""
    if mixture.bias_V is None:
        return mixture
    return replace(
        mixture,
        vectors_NJE=F.pad(mixture.vectors_NJE, (0, 1), value=1.0),
        weight_VE=torch.cat([mixture.weight_VE, mixture.bias_V[:, None]], 1),
        bias_V=None,
    )


def side_by_side(features: Sequence[Features]) -> Features:
    """The features that a gate may read: all members' vectors and last layers, side by side."""
    return Features(
        ids_TB=features[0].ids_TB,
        embedded_TBE=torch.cat([f.embedded_TBE for f in features], -1),
        inputs_TBE=torch.cat([f.inputs_TBE for f in features], -1),
        raw=(torch.cat([f.raw[-1] for f in features], -1),),
        masked=(torch.cat([f.masked[-1] for f in features], -1),),
        output_TBH=torch.cat([f.output_TBH for f in features], -1),
    )


def _log_prior(mixture: Mixture) -> Tensor:
    if mixture.log_prior_NJ is not None:
        return mixture.log_prior_NJ
    return mixture.vectors_NJE.new_zeros(mixture.vectors_NJE.shape[:2])
