"""The neural cache: words that followed states similar to the current one (Grave et al. 2017).

    p(w) = (1 - lambda) p_vocabulary(w) + lambda p_cache(w)
    p_cache(w) = sum over i with x_{i+1} = w of softmax_i(theta h_i . h_t),  the last `window` i < t

h is the raw output of the last layer, before any mask. There are two ways to start:

    growing        from the second prediction on, over all positions so far (Grave et al.)
    full_window    as pointer.py of the public AWD-LSTM code: only at predictions with more than
                   `window` others before them, and not at the first prediction of its second and
                   later chunks (its BPTT, 5,000), before which it has stored only `window`

Only the target's probability is needed. So a single matrix product scores a block of positions
against all positions that it can look back on, of which the band of the last `window` counts, and
no distribution over words is computed. A gate acts on the vocabulary's logits before the cache is
mixed in.

Shape suffixes: S positions of a block, K positions it can look back on; others as in `flow.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from ablate.lm.components import Evaluator, LanguageModel, Reading, register, setting
from ablate.lm.model.evaluator import mean_over_models
from ablate.lm.model.mixture import tempered, token_nll
from ablate.lm.model.reading import at_most, passes, tokens_on

BLOCK = 128  # positions scored together: large for the product, small compared to the window


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """The cache's weight, sharpness and window; the defaults are those of AWD-LSTM on PTB."""

    share: float = setting(0.1, doc="lambda, the cache's weight (WikiText-2: .1279)", low=0, high=1)
    theta: float = setting(1.0, doc="sharpness of the similarity (WikiText-2: .662)", low=0)
    window: int = setting(500, doc="number of positions to look back on (WikiText-2: 3785)", low=1)
    start: str = setting(
        "full_window",
        doc="use the cache only with a full window, as pointer.py, or with all positions so far",
        choices=("full_window", "growing"),
    )
    chunk: int = setting(5000, doc="with full_window: steps of pointer.py's BPTT", low=1)
    temperature: float = setting(1.0, doc="divides the vocabulary's logits; 1: off", low=0.01)


def cached_log_probs(
    states_SH: Tensor,
    targets_S: Tensor,
    past_states_KH: Tensor,
    past_targets_K: Tensor,
    theta: float,
    window: int,
) -> Tensor:
    """log p_cache of the targets of a block, [S]. The past starts at most `window` positions before
    the block and includes the block itself.

    -inf if the target is not in the past; nan at the very first position, which has no past.
    """
    num, past = len(states_SH), len(past_states_KH)
    scores_SK = (theta * states_SH) @ past_states_KH.t()
    square_SS = torch.ones(num, num, dtype=torch.bool, device=scores_SK.device)
    # Two corners are outside the band: the future, and the past beyond the window.
    scores_SK[:, past - num :].masked_fill_(square_SS.triu(), -math.inf)
    scores_SK[:, :num].masked_fill_(square_SS.tril(past - num - window - 1), -math.inf)
    peak_S1 = scores_SK.amax(1, keepdim=True)
    weights_SK = scores_SK.sub_(peak_S1).exp_()
    matching_SK = torch.where(targets_S[:, None] == past_targets_K, weights_SK, 0.0)
    return (matching_SK.sum(1) / weights_SK.sum(1)).log_()


def is_cached(positions_S: Tensor, config: CacheConfig) -> Tensor:
    """Return at which predictions, counted from 0, the cache is mixed in."""
    if config.start == "growing":
        return positions_S > 0
    full = positions_S > config.window
    return full & ((positions_S % config.chunk > 0) | (positions_S < config.chunk))


@torch.no_grad()
def stream_log_probs(model: LanguageModel, stream_N: Tensor, config: CacheConfig) -> np.ndarray:
    """log p of every token after the first, in float64; only the window is stored of the past."""
    rows_TB = tokens_on(model, stream_N)[:, None]
    past_states_KH, past_targets_K = None, rows_TB.new_zeros(0)
    position, log_probs = 0, []
    for passed, targets_TB in passes(model, rows_TB, at_most(model, BLOCK)):
        targets_S, states_SH = targets_TB[:, 0], passed.features.raw[-1][:, 0]
        plain_S = -token_nll(tempered(passed.mixture, config.temperature), targets_S).double()
        before = states_SH[:0] if past_states_KH is None else past_states_KH[-config.window :]
        past_states_KH = torch.cat([before, states_SH])
        past_targets_K = torch.cat([past_targets_K[-config.window :], targets_S])
        past = (past_states_KH, past_targets_K, config.theta, config.window)
        cached_S = cached_log_probs(states_SH, targets_S, *past).double()
        positions_S = torch.arange(position, position + len(targets_S), device=plain_S.device)
        mixed_S = torch.logaddexp(
            # math.log(0) raises an error, so a share of 0 or 1 has a form of its own.
            math.log1p(-config.share) + plain_S if config.share < 1 else plain_S - math.inf,
            math.log(config.share) + cached_S if config.share > 0 else cached_S - math.inf,
        )
        # The very first prediction, whose mixture is nan, is never a cached one.
        log_probs.append(torch.where(is_cached(positions_S, config), mixed_S, plain_S))
        position += len(targets_S)
    return torch.cat(log_probs).cpu().numpy()


@register(
    "evaluator",
    "cache",
    config=CacheConfig,
    paper="grave2017cache",
    equation="Eq. 3-5",
    departures=(
        "starts like pointer.py by default, and not at the second word as in the paper",
        "the mean is over the predicted tokens, while pointer.py divides by one more",
    ),
)
@final
class Cache(Evaluator):
    """The models, each mixed with a cache of its own states."""

    def __init__(self, config: CacheConfig) -> None:
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        stream_N = reading.stream(split)
        return mean_over_models(
            reading.models, lambda model: stream_log_probs(model, stream_N, self.config)
        )
