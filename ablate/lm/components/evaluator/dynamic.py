"""Dynamic evaluation: the weights adapt to the evaluated text, always one window behind.

Each window is predicted first and then trained on, with the gradient g of its mean loss:

    rms     W <- W + lambda D (W0 - W) - eta g / (M + epsilon)     (Krause et al. 2018)
            M = sqrt(mean of g^2 over segments of the training text),
            D = min(M / (mean over tensors of the mean of M), 1/lambda)
    sgd     W <- W - eta g                                         (Pachitariu & Sahani 2013)
    nadam   W <- W - Nadam's step, its moments starting at 0       (Oliva & Lago-Fernandez 2021)

The last two respect each parameter's share of the learning rate (IRLM's r: a thousandth); after
every update, bounded weights (r to [-1, 1]) are clipped to their bounds. Constraints that a
regularizer enforces in training (column norms) are not enforced here. Oliva & Lago-Fernandez also
use the validation data: with `through_valid`, the weights at the start of test have adapted to
valid.

Prediction and gradient share one forward pass, so a window costs one pass forward and one back, and
the update two passes over the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from ablate.lm.components import (
    CombinationError,
    Evaluator,
    LanguageModel,
    Reading,
    register,
    setting,
)
from ablate.lm.model.evaluator import mean_over_models
from ablate.lm.model.mixture import log_probs, summed_nll, tempered
from ablate.lm.model.optimizer import parameter_groups, set_rate
from ablate.lm.model.reading import passes, rows_of, tokens_on

Update = Callable[[Sequence[Tensor]], None]  # updates the weights from their gradients


@dataclass(frozen=True, kw_only=True)
class DynamicConfig:
    """The update rule and its constants; the defaults are those of Krause's current code."""

    rule: str = setting("rms", doc="update rule of the weights", choices=("rms", "sgd", "nadam"))
    learning_rate: float = setting(5e-5, doc="eta, the learning rate", low=0)
    decay: float = setting(0.002, doc="rms: lambda, decay towards the trained weights", low=0)
    epsilon: float = setting(2e-5, doc="rms: added to M", low=0)
    scaling: str = setting(
        "current",
        doc="rms: 'old' for the paper's constants (eta .002, lambda .02, epsilon .001), which are "
        "for sums where the current ones are for means",
        choices=("current", "old"),
    )
    gradient_batch_size: int = setting(100, doc="rms: rows of the training text for M", low=1)
    window: int = setting(5, doc="steps between two updates, and per segment for M", low=1)
    clip: float | None = setting(
        None, doc="largest global norm of a gradient; none or 0: no clipping", low=0
    )
    beta1: float = setting(0.9, doc="nadam: decay of the mean gradient", low=0, high=0.9999)
    temperature: float = setting(1.0, doc="divides the logits; 1: off", low=0.01)
    through_valid: bool = setting(False, doc="before test, adapt the weights to valid (Oliva)")


@dataclass(frozen=True)
class GradientStatistics:
    """M of every parameter, and the number of segments it is a mean over."""

    rms: list[Tensor]
    num_segments: int


def gradient_statistics(
    model: LanguageModel, rows_TB: Tensor, window: int, temperature: float
) -> GradientStatistics:
    """The root of the mean squared gradient over the segments of the rows, without masks.

    As in the public code, a last segment of one step is left out, and any other short last segment
    has the weight of a full one.
    """
    parameters = _trained(model)
    squares = [torch.zeros_like(parameter) for parameter in parameters]
    num_segments = 0
    for passed, targets_TB in passes(model, rows_TB, window):
        if num_segments * window >= len(rows_TB) - 2:
            break
        nll = summed_nll(tempered(passed.mixture, temperature), targets_TB.flatten())
        for square, gradient in zip(squares, _gradients(nll, parameters), strict=True):
            # The segment's loss is a mean, and its gradient here is that of the sum.
            square.addcmul_(gradient, gradient, value=1 / targets_TB.numel() ** 2)
        num_segments += 1
    return GradientStatistics([s.div_(num_segments).sqrt_() for s in squares], num_segments)


def rms_update(
    parameters: Sequence[Tensor],
    statistics: GradientStatistics,
    config: DynamicConfig,
) -> Update:
    """Krause's rule. Everything that is the same for all windows is computed in advance."""
    eta, decay, epsilon = config.learning_rate, config.decay, config.epsilon
    if config.scaling == "old":
        decay /= len(parameters)
        eta /= math.sqrt(statistics.num_segments)
        epsilon /= math.sqrt(statistics.num_segments)
    mean = torch.stack([rms.mean() for rms in statistics.rms]).mean()
    start = [parameter.detach().clone() for parameter in parameters]
    pulls = [(rms * (decay / mean)).clamp_(max=1) for rms in statistics.rms]
    rates = [eta / (rms + epsilon) for rms in statistics.rms]

    def update(gradients: Sequence[Tensor]) -> None:
        steps = zip(parameters, start, pulls, rates, gradients, strict=True)
        for parameter, initial, pull, rate, gradient in steps:
            parameter.lerp_(initial, pull).addcmul_(gradient, rate, value=-1)

    return update


def sgd_update(model: LanguageModel, learning_rate: float) -> Update:
    """Plain gradient descent, with each parameter's own share of the rate."""
    parameters = _trained(model)
    rates = [learning_rate * getattr(p, "rate_scale", 1.0) for p in parameters]

    def update(gradients: Sequence[Tensor]) -> None:
        for parameter, gradient, rate in zip(parameters, gradients, rates, strict=True):
            parameter.sub_(gradient, alpha=rate)

    return update


def nadam_update(model: LanguageModel, learning_rate: float, beta1: float) -> Update:
    """torch's Nadam with Keras' constants, with each parameter's own share of the rate."""
    parameters = _trained(model)
    optimizer = torch.optim.NAdam(
        parameter_groups(model), betas=(beta1, 0.999), eps=1e-7, momentum_decay=0.004
    )
    set_rate(optimizer, learning_rate)

    def update(gradients: Sequence[Tensor]) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return update


def clip_(gradients: Sequence[Tensor], largest: float | None) -> None:
    """Scale gradients in place to a global norm of at most `largest`; 0 is off, as in Keras."""
    if not largest:
        return
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
    if norm > largest:
        for gradient in gradients:
            gradient.mul_(largest / norm)


def adapted_log_probs(
    model: LanguageModel, stream_N: Tensor, config: DynamicConfig, update: Update
) -> np.ndarray:
    """log p of every token after the first; each window is predicted and then trained on.

    All results go into one tensor: small tensors left by every window would fragment the memory
    between the windows' large tensors.
    """
    parameters = _trained(model)
    rows_TB = tokens_on(model, stream_N)[:, None]
    results = torch.empty(len(rows_TB) - 1, dtype=torch.float64, device=rows_TB.device)
    at = 0
    for passed, targets_TB in passes(model, rows_TB, config.window):
        mixture = tempered(passed.mixture, config.temperature)
        # Whole distributions by plain autograd: for so few tokens cheaper than the fused loss.
        log_prob_N = log_probs(mixture).gather(1, targets_TB)[:, 0]
        results[at : at + len(log_prob_N)] = log_prob_N.detach()
        at += len(log_prob_N)
        gradients = _gradients(-log_prob_N.mean(), parameters)
        clip_(gradients, config.clip)
        with torch.no_grad():
            update(gradients)
            if not model.only_gate:  # a gate over several models has no backbone
                model.backbone.project()
    return results.cpu().numpy()


def _trained(model: LanguageModel) -> list[nn.Parameter]:
    """The trained parameters; if only a gate was trained, only the gate adapts."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _gradients(loss: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    gradients = torch.autograd.grad(loss, list(parameters), allow_unused=True)
    pairs = zip(gradients, parameters, strict=True)
    return [torch.zeros_like(p) if g is None else g for g, p in pairs]


@register(
    "evaluator",
    "dynamic",
    config=DynamicConfig,
    version=2,  # version 1 ignored rate shares and bounds in sgd and nadam
    paper="krause2018dynamic",
    equation="Eq. 5-8; Oliva & Lago-Fernandez 2021, Section 4.2; Pachitariu & Sahani 2013, Table 2",
    departures=(
        "the last token is also predicted; the public code may leave it out",
        "nadam's moments start at 0: the optimizer's state is not saved with the weights",
        "the temperature is part of the model: gradients are also those of the tempered loss",
        "oliva2021dual evaluates 'using also the validation data' and does not say how: "
        "through_valid = true is our interpretation; test still starts from a zero state",
    ),
)
@final
class Dynamic(Evaluator):
    """The models' weights adapt to the split and are restored bit for bit."""

    def __init__(self, config: DynamicConfig) -> None:
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        return mean_over_models(
            reading.models, lambda model: self._one_model(reading, model, split)
        )

    def _one_model(self, reading: Reading, model: LanguageModel, split: str) -> np.ndarray:
        parameters = _trained(model)
        before = [parameter.detach().clone() for parameter in parameters]
        with torch.enable_grad():
            update = self._update(reading, model, parameters)
            try:
                if self.config.through_valid and split == "test":
                    adapted_log_probs(model, reading.stream("valid"), self.config, update)
                return adapted_log_probs(model, reading.stream(split), self.config, update)
            finally:
                with torch.no_grad():
                    for parameter, initial in zip(parameters, before, strict=True):
                        parameter.copy_(initial)

    def _update(
        self, reading: Reading, model: LanguageModel, parameters: Sequence[nn.Parameter]
    ) -> Update:
        config = self.config
        if config.rule == "sgd":
            return sgd_update(model, config.learning_rate)
        if config.rule == "nadam":
            return nadam_update(model, config.learning_rate, config.beta1)
        # All that M depends on: several rates, or several evaluators, share it.
        key = ("gradient statistics", model, config.gradient_batch_size, config.window)
        statistics = reading.cached(
            (*key, config.temperature), lambda: self._statistics(reading, model)
        )
        return rms_update(parameters, statistics, config)

    def _statistics(self, reading: Reading, model: LanguageModel) -> GradientStatistics:
        config, stream_N = self.config, reading.stream("train")
        if len(stream_N) < 3 * config.gradient_batch_size:
            raise CombinationError(
                f"evaluator.dynamic.gradient_batch_size = {config.gradient_batch_size} rows of at "
                f"least 3 tokens need more than the {len(stream_N)} tokens of the training text. "
                f"Instead: at most {len(stream_N) // 3}."
            )
        rows_TB = rows_of(tokens_on(model, stream_N), config.gradient_batch_size)
        return gradient_statistics(model, rows_TB, config.window, config.temperature)
