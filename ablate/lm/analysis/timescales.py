"""How long each unit of a linear diagonal network remembers (Pachitariu & Sahani 2013, Figure 1).

timescale = -1 / log |r|, in tokens: a unit with negative r forgets as fast, and alternates
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ablate.compare.plots import style
from ablate.lm.analysis import Analysis, Finding, NoOptions
from ablate.lm.analysis.drawing import scale
from ablate.lm.analysis.subject import Subject
from ablate.lm.components.backbone.irlm import timescales

BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def run(subject: Subject, options: NoOptions) -> Finding:
    """The distribution of the units' timescales."""
    subject.require("backbone", "irlm")
    subject.require_whole("units")
    r = subject.model.backbone.get_parameter("r").abs()
    # A unit with r = 0 forgets at once, and log 0 is no number.
    times = timescales(r).masked_fill(r == 0, 0.0).numpy()
    edges = [0.0, *map(float, BOUNDS), np.inf]
    rows = [
        [f"{low:g} to {high:g}" if high < np.inf else f"over {low:g}", _between(times, low, high)]
        for low, high in itertools.pairwise(edges)
    ]
    finite = np.sort(times[np.isfinite(times)])[::-1]  # |r| = 1 never forgets, and is not drawn

    def draw(axes: Any) -> None:
        axes.plot(np.arange(1, len(finite) + 1), finite, color=style.BLUE)
        scale(axes, finite)
        axes.set(xlabel="unit, by timescale", ylabel="timescale (tokens)")

    longest = f"{finite[0]:.3g}" if len(finite) == len(times) else "infinite"
    return Finding(
        title=f"Timescales of {subject.name}",
        columns=["tokens", "units"],
        rows=rows,
        notes=[f"median {np.median(times):.3g}, longest {longest}"],
        draw=draw,
    )


def _between(times: np.ndarray, low: float, high: float) -> int:
    # The last range includes the units that never forget.
    return int(((times >= low) & ((times < high) | (high == np.inf))).sum())


ANALYSIS = Analysis(run=run, paper="pachitariu2013irlm", equation="Figure 1")
