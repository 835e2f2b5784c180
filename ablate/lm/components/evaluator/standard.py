"""Plain evaluation: predict every token from all tokens before it; the state is carried along.

A model that remembers a window alone predicts every token from those before it in its window. With
a `stride` its windows overlap, and a token is counted in the window where it is among the last.

Of pairs of sentences, every token of the target is predicted from the source and the target's
tokens before it; how the stream is read has no meaning then.

A temperature T divides the logits: p = softmax(s / T), inside each expert of a mixture.

The public AWD-LSTM code adds up the loss of the n - 1 predictions in each row of n tokens and
divides by n, so the loss it prints is (n - 1)/n of the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from ablate.config.metrics import perplexity
from ablate.lm.components import Evaluator, LanguageModel, Reading, register, setting
from ablate.lm.kinds import PAIRS, TEXT
from ablate.lm.model.evaluator import mean_over_models
from ablate.lm.model.reading import stream_log_probs
from ablate.lm.model.sentences import pairs_log_probs

PAIRS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class StandardConfig:
    """How the stream is read. A single row predicts every token except the first."""

    batch_size: int = setting(
        1, doc="rows the stream is cut into; loses each row's first token and the rest", low=1
    )
    window: int = setting(200, doc="steps evaluated at a time", low=1, window=True)
    stride: int | None = setting(
        None,
        doc="a window begins N steps after the one before, and its last N alone are counted; none: "
        "windows follow each other",
        low=1,
        window=True,
    )
    temperature: float = setting(1.0, doc="divides the logits; 1: off", low=0.01)
    ppl_convention: str = setting(
        "exact",
        doc="divide by the number of predicted tokens, or of all tokens in the rows (AWD's code)",
        choices=("exact", "awd_rows"),
    )


def awd_rows_nll(nll: float, num_tokens: int, num_rows: int) -> float:
    """The loss that AWD's code prints: it divides by n for n - 1 predictions per row."""
    predicted = num_tokens // num_rows - 1
    return nll * predicted / (predicted + 1)


@register("evaluator", "standard", config=StandardConfig)
@final
class Standard(Evaluator):
    """The models as trained."""

    reads = frozenset({TEXT, PAIRS})

    def __init__(self, config: StandardConfig) -> None:
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        config, pairs = self.config, reading.pairs

        def log_probs(model: LanguageModel) -> np.ndarray:
            if pairs is not None:
                return pairs_log_probs(model, pairs, split, PAIRS_AT_ONCE, config.temperature)
            sizes = (config.batch_size, config.window)
            more = {"stride": config.stride, "temperature": config.temperature}
            return stream_log_probs(model, reading.stream(split), *sizes, **more)

        return mean_over_models(reading.models, log_probs)

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        """With AWD's convention, also record the exact loss as `exact_nll`."""
        exact = super().metrics(reading, name, split)
        if self.config.ppl_convention == "exact" or reading.pairs is not None:
            return exact
        num_tokens = len(reading.stream(split))
        nll = awd_rows_nll(exact["nll"], num_tokens, self.config.batch_size)
        return {"nll": nll, "ppl": perplexity(nll), "exact_nll": exact["nll"]}
