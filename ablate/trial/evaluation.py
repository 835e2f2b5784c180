"""Evaluating trained models: validation after an epoch, evaluators at the end, ensembles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ablate.config import registry
from ablate.config.identity import Role, Trial
from ablate.config.resolve import Config
from ablate.data.corpus import Corpus, open_corpus
from ablate.model.evaluator import Evaluator, Reading
from ablate.model.language_model import LanguageModel, num_parameters
from ablate.model.mixture import token_nll
from ablate.model.regularizer import Regularizer
from ablate.trial.checkpoint import weights_digest
from ablate.trial.finished import finished
from ablate.trial.task import AtOnce, Conclusion, Place


@torch.no_grad()
def rows_nll(model: LanguageModel, rows: Tensor, window: int) -> float:
    """Mean nats per token over rows read in parallel, with the state carried between windows."""
    model.eval()
    device = model.embedding.weight.device
    state = model.initial_state(rows.shape[1])
    total = torch.zeros((), dtype=torch.float64, device=device)
    for start in range(0, len(rows) - 1, window):
        span = rows[start : start + window + 1].to(device, torch.long)
        passed = model(span[:-1], state)
        total += token_nll(passed.mixture, span[1:].reshape(-1)).double().sum()
        state = passed.state
    return total.item() / ((len(rows) - 1) * rows.shape[1])


def judge(
    models: Sequence[LanguageModel],
    config: Config,
    corpus: Corpus,
    splits: Sequence[str],
    regularizers: Sequence[Sequence[Regularizer]] = (),
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Each split's mean nats and perplexity by each evaluator, and every token's log p.

    The first evaluator (default: `standard`) gives `valid_nll` and `test_nll`; the others prefix
    their names. `regularizers` are each model's, for evaluators that draw masks.
    """
    built = _evaluators(config)
    reading = Reading(models, corpus, _available(built), regularizers=regularizers)
    metrics: dict[str, float] = {}
    for position, (name, evaluator) in enumerate(built.items()):
        prefix = f"{name}." if position else ""
        for split in splits:
            found = evaluator.metrics(reading, name, split)
            if corpus.level == "character" and "nll" in found:
                found["bits_per_character"] = found["nll"] / math.log(2)
            metrics |= {f"{prefix}{split}_{metric}": value for metric, value in found.items()}
    first = next(iter(built))
    return metrics, {s: found for s in splits if (found := _whole(reading, first, s)) is not None}


def _whole(reading: Reading, name: str, split: str) -> np.ndarray | None:
    """Every token's log p, in the split's order; None if rows leave tokens out."""
    found = reading.log_probs(name, split)
    return found if len(found) == len(reading.stream(split)) - 1 else None


def _evaluators(config: Config) -> dict[str, Evaluator]:
    """The chosen evaluators, after the one that gives the trial's numbers: the first that evaluates
    every token, or `standard` if none does.
    """
    chosen = config.listed.get("evaluator", ())
    made = {c.name: registry.make("evaluator", c.name, c.config) for c in chosen}
    first = next((name for name, each in made.items() if each.gives_log_probs), "standard")
    return {first: made.get(first) or _standard(), **made}


def _available(chosen: Mapping[str, Evaluator]) -> dict[str, Evaluator]:
    """The evaluators that others may build on: the chosen ones and `standard`."""
    return {"standard": _standard(), **chosen}


def _standard() -> Evaluator:
    return registry.make("evaluator", "standard", registry.get("evaluator", "standard").config())


class Evaluation(AtOnce):
    """Finished trials evaluated as an ensemble; a `Task` without training. Parents: "member"."""

    def __init__(self, trial: Trial, place: Place) -> None:
        torch.set_num_threads(trial.threads)
        self.trial = trial
        self.config = trial.config
        self.corpus = open_corpus(self.config.corpus, place.data, trial.seed)
        given = (self.corpus, trial.device, trial.config)
        ids = trial.parent_ids(Role.MEMBER)
        members = [finished(place.store, member, *given) for member in ids]
        self.models = [member.model for member in members]
        self.regularizers = [member.regularizers for member in members]

    def conclude(self) -> Conclusion:
        splits = ("valid", "test") if self.trial.reads_test else ("valid",)
        given = (self.config, self.corpus, splits, self.regularizers)
        metrics, token_log_probs = judge(self.models, *given)
        weights = [model.state_dict() for model in self.models]
        return Conclusion(
            metrics=metrics,
            num_parameters=sum(num_parameters(model) for model in self.models),
            digest=weights_digest(
                {f"{i}.{name}": t for i, state in enumerate(weights) for name, t in state.items()}
            ),
            token_log_probs=token_log_probs,
        )
