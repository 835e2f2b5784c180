"""How long each unit of a linear diagonal network remembers (Pachitariu & Sahani 2013, Figure 1).

timescale = -1 / log |r|, in tokens
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ablate.analysis import Analysis, Finding, NoOptions
from ablate.analysis.subject import Subject
from ablate.components.backbone.irlm import timescales

BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def run(subject: Subject, options: NoOptions) -> Finding:
    """How many units forget within how many tokens."""
    subject.require("backbone", "irlm")
    found = timescales(subject.model.backbone.get_parameter("r").detach().double()).numpy()
    edges = [0.0, *map(float, BOUNDS), np.inf]
    rows = [
        [f"{low:g} to {high:g}", int(((found >= low) & (found < high)).sum())]
        for low, high in itertools.pairwise(edges)
    ]
    finite = np.sort(found[np.isfinite(found)])[::-1]

    def draw(axes: Any) -> None:
        axes.plot(np.arange(1, len(finite) + 1), finite, color="#0072b2")
        axes.set(yscale="log", xlabel="unit, by timescale", ylabel="timescale (tokens)")

    return Finding(
        title=f"Timescales of {subject.name}",
        columns=["tokens", "units"],
        rows=rows,
        notes=[f"median {np.median(found):.3g}, longest {finite[0] if len(finite) else 0:.3g}"],
        draw=draw,
    )


ANALYSIS = Analysis(run=run, paper="pachitariu2013irlm", equation="Figure 1")
