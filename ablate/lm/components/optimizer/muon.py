"""Muon for hidden matrices, AdamW for the rest.

    M = mu M + (1 - mu) G        U = NS(mu M + (1 - mu) G), or NS(M) without Nesterov's momentum
    W = (1 - rate * decay) W - rate * scale * U

NS brings all singular values of a matrix near 1, by `steps` steps of Newton and Schulz's iteration

    X = X / |X|,    X <- a X + b (X X') X + c (X X')^2 X        a, b, c = 3.4445, -4.7750, 2.0315

and scale is sqrt(max(1, rows / columns)), or 0.2 sqrt(max(rows, columns)), with which a step is as
large as one of AdamW's ("like_adamw"). A hidden matrix has two dimensions, which both grow with the
width of the model (`ablate/lm/model/growth.py`). All else is AdamW's, by the fields `rest_*` (an
output matrix may have a rate of its own, `output_learning_rate`, as in nanochat): word
vectors, output matrices, vectors, convolutions, and matrices with a fixed number of rows or columns
(a mixture's prior, one row for each head, factors of a low rank). With all singular values near 1,
a step on such a matrix of r rows has the norm sqrt(r), whatever its gradient is. Matrices of
several gates count as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import nn

from ablate.errors import ConfigError
from ablate.lm.components import Optimizer, register, setting
from ablate.lm.components.optimizer.adamw import AdamwConfig, adamw
from ablate.lm.model.growth import growth_of, hidden_matrices
from ablate.lm.model.optimizer import Several, decayed_alike, parameter_groups

SCALES = {"original": "original", "like_adamw": "match_rms_adamw"}  # torch's names


@dataclass(frozen=True, kw_only=True)
class MuonConfig:
    """Muon's settings, and after them AdamW's for the rest."""

    learning_rate: float = setting(
        # Not 0: the rest's rate is a multiple of it.
        0.02,
        doc="learning rate of hidden matrices, before any schedule",
        low=1e-9,
    )
    momentum: float = setting(0.95, doc="share of the mean gradient in the next", low=0, high=0.999)
    nesterov: bool = setting(True, doc="look ahead by one step of momentum")
    steps: int = setting(5, doc="steps of Newton and Schulz's iteration", low=1, high=99)
    scale: str = setting("original", doc="of a step, by the matrix's shape", choices=tuple(SCALES))
    weight_decay: float = setting(0.0, doc="share of a weight lost in a step of rate 1", low=0)
    rest_learning_rate: float = setting(0.001, doc="AdamW's learning rate", low=0)
    output_learning_rate: float | None = setting(
        None,
        doc="AdamW's learning rate of an untied output matrix; none: rest_learning_rate",
        low=0,
    )
    rest_beta1: float = setting(0.9, doc="AdamW's decay of the mean gradient", low=0, high=0.9999)
    rest_beta2: float = setting(
        0.999, doc="AdamW's decay of the mean squared gradient", low=0, high=0.99999
    )
    rest_epsilon: float = setting(1e-8, doc="AdamW adds it to the root of the mean square", low=0)
    rest_weight_decay: float = setting(0.0, doc="AdamW's, of matrices alone", low=0)


def muon(model: nn.Module, config: MuonConfig, hidden: set[nn.Parameter]) -> torch.optim.Optimizer:
    """torch's Muon over the hidden matrices."""
    if not hasattr(torch.optim, "Muon"):
        raise ConfigError(
            f"optimizer = 'muon' needs torch 2.9 or newer, and this is {torch.__version__}. "
            "Instead: a newer torch, or another optimizer, such as 'adamw'."
        )
    return torch.optim.Muon(
        decayed_alike(parameter_groups(model, hidden.__contains__), config.weight_decay),
        lr=config.learning_rate,
        momentum=config.momentum,
        nesterov=config.nesterov,
        ns_steps=config.steps,
        adjust_lr_fn=SCALES[config.scale],
    )


def output_matrices(model: nn.Module, config: MuonConfig) -> set[nn.Parameter]:
    """The matrices of the head that have a row for every word; none without a rate for them."""
    if config.output_learning_rate is None:
        return set()
    of_head = {p for name, p in model.named_parameters() if name.startswith("head.")}
    return {p for p in growth_of(model).tables & of_head if p.dim() == 2 and p.requires_grad}


def rest(
    model: nn.Module, config: MuonConfig, chosen: set[nn.Parameter], rate: float
) -> torch.optim.Optimizer:
    """torch's AdamW over what is not Muon's, at a rate."""
    own = AdamwConfig(
        learning_rate=rate,
        beta1=config.rest_beta1,
        beta2=config.rest_beta2,
        epsilon=config.rest_epsilon,
        weight_decay=config.rest_weight_decay,
    )
    optimizer = adamw(model, own, chosen.__contains__)
    for group in optimizer.param_groups:  # a schedule sets the rate of Muon, and theirs as a share
        group["rate_scale"] *= rate / config.learning_rate
    return optimizer


@register(
    "optimizer",
    "muon",
    config=MuonConfig,
    paper="jordan2024muon",
    equation="its code, muon.py",
    departures=("the iteration is in bfloat16 on every device, as in torch and that code",),
)
@final
class Muon(Optimizer):
    """torch's Muon and torch's AdamW, each over its own parameters."""

    def __init__(self, config: MuonConfig, model: nn.Module) -> None:
        self.config = config
        hidden = {p for p in hidden_matrices(model) if p.requires_grad}
        trained = {p for p in model.parameters() if p.requires_grad}
        output = output_matrices(model, config)
        others = trained - hidden - output
        # torch refuses an optimizer without parameters.
        parts = [muon(model, config, hidden)] if hidden else []
        parts += [rest(model, config, others, config.rest_learning_rate)] if others else []
        parts += [rest(model, config, output, config.output_learning_rate or 0.0)] if output else []
        self.torch = Several(*parts)

    @classmethod
    def width_power(cls, config: MuonConfig) -> float | None:
        # A step's largest singular value has to stay as it is. That of the "original" scale does,
        # and that of the other grows with the root of the width (Yang et al. 2023, Condition 1).
        return 0.0 if config.scale == "original" else 0.5
