"""Interactions: what a factor bought at each level of another. Parallel lines: none."""

from __future__ import annotations

import itertools

from ablate.compare.judged import Judged
from ablate.compare.plots import figure as fig
from ablate.compare.plots import style
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.against import shared_seeds
from ablate.compare.statistics.design import Design
from ablate.compare.statistics.possible import within
from ablate.compare.text.labels import labels
from ablate.store.replication import counted, plural

MOST = 12  # pairs of factors in one plot
NEEDS = "a factorial design that is done"


def described(judged: Judged) -> fig.Figure | None:
    """A panel for each pair of factors: mean and interval, by level."""
    design = judged.design
    if design is None or not design.balanced or not all(arm.values for arm in judged.arms):
        return None
    pairs = [*itertools.combinations(design.factors, 2)]
    if not pairs:
        return None
    wide = min(3, len(pairs))  # panels in a row
    return fig.Figure(
        title="Interactions",
        caption=_caption(judged, len(pairs)),
        panels=[_panel(judged, design, a, b) for a, b in pairs[:MOST]],
        width=2.5 * wide + 0.6 if wide > 1 else 4.5,
        height=2.6 * -(-len(pairs[:MOST]) // wide),
        columns=wide,
        shared="y",
    )


def _panel(judged: Judged, design: Design, a: str, b: str) -> fig.Panel:
    """A line for each level of the second factor, over those of the first."""
    levels = design.levels[a]
    lines = [
        _line(judged, design, [{a: at, b: level} for at in levels], index, f"{b}: {level}")
        for index, level in enumerate(design.levels[b])
    ]
    ticks = [*enumerate(labels([*levels], 14))]
    x = fig.Axis(a, (-0.3, len(levels) - 0.7), ticks=ticks)
    y = fig.Axis(f"{judged.unit} of {judged.split}")
    return fig.Panel(x=x, y=y, marks=lines, names="legend")


def _line(
    judged: Judged, design: Design, at: list[dict[str, str]], index: int, name: str
) -> fig.Series:
    metric = judged.metric
    show = metric.show
    cells = [_cell(judged, design, each) for each in at]
    # A t interval may leave what the metric can be.
    ends = [
        within((low, high), metric.range)
        for low, high in (sorted((show(mean - half), show(mean + half))) for mean, half in cells)
    ]
    return fig.Series(
        x=[x + 0.04 * index for x in range(len(at))],  # so that bars do not hide others
        y=[show(mean) for mean, _ in cells],
        name=name,
        low=[low for low, _ in ends],
        high=[high for _, high in ends],
        look=fig.nth_look(index, marker=style.nth(index)[2], width=1.4),
        cap=3,
    )


def _cell(judged: Judged, design: Design, at: dict[str, str]) -> tuple[float, float]:
    """The mean nats over the arms at these levels, and half its interval."""
    chosen = [
        arm
        for arm, levels in zip(judged.arms, design.arms, strict=True)
        if all(levels[factor] == level for factor, level in at.items())
    ]
    groups = judged.replication.groups(shared_seeds(chosen))
    means = [statistics.mean([arm.values[i] for i in group for arm in chosen]) for group in groups]
    if not means:  # no seed has completed in all of these arms
        return statistics.mean([v for arm in chosen for v in arm.values.values()]), 0.0
    # One pair has no interval.
    low, high = statistics.t_interval(means, judged.alpha) or (means[0], means[0])
    return statistics.mean(means), (high - low) / 2


def _caption(judged: Judged, num_pairs: int) -> str:
    percent = 100 * (1 - judged.alpha)
    replication = judged.replication
    more = num_pairs - MOST
    left = f" Not drawn: {counted(more, 'more pair')} of factors." if more > 0 else ""
    return (
        "What one factor bought at each level of another, over the rest of the design; bars: "
        f"{percent:g}% intervals of each mean over {plural(replication.unit)}"
        f"{replication.interval_of}, which are wider than those of paired differences. Parallel "
        f"lines are no interaction.{left}"
    )
