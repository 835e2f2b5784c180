"""The plain evaluation: predict every token from all that precede it, the state carried along.

A temperature T divides the logits: p = softmax(s / T), inside each component of a mixture.

The public AWD-LSTM code adds up the loss of the n - 1 predictions in each row and divides by n,
the number of rows of its matrix, so that the loss it prints is (n - 1)/n of the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from ablate.components.evaluator import Evaluator, Reading, mean_over_models
from ablate.components.flow import Pass
from ablate.components.mixture import tempered, token_nll
from ablate.components.regularizer import OFF, Masks
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
    temperature: float = setting(1.0, doc="the logits are divided by it; 1: off", low=0.01)
    ppl_convention: str = setting(
        "exact",
        doc="mean over the tokens predicted, or as AWD's code: their sum over all rows' tokens",
        choices=("exact", "awd_rows"),
    )


def rows_of(stream_N: Tensor, num_rows: int) -> Tensor:
    """The stream as contiguous rows side by side, [T, B], trimmed to what fills them."""
    length = len(stream_N) // num_rows
    return stream_N[: length * num_rows].view(num_rows, length).t()


def tokens_on(model: LanguageModel, stream_N: Tensor) -> Tensor:
    """The stream as 64-bit indices on the model's device."""
    return stream_N.to(model.embedding.weight.device, torch.long)


def passes(
    model: LanguageModel,
    rows_TB: Tensor,
    window: int,
    masks: Callable[[int], Masks] = lambda index: OFF,
) -> Iterator[tuple[Pass, Tensor]]:
    """Window after window, the state carried: the forward pass, and its targets [T, B].

    `masks` gives those of a window by its number. The weights may change between two windows.
    """
    state = model.initial_state(rows_TB.shape[1])
    for index, start in enumerate(range(0, len(rows_TB) - 1, window)):
        stop = min(start + window, len(rows_TB) - 1)
        passed = model(rows_TB[start:stop], state, masks(index))
        state = tuple(tensor.detach() for tensor in passed.state)
        yield passed, rows_TB[start + 1 : stop + 1]


@torch.no_grad()
def stream_log_probs(
    model: LanguageModel,
    stream_N: Tensor,
    batch_size: int,
    window: int,
    *,
    temperature: float = 1.0,
    masks: Callable[[int], Masks] = lambda index: OFF,
) -> np.ndarray:
    """log p of every token but each row's first, row after row, in float64."""
    rows_TB = rows_of(tokens_on(model, stream_N), batch_size)
    parts = [
        -token_nll(tempered(passed.mixture, temperature), targets_TB.flatten()).view_as(targets_TB)
        for passed, targets_TB in passes(model, rows_TB, window, masks)
    ]
    return torch.cat(parts).t().flatten().double().cpu().numpy()


def awd_rows_nll(nll: float, num_tokens: int, num_rows: int) -> float:
    """The loss that AWD's code prints: it divides by n where each row has n - 1 predictions."""
    predicted = num_tokens // num_rows - 1
    return nll * predicted / (predicted + 1)


@register("evaluator", "standard", config=StandardConfig)
@final
class Standard(Evaluator):
    """The models as trained."""

    def __init__(self, config: StandardConfig) -> None:
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        config, stream_N = self.config, reading.stream(split)

        def of_one(model: LanguageModel) -> np.ndarray:
            how = (config.batch_size, config.window)
            return stream_log_probs(model, stream_N, *how, temperature=config.temperature)

        return mean_over_models(reading.models, of_one)

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        """Under AWD's convention the exact loss is recorded beside what its code would print."""
        exact = super().metrics(reading, name, split)
        if self.config.ppl_convention == "exact":
            return exact
        num_tokens = len(reading.stream(split))
        nll = awd_rows_nll(exact["nll"], num_tokens, self.config.batch_size)
        return {"nll": nll, "ppl": math.exp(min(nll, 700)), "exact_nll": exact["nll"]}
