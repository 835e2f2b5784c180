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

import math
from typing import Any

import numpy as np

from ablate.analysis import Analysis, Finding, NoOptions
from ablate.analysis.drawing import label
from ablate.analysis.subject import Subject, distinct_names
from ablate.compare.plots import style


def basis(matrix_VD: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the span of the columns, [V, rank]."""
    left, values, _ = np.linalg.svd(matrix_VD, full_matrices=False)
    smallest = values.max(initial=0.0) * max(matrix_VD.shape) * np.finfo(np.float64).eps
    return left[:, values > smallest]


def projection_residual(basis_L: np.ndarray, basis_W: np.ndarray) -> float:
    """The share of W's span that lies outside the span of L."""
    outside = basis_W - basis_L @ (basis_L.T @ basis_W)
    return float(np.linalg.norm(outside) / np.linalg.norm(basis_W))


def cosines(basis_L: np.ndarray, basis_W: np.ndarray) -> np.ndarray:
    """The cosines of the principal angles between the spans, nearest directions first."""
    return np.clip(np.linalg.svd(basis_L.T @ basis_W, compute_uv=False), 0, 1)


def run(*subjects: Subject, options: NoOptions) -> Finding:
    """Distance between the spans of input and output word vectors."""
    names = distinct_names(subjects)
    rows, curves = [], []
    for name, subject in zip(names, subjects, strict=True):
        basis_L, basis_W = map(basis, _matrices(subject))
        words, size = basis_L.shape
        distance = projection_residual(basis_L, basis_W)
        random = math.sqrt(max(0.0, 1 - size / words))
        rows.append([name, words, size, basis_W.shape[1], distance, random])
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


def _matrices(subject: Subject) -> tuple[np.ndarray, np.ndarray]:
    """The input vectors, and the output matrix that the head uses, tied or not."""
    subject.require_whole("word vectors")
    passed = next(subject.passes("valid", 1))
    output_VE = passed.mixture.weight_VE
    return subject.model.embedding.weight.numpy(), output_VE.numpy()


ANALYSIS = Analysis(run=run, paper="inan2017tying", equation="Figure 1, 6.2", num_subjects=(1, 8))
