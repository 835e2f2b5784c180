"""An ensemble: the mean of several models' probabilities.

log p = logsumexp_m(log p_m) - log M     (Takase et al. 2018, Table 7; Eq. 9 of 2017 for one gate)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from torch import Tensor

from ablate.components.evaluator import Evaluator
from ablate.components.evaluator.standard import stream_log_probs
from ablate.fields import setting
from ablate.model import LanguageModel
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig:
    """How the stream is walked through by every member."""

    batch_size: int = setting(
        1, doc="rows the stream is cut into; each loses its first token, the rest is trimmed", low=1
    )
    window: int = setting(200, doc="steps evaluated at a time", low=1, identity=False)


def log_mean_exp(log_probs_MN: np.ndarray) -> np.ndarray:
    """The log of the mean probability over the members."""
    return np.logaddexp.reduce(log_probs_MN, axis=0) - np.log(len(log_probs_MN))


@register("evaluator", "ensemble", config=EnsembleConfig, paper="takase2018doc", equation="Table 7")
@final
class Ensemble(Evaluator):
    """Members each carry a state of their own; any number, one included."""

    def __init__(self, config: EnsembleConfig) -> None:
        self.config = config

    def token_log_probs(self, models: Sequence[LanguageModel], stream_N: Tensor) -> np.ndarray:
        config = self.config
        members = [stream_log_probs(m, stream_N, config.batch_size, config.window) for m in models]
        return log_mean_exp(np.stack(members))
