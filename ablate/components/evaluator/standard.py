"""The plain evaluation: predict every token from all that precede it, the state carried along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from ablate.components.evaluator import Evaluator, Reading, mean_over_models
from ablate.components.mixture import token_nll
from ablate.fields import setting
from ablate.model import LanguageModel
from ablate.registry import register


@dataclass(frozen=True, kw_only=True)
class StandardConfig:
    """How the stream is walked through. One row covers every token but the first."""

    batch_size: int = setting(
        1, doc="rows the stream is cut into; each loses its first token, the rest is trimmed", low=1
    )
    window: int = setting(200, doc="steps evaluated at a time", low=1, identity=False)


def rows_of(stream_N: Tensor, num_rows: int) -> Tensor:
    """The stream as contiguous rows side by side, [T, B], trimmed to what fills them."""
    length = len(stream_N) // num_rows
    return stream_N[: length * num_rows].view(num_rows, length).t()


@torch.no_grad()
def stream_log_probs(
    model: LanguageModel, stream_N: Tensor, batch_size: int, window: int
) -> np.ndarray:
    """log p of every token but each row's first, row after row, in float64."""
    rows_TB = rows_of(stream_N.to(model.embedding.weight.device), batch_size)
    parts = list(_window_log_probs(model, rows_TB, window))
    return torch.cat(parts).t().flatten().double().cpu().numpy()


def _window_log_probs(model: LanguageModel, rows_TB: Tensor, window: int) -> Iterator[Tensor]:
    state = model.initial_state(rows_TB.shape[1])
    for start in range(0, len(rows_TB) - 1, window):
        stop = min(start + window, len(rows_TB) - 1)
        targets_TB = rows_TB[start + 1 : stop + 1]
        passed = model(rows_TB[start:stop], state)
        state = passed.state
        yield -token_nll(passed.mixture, targets_TB.flatten()).view(targets_TB.shape)


@register("evaluator", "standard", config=StandardConfig)
@final
class Standard(Evaluator):
    """The models as trained."""

    def __init__(self, config: StandardConfig) -> None:
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        config, stream_N = self.config, reading.stream(split)

        def of_one(model: LanguageModel) -> np.ndarray:
            return stream_log_probs(model, stream_N, config.batch_size, config.window)

        return mean_over_models(reading.models, of_one)
