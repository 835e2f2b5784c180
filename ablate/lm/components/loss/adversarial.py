"""Cross entropy under the worst small noise on the output matrix (Wang et al. 2019).

Each row w_v of the output matrix may move by at most epsilon_v. For one token with target y and
vector h, the noise that lowers log p(y) most is along h, so that the loss has a closed form:

    z_y -> z_y - epsilon_y |h|,    z_v -> z_v + epsilon_v |h| for all other words
    epsilon_v = alpha |w_v|        (or alpha for every row, with `relative = false`)

By default only the target's row moves. A mixture's experts each have their own vector, and so their
own noise, before their softmax; a gate then multiplies the logits as it always does. Epsilon is a
constant for the gradient. Neither evaluation nor what a pointer copies has noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from torch import Tensor
from torch.nn import functional as F

from ablate.lm.components import (
    Chance,
    LanguageModel,
    Loss,
    Pass,
    TrainingText,
    register,
    setting,
)
from ablate.lm.model.cap import check_uncapped
from ablate.lm.model.fast.mixture_gradient import (
    PARTS,
    floored,
    mixture_of,
    tensors_of,
    token_chunks,
)
from ablate.lm.model.fast.precision import full
from ablate.lm.model.fast.stored_gradients import summed_by_chunk
from ablate.lm.model.flow import Mixture
from ablate.lm.model.mixture import summed_nll
from ablate.lm.model.pointer import copied_targets, with_copied


@dataclass(frozen=True, kw_only=True)
class AdversarialConfig:
    """The size of the noise. With alpha 0 this is cross entropy."""

    alpha: float = setting(0.005, doc="size of the noise on a row of the output matrix", low=0)
    relative: bool = setting(True, doc="alpha is a share of the row's norm")
    rows: str = setting(
        "target", doc="which rows move: the target's, or all", choices=("target", "all")
    )


def noisy_logits(
    logits_nJV: Tensor, norms_nJ: Tensor, epsilon_V: Tensor, targets_n: Tensor, rows: str
) -> Tensor:
    """The logits under the worst noise; `norms_nJ` are those of the experts' vectors."""
    targets_nJ1 = targets_n[:, None, None].expand(*norms_nJ.shape, 1)
    of_target_nJ1 = norms_nJ[..., None] * epsilon_V[targets_nJ1]
    if rows == "target":
        return logits_nJV.scatter_add(2, targets_nJ1, -of_target_nJ1)
    raised_nJV = logits_nJV + norms_nJ[..., None] * epsilon_V
    # Twice: once for what all rows were given, and once for the target's own noise.
    return raised_nJV.scatter_add(2, targets_nJ1, -2 * of_target_nJ1)


def adversarial_nll(
    mixture: Mixture,
    targets_N: Tensor,
    config: AdversarialConfig,
    rows: slice = slice(None),
    copied_N: Tensor | None = None,
) -> Tensor:
    """-sum log p of some tokens' targets under the noise, by plain autograd."""
    vectors_nJE, targets_n = mixture.vectors_NJE[rows], targets_N[rows]
    norms_V = mixture.weight_VE.detach().norm(dim=1)
    epsilon_V = config.alpha * (norms_V if config.relative else norms_V.new_ones(len(norms_V)))
    logits_nJV = full(F.linear(vectors_nJE, mixture.weight_VE, mixture.bias_V))
    logits_nJV = noisy_logits(
        logits_nJV, full(vectors_nJE).norm(dim=2), full(epsilon_V), targets_n, config.rows
    )
    if mixture.gate is not None:
        gate = mixture.gate
        gate_nV = F.linear(gate.vectors_NG[rows], gate.weight_VG, gate.bias_V).sigmoid()
        logits_nJV = logits_nJV * gate_nV[:, None]
    targets_nJ1 = targets_n[:, None, None].expand(*logits_nJV.shape[:2], 1)
    log_p_nJ = logits_nJV.log_softmax(-1).gather(2, targets_nJ1).squeeze(2)
    if mixture.log_prior_NJ is not None:
        log_p_nJ = log_p_nJ + mixture.log_prior_NJ[rows]
    log_p_n = floored(log_p_nJ.logsumexp(1), mixture.floor)
    return -with_copied(log_p_n, None if copied_N is None else copied_N[rows]).sum()


@register(
    "loss",
    "adversarial",
    config=AdversarialConfig,
    paper="wang2019adversarial",
    equation="the closed form of the worst noise, derived here",
    departures=(
        "alpha = 0.005 relative to a row's norm, on the target's row alone, is from memory of the "
        "paper; whether the paper also moves the input's word vectors is not known here",
        "over a mixture each expert has its own noise, which is our reading",
        "epsilon is a constant for the gradient; the direction |h| is not",
    ),
)
@final
class Adversarial(Loss):
    """Cross entropy under the worst noise, chunk by chunk of tokens."""

    reads_words = False

    def __init__(self, config: AdversarialConfig, text: TrainingText | None) -> None:
        self.config = config

    def check(self, model: LanguageModel) -> None:
        if self.config.alpha:
            check_uncapped(
                model.head.logit_cap,
                f"loss.alpha = {self.config.alpha:g} of 'adversarial'",
                "loss = 'cross_entropy'",
            )

    def __call__(
        self, passed: Pass, targets_N: Tensor, embedding_VE: Tensor, chance: Chance
    ) -> Tensor:
        mixture = passed.mixture
        if self.config.alpha == 0:
            # The form of `cross_entropy`, and so the same bits.
            return summed_nll(mixture, targets_N)

        def part(rows: slice, copied_N: Tensor | None, *tensors: Tensor | None) -> Tensor:
            whole = replace(mixture_of(*tensors), floor=mixture.floor)
            return adversarial_nll(whole, targets_N, self.config, rows, copied_N)

        chunks = list(token_chunks(mixture, PARTS))
        copied_N = copied_targets(mixture, targets_N)
        return summed_by_chunk(part, chunks, copied_N, *tensors_of(mixture))
