"""How far a model's input and output word vectors span different spaces (Inan et al. 2017, 6.2).

    ||Q_W - Q_L Q_L' Q_W||_F / ||Q_W||_F,    Q_L, Q_W: orthonormal bases of the columns' spans

with L the input vectors and W the output matrix, [V, D]: 0 if the span of W lies in that of L, 1 if
they are orthogonal. The distance of two random spaces, sqrt(1 - D_L / V), is shown next to it: with
few words and many units it is far from 1. For tied matrices the distance is 0 by construction. The
picture shows the cosines of the angles between the spaces, which contain the same: the squared
distance is the mean of 1 - cos^2 over the directions of W (directions without a counterpart in L
have cosine 0).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ablate.compare.plots import style
from ablate.lm.analysis import Analysis, Finding, NoOptions
from ablate.lm.analysis.drawing import label
from ablate.lm.analysis.subject import Subject, distinct_names
from ablate.lm.components.evaluator.word_vectors import (
    basis,
    distance_of_random_spaces,
    matrices,
    projection_residual,
)


def cosines(basis_L: np.ndarray, basis_W: np.ndarray) -> np.ndarray:
    """The cosines of the principal angles between the spans, nearest directions first."""
    # Rounding may give a cosine just above 1.
    return np.clip(np.linalg.svd(basis_L.T @ basis_W, compute_uv=False), 0, 1)


def run(*subjects: Subject, options: NoOptions) -> Finding:
    """Distance between the spans of input and output word vectors."""
    names = distinct_names(subjects)
    rows, curves = [], []
    for name, subject in zip(names, subjects, strict=True):
        subject.require_whole("word vectors")
        tokens_N = subject.corpus.stream("valid")[:2]  # one prediction gives the output matrix
        basis_L, basis_W = map(basis, matrices(subject.model, tokens_N))
        distance, random = projection_residual(basis_L, basis_W), distance_of_random_spaces(basis_L)
        rows.append([name, *basis_L.shape, basis_W.shape[1], distance, random])
        curve = cosines(basis_L, basis_W)
        curves.append(np.pad(curve, (0, basis_W.shape[1] - len(curve))))

    def draw(axes: Any) -> None:
        for index, (name, curve) in enumerate(zip(names, curves, strict=True)):
            shares = (np.arange(len(curve)) + 0.5) / len(curve)
            axes.plot(shares, curve, label=label(name), **style.line(index))
        axes.set(xlabel="directions of the output vectors, nearest first (share)")
        axes.set(ylabel="cosine of the angle", ylim=(0, 1.02))

    return Finding(
        title=f"Subspace distance of input and output word vectors: {'; '.join(names)}",
        columns=["trial", "words", "input rank", "output rank", "distance", "of random spaces"],
        rows=rows,
        notes=["0: the output vectors' span lies in the input vectors'; 1: orthogonal."],
        draw=draw,
    )


ANALYSIS = Analysis(run=run, paper="inan2017tying", equation="Figure 1, 6.2", num_subjects=(1, 8))
