"""The contracts of every evaluator: repeatable log-probabilities of every token."""

from __future__ import annotations

import numpy as np
import torch

from ablate.config import registry
from ablate.errors import CombinationError
from ablate.lm.model.evaluator import Reading
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.testing.subject import (
    RandomPairs,
    RandomText,
    SmallModel,
    Subject,
    require,
    require_equal,
)

LENGTH = 39  # tokens of the test split after the first


def log_probs_of_every_token(subject: Subject) -> None:
    """It returns every token's log-probability except the first's, in float64, or refuses."""
    small = _small(subject)
    if not subject.technique.build.gives_log_probs:
        return _refuses(subject, small)
    first, second = (_log_probs(subject, [small.model]) for _ in range(2))
    require(first.dtype == np.float64, f"log-probabilities in {first.dtype}.")
    require(first.shape == (LENGTH,), f"{first.shape} log-probabilities, not ({LENGTH},).")
    require(bool(np.isfinite(first).all()), "some log-probabilities are not finite.")
    require(bool((first <= 0).all()), "some log-probabilities are above 0.")
    require(np.array_equal(first, second), "a second evaluation gives different log-probabilities.")
    return None


def models_are_left_alone(subject: Subject) -> None:
    """The model's weights, gradients and trained parameters are not changed."""
    if not _reads_random_text(subject):
        return
    small = _small(subject)
    before = {name: value.clone() for name, value in small.model.state_dict().items()}
    _metrics(subject, [small.model])
    require_equal(before, small.model.state_dict(), "changed")
    parameters = list(small.model.parameters())
    require(all(p.requires_grad for p in parameters), "some parameters are no longer trained.")
    require(all(p.grad is None for p in parameters), "some parameters have gradients afterwards.")


def metrics_repeat(subject: Subject) -> None:
    """Its metrics are finite, and the same when computed again."""
    if not _reads_random_text(subject):
        return
    small = _small(subject)
    first, second = (_metrics(subject, [small.model]) for _ in range(2))
    require(bool(first), "no metrics.")
    require(first == second, f"{first}, then {second}.")
    require(all(map(np.isfinite, first.values())), f"not finite: {first}.")


def several_models_are_judged_together(subject: Subject) -> None:
    """A model and an ensemble of its copies have the same log-probabilities."""
    if subject.technique.build.gives_log_probs:
        # Double precision, so that a mean of equal probabilities is the same to nine digits.
        model = SmallModel({}).model
        one, two = (_log_probs(subject, [model] * number) for number in (1, 2))
        np.testing.assert_allclose(one, two, rtol=1e-9)


def _small(subject: Subject) -> SmallModel:
    # Single precision, as in a trial.
    return SmallModel({}, dtype=torch.float32, pairs=subject.reads_pairs)


def _reads_random_text(subject: Subject) -> bool:
    """Return whether the evaluator can read the contracts' text, which one of trees cannot."""
    try:
        subject.build().check_text(_text(subject))
    except CombinationError:
        return False
    return True


def _reading(subject: Subject, models: list[LanguageModel]) -> Reading:
    """A reading with the evaluator and the standard one, which it may build on."""
    plain = registry.get("evaluator", "standard")
    built = {plain.name: plain.build(plain.config()), subject.name: subject.build()}
    return Reading(models, _text(subject), built)


def _text(subject: Subject) -> RandomText:
    return RandomPairs() if subject.reads_pairs else RandomText()


def _log_probs(subject: Subject, models: list[LanguageModel]) -> np.ndarray:
    return _reading(subject, models).log_probs(subject.name, "test")


def _metrics(subject: Subject, models: list[LanguageModel]) -> dict[str, float]:
    reading = _reading(subject, models)
    return reading.evaluators[subject.name].metrics(reading, subject.name, "test")


def _refuses(subject: Subject, small: SmallModel) -> None:
    try:
        _log_probs(subject, [small.model])
    except CombinationError as error:
        require(subject.name in str(error), f"the error does not name the evaluator: {error}")
    else:
        raise AssertionError("gives_log_probs is False, but it gives some.")
