"""What trials report by epoch, as curves: of a trial and its base."""

from __future__ import annotations

from typing import Any

from ablate.compare.plots import figure as fig
from ablate.live import figures
from ablate.store.journal import Journal
from ablate.store.numbers import finite

MOST_METRICS = 6  # panels of curves


def curves_of(compared: list[Journal], names: list[str]) -> fig.Figure | None:
    """A panel for each metric, with a line for each of the trials."""
    panels = []
    for name in _numbers(compared[0])[:MOST_METRICS]:
        marks = [
            _line(one, name, label, at)
            for at, (one, label) in enumerate(zip(compared, names, strict=False))
        ]
        lines = [line for line in marks if len(line.x) > 1]
        if lines:
            x, y = fig.Axis("epoch", numbers="whole"), fig.Axis(name)
            panels.append(fig.Panel(x=x, y=y, marks=lines, title=name))
    if not panels:
        return None
    columns = min(2, len(panels))
    caption = f"What was reported after each epoch: {' and '.join(names[: len(compared)])}."
    shape: Any = {"columns": columns, "height": 2.6 * -(-len(panels) // columns)}
    return figures.thinned(fig.Figure(title="By epoch", caption=caption, panels=panels, **shape))


def _numbers(journal: Journal) -> list[str]:
    """The numbers that a trial reports by epoch."""
    pairs = ((n, value) for epoch in journal.epochs for n, value in epoch.metrics.items())
    return list(dict.fromkeys(name for name, value in pairs if finite(value) is not None))


def _line(journal: Journal, metric: str, name: str, at: int) -> fig.Series:
    numbers = [(e.number, finite(e.metrics.get(metric))) for e in journal.epochs]
    known = [(number, value) for number, value in numbers if value is not None]
    x, y = [number for number, _ in known], [value for _, value in known]
    return fig.Series(
        x=x, y=y, name=name, look=fig.nth_look(1 if at == 0 else 0 if at == 1 else at)
    )
