"""Perplexity on the training text, without dropout (Pachitariu & Sahani 2013, Table 2).

How much a regularizer holds a model back from learning the text by heart. The `train_nll` of an
epoch is another number: with dropout on, and by weights that were still changing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from ablate.config.metrics import TRAIN_PERPLEXITY, perplexity
from ablate.lm.components import Evaluator, Reading, register, setting
from ablate.lm.model.evaluator import mean_over_models, no_log_probs
from ablate.lm.model.reading import WINDOW, at_most, stream_log_probs


@dataclass(frozen=True, kw_only=True)
class TrainTextConfig:
    """What is read of the training text, and how."""

    rows: int = setting(
        20, doc="rows the text is cut into; loses each row's first token and the rest", low=1
    )
    tokens: int | None = setting(None, doc="read only the first N tokens", low=100)


@register(
    "evaluator",
    "train_text",
    config=TrainTextConfig,
    paper="pachitariu2013irlm",
    equation="Table 2 (train)",
    departures=("the paper does not say how it reads the training text",),
    metrics=(TRAIN_PERPLEXITY,),
)
@final
class TrainText(Evaluator):
    """The models as trained, on the text that they were trained on."""

    gives_log_probs = False

    def __init__(self, config: TrainTextConfig) -> None:
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        raise no_log_probs("train_text", "reads the training text")

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        text_N = reading.stream("train")[: self.config.tokens]
        log_probs = mean_over_models(
            reading.models,
            lambda model: stream_log_probs(model, text_N, self.config.rows, at_most(model, WINDOW)),
        )
        nll = -float(np.mean(log_probs))
        return {TRAIN_PERPLEXITY.name: nll, "ppl": perplexity(nll)}
