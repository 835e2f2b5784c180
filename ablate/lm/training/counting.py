"""An n-gram model evaluated as an arm: counted in one step, nothing trained.

Interpolated modified Kneser-Ney, mixed with a unigram cache whose weight is tuned on the
validation text and then used on test. Evaluators that read counts answer with the same mixture.
"""

from __future__ import annotations

import torch

from ablate.config.identity import Trial
from ablate.config.metrics import perplexity
from ablate.errors import ConfigError
from ablate.lm.data.corpus import open_corpus
from ablate.lm.model import ngram
from ablate.lm.model.evaluator import Reading
from ablate.lm.sections import NgramConfig
from ablate.lm.training.evaluation import metrics_beside, per_byte, per_character
from ablate.trial.checkpoint import weights_digest
from ablate.trial.task import AtOnce, Conclusion, Place, splits_of


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
        """Count the n-grams, tune their weights on valid, and judge the splits."""
        corpus, config, level = self.corpus, self.config, self.trial.config.corpus.level
        ngrams = ngram.fit(corpus.splits["train"], corpus.num_words, corpus.eos, config.order)
        counts = ngram.tuned(ngrams, config.cache_window, corpus.splits["valid"])
        splits = splits_of(self.trial)
        log_probs = {split: counts.log_probs(corpus.splits[split]) for split in splits}
        metrics = {f"weight_{part}": weight for part, weight in counts.weights.items()}
        for split, values in log_probs.items():
            nll = -float(values.mean())
            bits = per_character(level, nll) | per_byte(corpus, nll, split)
            own = {"nll": nll, "ppl": perplexity(nll), **bits}
            metrics |= {f"{split}_{name}": value for name, value in own.items()}
        reading = Reading((), corpus, counts=counts)
        metrics |= metrics_beside(reading, self.trial.config, splits)
        return Conclusion(
            metrics=metrics,
            num_parameters=ngrams.num_ngrams,
            digest=weights_digest({s: torch.from_numpy(p) for s, p in log_probs.items()}),
            token_log_probs=log_probs,
        )
