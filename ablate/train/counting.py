"""An n-gram model judged as an arm of its own: counted in one go, nothing trained.

Interpolated modified Kneser-Ney, and a unigram cache beside it whose weight is tuned on the
validation text and then used on test.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from ablate import ngram
from ablate.config import resolve
from ablate.data.corpus import open_corpus
from ablate.errors import ConfigError
from ablate.identity import Trial
from ablate.ngram_config import NgramConfig
from ablate.train.checkpoint import weights_digest
from ablate.train.task import AtOnce, Conclusion, Place

Parts = dict[str, np.ndarray]  # log p of a split's tokens, by the models that are mixed


class Counting(AtOnce):
    """A `Task` for trials with model = "ngram"."""

    def __init__(self, trial: Trial, place: Place) -> None:
        config = resolve(trial.values)
        if config.ngram is None:
            raise ConfigError(f"trial {trial.id} counts n-grams, and has model != 'ngram'.")
        self.trial = trial
        self.config: NgramConfig = config.ngram
        self.corpus = open_corpus(config.corpus, place.data)

    def conclude(self) -> Conclusion:
        corpus, config = self.corpus, self.config
        model = ngram.fit(corpus.splits["train"], corpus.num_words, corpus.eos, config.order)
        splits = ("valid", "test") if self.trial.reads_test else ("valid",)
        parts = {split: self._parts(model, split) for split in splits}
        weights = ngram.tuned_weights(np.stack(list(parts["valid"].values())))
        log_probs = {
            split: ngram.interpolated(np.stack(list(found.values())), weights)
            for split, found in parts.items()
        }
        return Conclusion(
            metrics=_metrics(log_probs, dict(zip(parts["valid"], weights, strict=True))),
            num_parameters=model.num_ngrams,
            digest=weights_digest({s: torch.from_numpy(found) for s, found in log_probs.items()}),
            token_log_probs=log_probs,
        )

    def _parts(self, model: ngram.KneserNey, split: str) -> Parts:
        stream = self.corpus.splits[split]
        found = {"ngram": model.log_probs(stream)}
        if self.config.cache_window:
            found["cache"] = ngram.cache_log_probs(stream, self.config.cache_window)
        return found


def _metrics(log_probs: Parts, weights: dict[str, float]) -> dict[str, float]:
    found = {}
    for split, each in log_probs.items():
        nll = -float(each.mean())
        found |= {f"{split}_nll": nll, f"{split}_ppl": math.exp(min(nll, 700))}
    return found | {f"weight_{part}": float(weight) for part, weight in weights.items()}
