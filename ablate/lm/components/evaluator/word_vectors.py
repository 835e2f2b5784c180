"""How far a model's input and output word vectors span different spaces (Inan et al. 2017, 6.2).

    ||Q_W - Q_L Q_L' Q_W||_F / ||Q_W||_F,    Q_L, Q_W: orthonormal bases of the columns' spans

with L the input vectors and W the output matrix, [V, D]: 0 if the span of W lies in that of L, 1 if
they are orthogonal. For tied matrices the distance is 0 by construction. An ensemble, or a gate
over several models, has no word vectors of its own, and no such number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from torch import Tensor

from ablate.config.metrics import DISTANCE
from ablate.lm.components import Evaluator, LanguageModel, Reading, register, setting
from ablate.lm.model.evaluator import no_log_probs
from ablate.lm.model.reading import in_float64, read


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig:
    """Which directions a matrix spans."""

    tolerance: float | None = setting(
        None,
        doc="singular values up to this share of the largest count as zero; "
        "none: float64's resolution times the longer side",
        low=0,
        high=1,
    )


def basis(matrix_VD: np.ndarray, tolerance: float | None = None) -> np.ndarray:
    """An orthonormal basis of the span of the columns, [V, rank]."""
    left, values, _ = np.linalg.svd(matrix_VD, full_matrices=False)
    share = max(matrix_VD.shape) * np.finfo(np.float64).eps if tolerance is None else tolerance
    return left[:, values > share * values.max(initial=0.0)]


def projection_residual(basis_L: np.ndarray, basis_W: np.ndarray) -> float:
    """The share of W's span that lies outside the span of L."""
    outside = basis_W - basis_L @ (basis_L.T @ basis_W)
    return float(np.linalg.norm(outside) / np.linalg.norm(basis_W))


def distance_of_random_spaces(basis_L: np.ndarray) -> float:
    """The distance to expect of a random space: with few words and many units, far from 1."""
    words, size = basis_L.shape
    return math.sqrt(max(0.0, 1 - size / words))


def matrices(model: LanguageModel, tokens_N: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The input vectors, and the output matrix that the head uses, tied or not."""
    passed = next(iter(read(model, tokens_N)))
    return model.embedding.matrix().detach().numpy(), passed.mixture.weight_VE.detach().numpy()


@register(
    "evaluator",
    "word_vectors",
    config=WordVectorsConfig,
    paper="inan2017tying",
    equation="Section 6.2, Figure 1",
    metrics=(DISTANCE,),
)
@final
class WordVectors(Evaluator):
    """The distance of their spaces, and `distance_of_random_spaces` to compare it with."""

    gives_log_probs = False

    def __init__(self, config: WordVectorsConfig) -> None:
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        raise no_log_probs("word_vectors", "compares word vectors")

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        if len(reading.models) > 1 or reading.models[0].members:
            return {}
        model = in_float64(reading.models[0])
        # One step is enough for the head to return its matrix.
        pair = matrices(model, reading.stream("valid")[:2])
        basis_L, basis_W = (basis(matrix_VD, self.config.tolerance) for matrix_VD in pair)
        return {
            DISTANCE.name: projection_residual(basis_L, basis_W),
            "distance_of_random_spaces": distance_of_random_spaces(basis_L),
        }
