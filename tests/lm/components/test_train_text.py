"""Perplexity on the training text, against the plain evaluation of its rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.lm.components.evaluator.standard import Standard, StandardConfig
from ablate.lm.components.evaluator.train_text import TrainText, TrainTextConfig
from ablate.lm.model.evaluator import Reading
from ablate.lm.testing.subject import RandomText, SmallModel


def measured(*models, **config) -> dict[str, float]:
    evaluator = TrainText(TrainTextConfig(**config))
    return evaluator.metrics(Reading(models, RandomText()), "train_text", "train")


@pytest.mark.parametrize("rows", [1, 4])
def test_it_is_the_mean_over_the_training_text(rows):
    models = [SmallModel({}, seed=seed).model for seed in (1, 2)]
    plain = Standard(StandardConfig(batch_size=rows))
    log_probs = plain.token_log_probs(Reading(models, RandomText()), "train")
    expected = -np.mean(log_probs)
    actual = measured(*models, rows=rows)
    assert actual["nll"] == pytest.approx(expected, rel=1e-12)
    assert actual["ppl"] == pytest.approx(math.exp(expected), rel=1e-12)


def test_its_first_tokens_alone():
    model = SmallModel({}).model
    whole, part = measured(model, rows=1), measured(model, rows=1, tokens=100)
    plain = Standard(StandardConfig()).token_log_probs(Reading([model], RandomText()), "train")
    assert part["nll"] == pytest.approx(-plain[:99].mean(), rel=1e-12) != whole["nll"]
