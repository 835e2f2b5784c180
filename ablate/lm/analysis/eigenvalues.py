"""The eigenvalues of a recurrent matrix (Pachitariu & Sahani 2013, 2.1).

The response of a linear network x_t = W[y_t] + R x_{t-1} to a word is a sum of lambda^t, with
lambda the eigenvalues of R: a mode of modulus m is forgotten over -1 / log m tokens, a mode on or
outside the unit circle never. In a gated layer, each gate has its own matrix (the letters after the
name: i, f, g, o for an LSTM; r, z, n for a GRU; h, t for an RHN), and the linear interpretation
holds only where the nonlinearities are almost linear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ablate.compare.plots import style
from ablate.config.fields import setting
from ablate.errors import CombinationError, ConfigError, unknown
from ablate.lm.analysis import Analysis, Finding
from ablate.lm.analysis.subject import Subject
from ablate.lm.components.backbone.elman import Elman
from ablate.lm.model.slots import Backbone

GATES = {"lstm": "ifgo", "mogrifier": "ifgo", "gru": "rzn", "rhn": "ht", "nas": "01234567"}
REAL = 1e-9  # an imaginary part below this share of the largest modulus is rounding


@dataclass(frozen=True, kw_only=True)
class EigenvaluesOptions:
    """The matrix, and the number of eigenvalues in the table."""

    matrix: str = setting("", doc="name of the matrix; none: the first one")
    num: int = setting(10, doc="rows of the table, largest modulus first", low=1)


def eigenvalues(matrix_HH: Tensor) -> np.ndarray:
    """The eigenvalues, largest modulus first; in a pair, the one above the real axis first."""
    values = np.linalg.eigvals(matrix_HH.detach().double().numpy())
    # Moduli are rounded, so that the two of a pair, which differ in the last bits, stay together.
    return values[np.lexsort((-np.imag(values), -np.real(values), -np.abs(values).round(12)))]


def recurrent_matrices(backbone: Backbone, name: str) -> dict[str, Tensor]:
    """All square matrices that map a layer's last state to its next, by name."""
    parameters = dict(backbone.named_parameters())
    if name == "irlm":
        return {"r": parameters["r"].diag()}  # IRLM stores the diagonal alone
    if isinstance(backbone, Elman):  # its matrix may be stored in blocks
        elman: Any = backbone  # a registered class has the type `type`
        layers = range(len(elman.widths))
        return {f"weight_hh_l{layer}": elman.recurrent_matrix(layer) for layer in layers}
    matrices = {}
    for path, weight in parameters.items():
        if path.startswith(("weight_hh", "weight_skip")) and weight.ndim == 2:
            parts = weight.split(weight.shape[1])  # torch stacks the gates' matrices
            if all(part.shape[0] == part.shape[1] for part in parts):
                matrices |= _parts(path, parts, GATES.get(name, ""))
    return matrices


def run(subject: Subject, options: EigenvaluesOptions) -> Finding:
    """Eigenvalues of a recurrent matrix, in the complex plane."""
    subject.require_whole("recurrent matrix")
    name, matrix_HH = _choose_matrix(subject, options.matrix)
    values = eigenvalues(matrix_HH)
    modulus = np.abs(values)

    def draw(axes: Any) -> None:
        turn = np.linspace(0, 2 * np.pi, 400)
        axes.plot(np.cos(turn), np.sin(turn), color=style.GREY, linewidth=1)
        axes.axhline(0, color=style.GREY, linewidth=0.5)
        axes.axvline(0, color=style.GREY, linewidth=0.5)
        axes.plot(np.real(values), np.imag(values), ".", color=style.BLUE, markersize=5)
        axes.set(xlabel="real", ylabel="imaginary", aspect="equal")
        axes.locator_params(nbins=5)

    return Finding(
        title=f"Eigenvalues of {name}: {subject.name}",
        columns=["rank", "real", "imaginary", "modulus", "timescale"],
        rows=[_row(rank, value) for rank, value in enumerate(values[: options.num], 1)],
        notes=_notes(values, modulus),
        draw=draw,
    )


def _row(rank: int, value: complex) -> list[int | float | None]:
    modulus = float(np.abs(value))
    timescale = float(-1 / np.log(modulus)) if 0 < modulus < 1 else None  # else at once, or never
    return [rank, float(value.real), float(value.imag), modulus, timescale]


def _notes(values: np.ndarray, modulus: np.ndarray) -> list[str]:
    real = int((np.abs(np.imag(values)) <= REAL * modulus.max(initial=0.0)).sum())
    outside = int((modulus >= 1).sum())
    return [
        f"spectral radius {modulus[0]:.4f}; {outside} of {len(values)} on or outside the unit "
        f"circle; {real} real",
        "timescale: -1 / log modulus, in tokens",
    ]


def _parts(path: str, parts: tuple[Tensor, ...], letters: str) -> dict[str, Tensor]:
    if len(parts) == 1:
        return {path: parts[0]}
    # A layer without known letters, such as a user's, has its matrices numbered.
    letters = letters if len(letters) == len(parts) else "123456789"
    return {f"{path}.{letter}": part for letter, part in zip(letters, parts, strict=False)}


def _choose_matrix(subject: Subject, name: str) -> tuple[str, Tensor]:
    backbone = subject.config["backbone"].name
    matrices = recurrent_matrices(subject.model.backbone, backbone)
    if not matrices:
        raise CombinationError(
            f"trial {subject.id} has backbone = '{backbone}', in which this analysis finds no "
            "recurrent matrix. It looks for square parts of parameters named weight_hh... or "
            "weight_skip..."
        )
    name = name or next(iter(matrices))
    if name not in matrices:
        raise ConfigError(unknown("matrix", name, matrices, f"trial {subject.id}"))
    return name, matrices[name]


ANALYSIS = Analysis(
    run=run, options=EigenvaluesOptions, paper="pachitariu2013irlm", equation="Section 2.1"
)
