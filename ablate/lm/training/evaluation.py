"""Evaluating trained models: validation after an epoch, evaluators at the end, ensembles."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ablate.config import registry
from ablate.config.config import Config
from ablate.config.identity import Role, Trial
from ablate.config.metrics import BITS_PER_BYTE, SPLIT, reported_name
from ablate.config.streams import Streams
from ablate.lm.data.corpus import AnyCorpus, open_corpus
from ablate.lm.model.evaluator import Evaluator, Pieces, Reading
from ablate.lm.model.flow import TrainingText
from ablate.lm.model.language_model import LanguageModel, num_parameters
from ablate.lm.model.native import library
from ablate.lm.model.reading import losses, tokens_on
from ablate.lm.model.regularizer import Regularizer
from ablate.lm.training.finished import finished
from ablate.lm.training.pieces import Paused, SavedPieces
from ablate.trial.checkpoint import prefixed, weights_digest
from ablate.trial.task import Conclusion, Place, splits_of


@torch.no_grad()
def rows_nll(model: LanguageModel, rows: Tensor, window: int, stride: int | None = None) -> float:
    """Mean nats per token over rows read in parallel, with the state carried between windows, or
    with overlapping ones."""
    model.eval()
    # In double precision, as the sum is over a whole split.
    total = torch.zeros((), dtype=torch.float64, device=model.device)
    for nll_TB in losses(model, tokens_on(model, rows), window, stride):
        total += nll_TB.double().sum()
    return total.item() / ((len(rows) - 1) * rows.shape[1])  # a row's first token has no loss


def reading_of(
    trial: Trial,
    corpus: AnyCorpus,
    models: Sequence[LanguageModel],
    regularizers: Sequence[Sequence[Regularizer]],
    pieces: Pieces | None = None,
) -> Reading:
    """What a trial's evaluators read. `regularizers` are each model's, to draw masks from."""
    available = {"standard": _standard(), **_evaluators(trial.config)}  # that others may build on
    pieces = pieces or Pieces()
    return Reading(models, corpus, available, regularizers=regularizers, pieces=pieces)


def judge(trial: Trial, reading: Reading, weights: Mapping[str, Tensor]) -> Conclusion:
    """Each split's mean nats and perplexity by each evaluator, and every token's log p.

    The first evaluator (default: `standard`) gives `valid_nll` and `test_nll`; the others prefix
    their names. `weights` are all of the models'.
    """
    chosen, splits = _evaluators(trial.config), splits_of(trial)
    own = trial.config.first_evaluator
    log_probs = {split: reading.log_probs(own, split) for split in splits}
    metrics = _metrics(reading, chosen, splits, trial.config.corpus.level, own)
    first = 0 if reading.pairs else 1  # of one text, the first token is not predicted
    return Conclusion(
        metrics=metrics,
        sentences=reading.sentences,
        signatures=reading.signatures,
        num_parameters=sum(map(num_parameters, reading.models)),
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
            values = _measured(reading, evaluator, name, split)
            if "nll" in values:
                exact = values.get("exact_nll", values["nll"])
                values |= per_character(level, values["nll"])
                values |= per_byte(reading.text, exact, split)
            for metric, value in values.items():
                metrics[prefix + reported_name(metric, of, split)] = value
    return metrics


def per_character(level: str, nll: float) -> dict[str, float]:
    """The bits per character, by their name, where a token is a character or the end of a line."""
    return {"bits_per_character": nll / math.log(2)} if level == "character" else {}


def per_byte(text: TrainingText, nll: float, split: str) -> dict[str, float]:
    """The bits per byte of a split, by their name, where the bytes are known."""
    bits = text.bits_per_byte(nll, split) if isinstance(text, AnyCorpus) else None
    return {} if bits is None else {BITS_PER_BYTE.name: bits}


def _measured(reading: Reading, evaluator: Evaluator, name: str, split: str) -> dict[str, float]:
    """An evaluator's metrics, as a piece, with what was written and signed for them."""

    def step(number: int, none: None) -> dict[str, Any]:
        values = evaluator.metrics(reading, name, split)
        # Kept with the piece: a resumed trial does not compute it again, and still saves them.
        beside = {"sentences": dict(reading.sentences), "signatures": dict(reading.signatures)}
        return {"values": values, **beside}

    piece = reading.pieces.folded(f"metrics/{name}/{split}", 1, step)
    reading.sentences.update(piece["sentences"])
    reading.signatures.update(piece["signatures"])
    return dict(piece["values"])


def _evaluators(config: Config) -> dict[str, Evaluator]:
    """The chosen evaluators, after the one that gives the trial's numbers."""
    chosen = config.listed.get("evaluator", ())
    made = {choice.name: choice.make() for choice in chosen}
    first = config.first_evaluator
    return {first: made.get(first) or _standard(), **made}


def _standard() -> Evaluator:
    technique: Any = registry.get("evaluator", "standard")
    return technique.build(technique.config())


class Evaluation:
    """Finished trials evaluated as an ensemble; a `Task` without training. Parents: "member".

    It has no epochs: `advance` computes pieces, until it has the conclusion.
    """

    def __init__(self, trial: Trial, place: Place) -> None:
        torch.set_num_threads(trial.threads)
        self._uses = library.uses()
        self.trial = trial
        corpus = open_corpus(trial.config.corpus, place.data, trial.seed)
        shared = (corpus, trial.device, trial.config)
        members = [finished(place.store, one, *shared) for one in trial.parent_ids(Role.MEMBER)]
        models = [member.model for member in members]
        regularizers = [member.regularizers for member in members]
        self.pieces = SavedPieces(Streams(trial.seed, trial.device))
        self.reading = reading_of(trial, corpus, models, regularizers, self.pieces)
        self.conclusion: Conclusion | None = None
        self.seconds = 0.0

    @property
    def computed_by(self) -> list[str]:
        """What has computed the models' work, for records."""
        return library.computed_by(self._uses)

    @property
    def finished(self) -> bool:
        """Return whether every piece has been evaluated."""
        return self.conclusion is not None

    def advance(self, seconds: float) -> dict[str, Any] | None:
        """Compute pieces until the first that ends after `seconds`."""
        self.pieces.pause_after(seconds)
        with suppress(Paused):
            self.conclusion = self._judged()
        return None

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the finished pieces and the time that they took."""
        tensors, pieces = self.pieces.saved()
        return tensors, {**pieces, "seconds": self.seconds}

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        """Load a checkpoint; evaluation resumes after its pieces."""
        self.pieces.restore(tensors, plain)
        self.seconds = plain.get("seconds", 0.0)

    def conclude(self) -> Conclusion:
        """Evaluate the remaining pieces without a pause; return the conclusion."""
        self.pieces.pause_after(math.inf)
        return self.conclusion or self._judged()

    def _judged(self) -> Conclusion:
        start = time.monotonic()
        weights: dict[str, Tensor] = {}
        for index, model in enumerate(self.reading.models):
            weights |= prefixed(str(index), model.state_dict())
        try:
            concluded = judge(self.trial, self.reading, weights)
        finally:  # a pause, too, ends a slice that took time
            self.seconds += time.monotonic() - start
        return replace(concluded, weights={}, seconds=round(self.seconds, 3))  # members keep theirs
