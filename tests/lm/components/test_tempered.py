"""The tuned temperature: the best of its candidates on validation, and the same one for test."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.evaluator.dynamic import Dynamic, DynamicConfig
from ablate.lm.components.evaluator.standard import Standard, StandardConfig
from ablate.lm.components.evaluator.tempered import Tempered, TemperedConfig, candidates
from ablate.lm.model.evaluator import Reading
from ablate.lm.model.mixture import log_probs

DYNAMIC = DynamicConfig(gradient_batch_size=5, learning_rate=1e-4, decay=0.1, epsilon=0.01)
TRUE = 0.6  # the inverse temperature that the text is drawn at


class Splits:
    """Three streams of words, which the model itself wrote at another temperature."""

    num_words, eos, separators = 23, None, ()

    def __init__(self, model) -> None:
        generator = torch.Generator().manual_seed(2)
        rows_TB, state = torch.zeros(1, 3).long(), model.initial_state(3)
        for _ in range(150):
            passed = model(rows_TB[-1:], state)
            p_BV = (TRUE * log_probs(passed.mixture)).softmax(-1)
            drawn_1B = torch.multinomial(p_BV, 1, generator=generator).t()
            rows_TB, state = torch.cat((rows_TB, drawn_1B)), passed.state
        self.streams = dict(zip(("train", "valid", "test"), rows_TB.t().int(), strict=True))

    def stream(self, split):
        return self.streams[split]


@pytest.fixture
def model(build):
    """A model that is too sure of itself."""
    return build({"head.initial_range": 4.0}).model


def reading_of(model, text=None, standard=None, **config):
    with torch.no_grad():
        text = text or Splits(model)
    evaluators = {
        "standard": Standard(standard or StandardConfig()),
        "dynamic": Dynamic(DYNAMIC),
        "tempered": Tempered(TemperedConfig(**config)),
    }
    return Reading([model], text, evaluators)


def test_the_authors_candidates():
    values = [round(value, 6) for value in candidates(TemperedConfig())]
    assert (values[0], values[1], values[-1], len(values)) == (1.06, 1.04, 0.8, 14)
    upwards = candidates(TemperedConfig(first=0.5, last=0.75, step=0.1))
    assert list(upwards) == pytest.approx([0.5, 0.6, 0.7])


@pytest.mark.slow
@pytest.mark.parametrize("of", ["standard", "dynamic"])
def test_it_is_the_other_at_the_best_of_all_candidates(model, of):
    """The losses have one minimum here, so that the search finds the best of all."""
    reading = reading_of(model, of=of, last=0.1, step=0.1)
    kinds = {"standard": (Standard, StandardConfig()), "dynamic": (Dynamic, DYNAMIC)}
    build, plain = kinds[of]
    by_value = {}
    for value in candidates(reading.evaluators["tempered"].config):
        config = type(plain)(**{**vars(plain), "temperature": 1 / value})
        by_value[value] = build(config)
    losses = {v: -e.token_log_probs(reading, "valid").mean() for v, e in by_value.items()}
    best = min(losses, key=losses.get)
    assert abs(best - TRUE) < 0.25, "else this shows nothing"
    found = reading.evaluators["tempered"].metrics(reading, "tempered", "test")
    assert found["inverse_temperature"] == best
    expected = by_value[best].token_log_probs(reading, "test")
    np.testing.assert_array_equal(reading.log_probs("tempered", "test"), expected)
    assert found["nll"] == pytest.approx(-expected.mean())


def test_the_search_ends_after_two_values_without_a_gain(model, monkeypatch):
    """Of the losses 5, 4, 6, 3, 9, 9, 1 it sees the first six, and takes the 3."""
    reading, seen = reading_of(model), []
    losses = iter([5.0, 4.0, 6.0, 3.0, 9.0, 9.0, 1.0])

    def told(self, reading, value, split):
        seen.append(value)
        return np.array([-next(losses)])

    monkeypatch.setattr(Tempered, "_at", told)
    found = reading.evaluators["tempered"].inverse_temperature(reading)
    assert (len(seen), found) == (6, seen[3])


def test_the_test_text_and_validation_beyond_the_limit_never_move_it(model):
    values = []
    for changed in (None, "test", "valid"):
        with torch.no_grad():
            text = Splits(model)
        if changed:
            text.streams[changed] = text.streams[changed].clone()
            text.streams[changed][60:] = 4  # beyond 50 predictions
        reading = reading_of(model, text, tokens=50, last=0.1)
        values.append(reading.evaluators["tempered"].inverse_temperature(reading))
    assert values[0] == values[1] == values[2]


def test_what_was_not_chosen_is_refused(model):
    with pytest.raises(CombinationError, match="'cache', which was not chosen"):
        reading_of(model, of="cache").log_probs("tempered", "test")
