"""Evaluating trained models: validation after an epoch, evaluators at the end, ensembles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ablate.config import registry
from ablate.config.identity import Role, Trial
from ablate.config.metrics import SPLIT, reported_name
from ablate.config.resolve import Config
from ablate.data.corpus import AnyCorpus, open_corpus
from ablate.model.evaluator import Evaluator, Reading
from ablate.model.language_model import LanguageModel, num_parameters
from ablate.model.mixture import token_nll
from ablate.model.regularizer import Regularizer
from ablate.trial.checkpoint import prefixed, weights_digest
from ablate.trial.finished import finished
from ablate.trial.task import AtOnce, Conclusion, Place, splits_of


@torch.no_grad()
def rows_nll(model: LanguageModel, rows: Tensor, window: int) -> float:
    """Mean nats per token over rows read in parallel, with the state carried between windows."""
    model.eval()
    device = model.device
    state = model.initial_state(rows.shape[1])
    total = torch.zeros((), dtype=torch.float64, device=device)
    for start in range(0, len(rows) - 1, window):
        span = rows[start : start + window + 1].to(device, torch.long)
        passed = model(span[:-1], state)
        total += token_nll(passed.mixture, span[1:].reshape(-1)).double().sum()
        state = passed.state
    return total.item() / ((len(rows) - 1) * rows.shape[1])


def judge(
    trial: Trial,
    corpus: AnyCorpus,
    models: Sequence[LanguageModel],
    regularizers: Sequence[Sequence[Regularizer]],
    weights: Mapping[str, Tensor],
) -> Conclusion:
    """Each split's mean nats and perplexity by each evaluator, and every token's log p.

    The first evaluator (default: `standard`) gives `valid_nll` and `test_nll`; the others prefix
    their names. `regularizers` are each model's, for evaluators that draw masks. `weights` are
    all of the models'.
    """
    chosen, splits = _evaluators(trial.config), splits_of(trial)
    available = {"standard": _standard(), **chosen}  # what evaluators may build on
    reading = Reading(models, corpus, available, regularizers=regularizers)
    own = trial.config.first_evaluator
    log_probs = {split: reading.log_probs(own, split) for split in splits}
    metrics = _metrics(reading, chosen, splits, trial.config.corpus.level, own)
    first = 0 if reading.pairs else 1  # of one text, the first token is not predicted
    return Conclusion(
        metrics=metrics,
        sentences=reading.sentences,
        signatures=reading.signatures,
        num_parameters=sum(map(num_parameters, models)),
        digest=weights_digest(weights),
        weights=weights,
        token_log_probs={  # none of a split whose rows leave tokens out
            split: values
            for split, values in log_probs.items()
            if len(values) == len(reading.stream(split)) - first
        },
    )


def check_text(config: Config, corpus: AnyCorpus) -> None:
    """Refuse, before anything trains, a text or files that the config's evaluators cannot read."""
    for evaluator in _evaluators(config).values():
        evaluator.check_text(corpus)


def metrics_beside(reading: Reading, config: Config, splits: Sequence[str]) -> dict[str, float]:
    """The metrics of a config's evaluators for a model that has its own numbers already."""
    own = config.first_evaluator
    chosen = {name: each for name, each in _evaluators(config).items() if name != own}
    return _metrics(reading, chosen, splits, config.corpus.level, own="")


def _metrics(
    reading: Reading,
    chosen: Mapping[str, Evaluator],
    splits: Sequence[str],
    level: str,
    own: str,
) -> dict[str, float]:
    """The metrics of every evaluator by its name; those of `own` are the trial's."""
    metrics: dict[str, float] = {}
    for name, evaluator in chosen.items():
        prefix = "" if name == own else f"{name}."
        of = next((metric.of for metric in registry.get("evaluator", name).metrics), SPLIT)
        for split in splits if of == SPLIT else (of,):
            values = evaluator.metrics(reading, name, split)
            if level == "character" and "nll" in values:
                values["bits_per_character"] = values["nll"] / math.log(2)
            for metric, value in values.items():
                metrics[prefix + reported_name(metric, of, split)] = value
    return metrics


def _evaluators(config: Config) -> dict[str, Evaluator]:
    """The chosen evaluators, after the one that gives the trial's numbers."""
    chosen = config.listed.get("evaluator", ())
    made = {c.name: registry.make("evaluator", c.name, c.config) for c in chosen}
    first = config.first_evaluator
    return {first: made.get(first) or _standard(), **made}


def _standard() -> Evaluator:
    return registry.make("evaluator", "standard", registry.get("evaluator", "standard").config())


class Evaluation(AtOnce):
    """Finished trials evaluated as an ensemble; a `Task` without training. Parents: "member"."""

    def __init__(self, trial: Trial, place: Place) -> None:
        torch.set_num_threads(trial.threads)
        self.trial = trial
        self.corpus = open_corpus(trial.config.corpus, place.data, trial.seed)
        shared = (self.corpus, trial.device, trial.config)
        self.members = [
            finished(place.store, member, *shared) for member in trial.parent_ids(Role.MEMBER)
        ]

    def conclude(self) -> Conclusion:
        models = [member.model for member in self.members]
        regularizers = [member.regularizers for member in self.members]
        weights: dict[str, Tensor] = {}
        for index, model in enumerate(models):
            weights |= prefixed(str(index), model.state_dict())
        concluded = judge(self.trial, self.corpus, models, regularizers, weights)
        return replace(concluded, weights={})  # the members keep theirs
