"""The distance of two spaces, against projections that numpy's least squares make."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ablate.lm.components.evaluator.word_vectors import (
    WordVectors,
    WordVectorsConfig,
    basis,
    projection_residual,
)
from ablate.lm.model.evaluator import Reading
from ablate.lm.testing.subject import VOCABULARY, WIDTH, RandomText, SmallModel


def measured(*models, **config) -> dict[str, float]:
    evaluator = WordVectors(WordVectorsConfig(**config))
    return evaluator.metrics(Reading(models, RandomText()), "word_vectors", "model")


def by_least_squares(inputs: np.ndarray, outputs: np.ndarray) -> float:
    """The part of an orthonormal basis of the outputs that no combination of inputs explains."""
    q, _ = np.linalg.qr(outputs)
    best, *_ = np.linalg.lstsq(inputs, q, rcond=None)
    return float(np.linalg.norm(q - inputs @ best) / np.linalg.norm(q))


def test_it_is_what_least_squares_leave():
    model = SmallModel({}, dtype=torch.float32).model
    weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
    outputs = next(v for n, v in weights.items() if n.startswith("head.") and v.ndim == 2)
    assert outputs.shape == (VOCABULARY, WIDTH)
    expected = by_least_squares(weights["embedding.weight"], outputs)
    assert measured(model) == {
        "distance": pytest.approx(expected, rel=1e-9),
        "distance_of_random_spaces": pytest.approx(math.sqrt(1 - WIDTH / VOCABULARY)),
    }


def test_tied_vectors_span_the_same():
    assert measured(SmallModel({}, {"head.tied": True}).model)["distance"] < 1e-12


def test_the_tolerance_says_which_directions_count():
    matrix = np.diag([1.0, 0.1, 1e-20])
    assert [basis(matrix, share).shape[1] for share in (None, 0.05, 0.5)] == [2, 2, 1]
    assert projection_residual(basis(np.eye(4)[:, :2]), basis(np.eye(4)[:, 2:])) == 1
