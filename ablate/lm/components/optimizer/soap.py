"""SOAP: Adam in the eigenbasis of Shampoo's two covariances of a matrix's gradient G.

    G' = L' G R,    M = b1 M + (1 - b1) G,    V = b2 V + (1 - b2) G'^2        (Algorithm 3)
    W = (1 - rate * decay) W - rate * L ((L' M R)^ / (sqrt(V^) + epsilon)) R'
    A = b A + (1 - b) G G',    B = b B + (1 - b) G' G                         (b: shampoo_beta)

where ^ divides by 1 - b^t. L and R start as the eigenvectors of the first A and B, largest
eigenvalue first, and follow them by one step of power iteration, L = QR(A L) and R = QR(B R), after
every `precondition_frequency` updates (Algorithm 4). The first gradient only makes L and R.

A side that is longer than `max_dimension` keeps its own coordinates. So does, by default, the side
of a matrix of word vectors or outputs that has a row for every word. Vectors and convolutions are
AdamW's, with the same rate, betas and epsilon. Matrices of several gates count as one.

Where the covariances are 0 (a side longer than the other at first, gradients of a low rank), the
eigenvectors are anybody's choice, and Adam divides one rounding error by another. So two ways of
computing the same gradients (by other kernels) do not agree up to rounding
after some steps: they train two models, as two seeds do. The same way gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from ablate.lm.components import Optimizer, register, setting
from ablate.lm.components.optimizer.adamw import AdamwConfig, adamw
from ablate.lm.model.growth import matrices_between
from ablate.lm.model.optimizer import Several, parameter_groups

SIDES = {"left": 0, "right": 1}  # and the dimension of the matrix that each turns


@dataclass(frozen=True, kw_only=True)
class SoapConfig:
    """Adam's settings, and those of the bases in which it works."""

    learning_rate: float = setting(0.003, doc="learning rate, before any schedule", low=0)
    beta1: float = setting(0.95, doc="decay of the mean gradient", low=0, high=0.9999)
    beta2: float = setting(0.95, doc="decay of the mean squared gradient", low=0, high=0.99999)
    shampoo_beta: float | None = setting(
        None, doc="decay of the gradient's covariances; none: beta2", low=0, high=0.99999
    )
    precondition_frequency: int = setting(10, doc="updates from one basis to the next", low=1)
    max_dimension: int = setting(10000, doc="a longer side of a matrix has no basis", low=0)
    epsilon: float = setting(1e-8, doc="added to the root of the mean square", low=0)
    weight_decay: float = setting(
        0.01, doc="share of a weight lost in a step of rate 1; of matrices alone", low=0
    )
    skip_first: bool = setting(
        True, doc="the first gradient makes the bases, and moves no matrix that has one"
    )
    words: str = setting(
        "one_sided",
        doc="word vectors and output matrices: with a basis for the side of the units, or AdamW's",
        choices=("one_sided", "adamw"),
    )


def turned(x_MN: Tensor, bases: dict[int, Tensor], *, back: bool = False) -> Tensor:
    """L' X R, for the bases that there are; `back`: L X R'."""
    for dim, basis in bases.items():
        own = basis if back == (dim == 0) else basis.t()
        x_MN = own @ x_MN if dim == 0 else x_MN @ own
    return x_MN


def covariance(gradient_MN: Tensor, dim: int) -> Tensor:
    """G G' of the rows (0), or G' G of the columns (1)."""
    transposed = gradient_MN.t()
    return gradient_MN @ transposed if dim == 0 else transposed @ gradient_MN


def eigenvectors(covariance_DD: Tensor) -> Tensor:
    """Its eigenvectors as columns, that of the largest eigenvalue first."""
    if not covariance_DD.isfinite().all():  # LAPACK would raise an error; the loss is to say so
        return covariance_DD.new_full(covariance_DD.shape, torch.nan)
    return torch.linalg.eigh(covariance_DD).eigenvectors.flip(1).contiguous()


def followed(covariance_DD: Tensor, basis_DD: Tensor) -> Tensor:
    """One step of power iteration from the last basis (Algorithm 4)."""
    # Contiguous: products with the saved and the restored basis have to be the same bits.
    return torch.linalg.qr(covariance_DD @ basis_DD).Q.contiguous()


class RotatedAdam(torch.optim.Optimizer):
    """SOAP over matrices; `bare` ones have no basis for their rows."""

    def __init__(
        self, groups: Iterable[dict[str, Any]], config: SoapConfig, bare: set[nn.Parameter]
    ) -> None:
        super().__init__(groups, {"lr": config.learning_rate})
        self.config, self.bare = config, bare

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One update of every matrix that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group["lr"])

    def _update(self, parameter: nn.Parameter, gradient_MN: Tensor, rate: float) -> None:
        state, sides = self.state[parameter], self._sides(parameter)
        if not state:
            self._begin(state, gradient_MN, sides)
            if sides and self.config.skip_first:
                return
        state["step"] += 1
        step_MN = self._adam(state, gradient_MN, sides)
        parameter.mul_(1 - rate * self.config.weight_decay).sub_(step_MN, alpha=rate)
        # The first gradient is in the covariances already if it made the bases.
        if state["step"] > 1 or self.config.skip_first:
            self._take_in(state, gradient_MN, sides)
        if state["step"] % self.config.precondition_frequency == 0:
            for side in sides:
                state[f"{side}_basis"] = followed(state[side], state[f"{side}_basis"])

    def _sides(self, parameter: nn.Parameter) -> dict[str, int]:
        """The sides that have a basis."""
        longest = self.config.max_dimension
        sides = {side: dim for side, dim in SIDES.items() if parameter.shape[dim] <= longest}
        return {side: dim for side, dim in sides.items() if dim or parameter not in self.bare}

    def _begin(self, state: dict[str, Any], gradient_MN: Tensor, sides: dict[str, int]) -> None:
        state["step"] = torch.tensor(0.0)
        state["mean"], state["square"] = (torch.zeros_like(gradient_MN) for _ in range(2))
        for side, dim in sides.items():
            state[side] = torch.zeros_like(covariance(gradient_MN, dim))
        self._take_in(state, gradient_MN, sides)
        for side in sides:
            state[f"{side}_basis"] = eigenvectors(state[side])

    def _take_in(self, state: dict[str, Any], gradient_MN: Tensor, sides: dict[str, int]) -> None:
        config = self.config
        beta = config.beta2 if config.shampoo_beta is None else config.shampoo_beta
        for side, dim in sides.items():
            state[side].lerp_(covariance(gradient_MN, dim), 1 - beta)

    def _adam(self, state: dict[str, Any], gradient_MN: Tensor, sides: dict[str, int]) -> Tensor:
        """Adam's step in the bases, turned back. The mean is kept in the weights' coordinates, so
        that it stays what it is when a basis changes."""
        config, t = self.config, state["step"].item()
        bases = {dim: state[f"{side}_basis"] for side, dim in sides.items()}
        state["mean"].lerp_(gradient_MN, 1 - config.beta1)
        own_MN = turned(gradient_MN, bases)
        state["square"].mul_(config.beta2).addcmul_(own_MN, own_MN, value=1 - config.beta2)
        root_MN = (state["square"] / (1 - config.beta2**t)).sqrt_().add_(config.epsilon)
        mean_MN = turned(state["mean"], bases) / (1 - config.beta1**t)
        return turned(mean_MN / root_MN, bases, back=True)


@register(
    "optimizer",
    "soap",
    config=SoapConfig,
    paper="vyas2024soap",
    equation="Algorithms 3 and 4",
    departures=(
        "epsilon is added to the root of the corrected mean square, as in Adam, so that without "
        "bases SOAP is Adam; the paper adds it below the root",
        "the columns of a basis are not sorted again, as the authors' code does before each step "
        "of power iteration; tried on a Transformer of 2 layers of 32 units (3 epochs of 40,000 "
        "words, 3 seeds), sorting moved two columns in three and changed the validation loss by "
        "-0.0006, +0.0056 and +0.0059 nats",
    ),
)
@final
class Soap(Optimizer):
    """SOAP over matrices and torch's AdamW, each over its own parameters.

    It has no `width_power`: what a step changes grows with another power of the width after every
    change of the bases (docs/notes/log.md).
    """

    def __init__(self, config: SoapConfig, model: nn.Module) -> None:
        self.config = config
        trained = {p for p in model.parameters() if p.requires_grad}
        matrices = {p for p in trained if p.dim() == 2}
        of_words = matrices - matrices_between(model)
        own = matrices if config.words == "one_sided" else matrices - of_words
        rest = AdamwConfig(
            learning_rate=config.learning_rate,
            beta1=config.beta1,
            beta2=config.beta2,
            epsilon=config.epsilon,
            weight_decay=config.weight_decay,
        )
        # torch refuses an optimizer without parameters.
        parts: list[torch.optim.Optimizer] = []
        if own:
            groups = parameter_groups(model, own.__contains__)
            parts.append(RotatedAdam(groups, config, of_words))
        if trained - own:
            parts.append(adamw(model, rest, lambda parameter: parameter not in own))
        self.torch = Several(*parts)
