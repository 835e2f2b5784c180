"""The eigenvalues of a recurrent matrix (Pachitariu & Sahani 2013, 2.1).

A linear network x_t = W[y_t] + R x_{t-1} answers a word by sums of lambda^t, lambda the eigenvalues
of R: one of modulus m is forgotten over -1 / log m tokens, one on or outside the unit circle never.
Of a gated layer, the part of the matrix that each gate reads is one of its own (the letters after
the name: an LSTM's i, f, g, o; a GRU's r, z, n; an RHN's h, t), and the linear reading only holds
as far as its nonlinearity is slack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ablate.analysis import Analysis, Finding
from ablate.analysis.drawing import COLOURS, GREY
from ablate.analysis.subject import Subject
from ablate.components.backbone import Backbone
from ablate.components.backbone.elman import Elman
from ablate.errors import CombinationError, ConfigError, unknown
from ablate.fields import setting

GATES = {"lstm": "ifgo", "mogrifier": "ifgo", "gru": "rzn", "rhn": "ht"}
REAL = 1e-9  # an imaginary part below this share of the largest modulus is rounding


@dataclass(frozen=True, kw_only=True)
class EigenvaluesOptions:
    """Which matrix, and how many of its eigenvalues are in the table."""

    matrix: str = setting("", doc="the matrix's name; none: the first there is")
    num: int = setting(10, doc="rows of the table, largest modulus first", low=1)


def eigenvalues(matrix_HH: Tensor) -> np.ndarray:
    """Largest modulus first; of a pair, the one above the real line first."""
    found = np.linalg.eigvals(matrix_HH.detach().double().numpy())
    return found[np.lexsort((-np.imag(found), -np.real(found), -np.abs(found).round(12)))]


def recurrent_matrices(backbone: Backbone, name: str) -> dict[str, Tensor]:
    """Every square matrix by which a layer's last state reaches its next, by name."""
    own = dict(backbone.named_parameters())
    if name == "irlm":
        return {"r": own["r"].diag()}
    if isinstance(backbone, Elman):  # its matrix may lie in blocks
        layers = range(len(backbone.widths))
        whole = Elman.recurrent_matrix
        return {f"weight_hh_l{layer}": whole(backbone, layer) for layer in layers}
    found = {}
    for path, weight in own.items():
        if path.startswith(("weight_hh", "weight_skip")) and weight.ndim == 2:
            parts = weight.split(weight.shape[1])
            if all(part.shape[0] == part.shape[1] for part in parts):
                found |= _parts(path, parts, GATES.get(name, ""))
    return found


def run(subject: Subject, options: EigenvaluesOptions) -> Finding:
    """Eigenvalues of a recurrent matrix, in the complex plane."""
    subject.require_whole("recurrent matrix")
    chosen, matrix_HH = _chosen(subject, options.matrix)
    found = eigenvalues(matrix_HH)
    modulus = np.abs(found)

    def draw(axes: Any) -> None:
        turn = np.linspace(0, 2 * np.pi, 400)
        axes.plot(np.cos(turn), np.sin(turn), color=GREY, linewidth=1)
        axes.axhline(0, color=GREY, linewidth=0.5)
        axes.axvline(0, color=GREY, linewidth=0.5)
        axes.plot(np.real(found), np.imag(found), ".", color=COLOURS[0], markersize=5)
        axes.set(xlabel="real", ylabel="imaginary", aspect="equal")
        axes.locator_params(nbins=5)

    return Finding(
        title=f"Eigenvalues of {chosen}: {subject.name}",
        columns=["place", "real", "imaginary", "modulus", "timescale"],
        rows=[_row(place, value) for place, value in enumerate(found[: options.num], 1)],
        notes=_notes(found, modulus),
        draw=draw,
    )


def _row(place: int, value: complex) -> list[int | float | None]:
    modulus = float(np.abs(value))
    timescale = float(-1 / np.log(modulus)) if 0 < modulus < 1 else None
    return [place, float(value.real), float(value.imag), modulus, timescale]


def _notes(found: np.ndarray, modulus: np.ndarray) -> list[str]:
    real = int((np.abs(np.imag(found)) <= REAL * modulus.max(initial=0.0)).sum())
    outside = int((modulus >= 1).sum())
    return [
        f"spectral radius {modulus[0]:.4f}; {outside} of {len(found)} on or outside the unit "
        f"circle; {real} real",
        "timescale: -1 / log modulus, in tokens",
    ]


def _parts(path: str, parts: tuple[Tensor, ...], letters: str) -> dict[str, Tensor]:
    if len(parts) == 1:
        return {path: parts[0]}
    letters = letters if len(letters) == len(parts) else "123456789"
    return {f"{path}.{letter}": part for letter, part in zip(letters, parts, strict=False)}


def _chosen(subject: Subject, wanted: str) -> tuple[str, Tensor]:
    name = subject.config["backbone"].name
    found = recurrent_matrices(subject.model.backbone, name)
    if not found:
        raise CombinationError(
            f"trial {subject.id} has backbone = '{name}', which has no recurrent matrix that this "
            "analysis knows. Allowed: square parts of parameters named weight_hh... or "
            "weight_skip..."
        )
    wanted = wanted or next(iter(found))
    if wanted not in found:
        raise ConfigError(unknown("matrix", wanted, found, f"trial {subject.id}"))
    return wanted, found[wanted]


ANALYSIS = Analysis(
    run=run, options=EigenvaluesOptions, paper="pachitariu2013irlm", equation="Section 2.1"
)
