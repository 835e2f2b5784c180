"""An n-gram model evaluated as an arm: counted in one step, nothing trained.

Interpolated modified Kneser-Ney, mixed with a unigram cache whose weight is tuned on the
validation text and then used on test.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from ablate.config.identity import Trial
from ablate.config.sections import NgramConfig
from ablate.data.corpus import open_corpus
from ablate.errors import ConfigError
from ablate.model import ngram
from ablate.trial.checkpoint import weights_digest
from ablate.trial.task import AtOnce, Conclusion, Place, splits_of

Parts = dict[str, np.ndarray]  # model in the mixture -> log p of a split's tokens


class Counting(AtOnce):
    """A `Task` for trials with model = "ngram"."""

    def __init__(self, trial: Trial, place: Place) -> None:
        config = trial.config
        if "ngram" not in config.sections:
            raise ConfigError(f"trial {trial.id} counts n-grams, and has model != 'ngram'.")
        self.trial = trial
        self.config: NgramConfig = config.sections["ngram"]
        self.corpus = open_corpus(config.corpus, place.data, trial.seed)

    def conclude(self) -> Conclusion:
        corpus, config = self.corpus, self.config
        model = ngram.fit(corpus.splits["train"], corpus.num_words, corpus.eos, config.order)
        parts = {split: self._parts(model, split) for split in splits_of(self.trial)}
        weights = ngram.tuned_weights(np.stack(list(parts["valid"].values())))
        log_probs = {
            split: ngram.interpolated(np.stack(list(of_split.values())), weights)
            for split, of_split in parts.items()
        }
        metrics = {
            f"weight_{part}": float(weight)
            for part, weight in zip(parts["valid"], weights, strict=True)
        }
        for split, values in log_probs.items():
            nll = -float(values.mean())
            metrics |= {f"{split}_nll": nll, f"{split}_ppl": math.exp(min(nll, 700))}
        return Conclusion(
            metrics=metrics,
            num_parameters=model.num_ngrams,
            digest=weights_digest({s: torch.from_numpy(p) for s, p in log_probs.items()}),
            token_log_probs=log_probs,
        )

    def _parts(self, model: ngram.KneserNey, split: str) -> Parts:
        stream = self.corpus.splits[split]
        parts = {"ngram": model.log_probs(stream)}
        if self.config.cache_window:
            parts["cache"] = ngram.cache_log_probs(stream, self.config.cache_window)
        return parts
