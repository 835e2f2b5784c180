"""Interactions: what a factor bought at each level of another. Parallel lines: none."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ablate.compare.material import Material
from ablate.compare.plots import style
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.against import shared_seeds
from ablate.compare.statistics.effects import Design, design_of
from ablate.results.replication import counted, plural

MOST = 12  # pairs of factors in one plot
TITLE = "Interactions"
NEEDS = "a factorial design that is done"


def draw(material: Material) -> Any:
    """A panel for each pair of factors: mean and interval, by level."""
    summary = material.summary
    design = design_of(material.record, summary.arms)
    if design is None or not design.balanced or not all(arm.values for arm in summary.arms):
        return None
    pairs = _pairs(design)[:MOST]
    if not pairs:
        return None
    wide = min(3, len(pairs))
    size = (2.5 * wide + 0.6 if wide > 1 else 4.5, 2.6 * -(-len(pairs) // wide))
    figure, panels = style.panels(*size, len(pairs), wide, sharey=True)
    for axes, (a, b) in zip(panels, pairs, strict=True):
        _panel(axes, material, design, a, b)
    for axes in panels[::wide]:
        axes.set_ylabel(f"{summary.unit} of {summary.split}")
    return figure


def _pairs(design: Design) -> list[tuple[str, str]]:
    return list(itertools.combinations(design.factors, 2))


def _panel(axes: Any, material: Material, design: Design, a: str, b: str) -> None:
    show, positions = material.summary.metric.show, range(len(design.levels[a]))
    for index, level in enumerate(design.levels[b]):
        cells = [_cell(material, design, {a: at, b: level}) for at in design.levels[a]]
        shown = [show(mean) for mean, _ in cells]
        ends = [sorted((show(mean - half), show(mean + half))) for mean, half in cells]
        axes.errorbar(
            [x + 0.04 * index for x in positions],  # so that bars do not hide others
            shown,
            yerr=np.abs(np.transpose(ends) - shown),
            capsize=3,
            linewidth=1.4,
            ms=5,
            label=f"{b}: {level}",
            **{**style.line(index), **style.marker(index)},
        )
    axes.set_xticks(list(positions), [style.shortened(level, 14) for level in design.levels[a]])
    axes.set(xlabel=a, xlim=(-0.3, len(positions) - 0.7))
    axes.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _cell(material: Material, design: Design, at: dict[str, str]) -> tuple[float, float]:
    """The mean nats over the arms at these levels, and half its interval."""
    summary = material.summary
    chosen = [
        arm
        for arm, levels in zip(summary.arms, design.arms, strict=True)
        if all(levels[factor] == level for factor, level in at.items())
    ]
    groups = summary.replication.groups(shared_seeds(chosen))
    means = [statistics.mean([arm.values[i] for i in group for arm in chosen]) for group in groups]
    if not means:
        return statistics.mean([v for arm in chosen for v in arm.values.values()]), 0.0
    low, high = statistics.t_interval(means, summary.alpha) or (means[0], means[0])
    return statistics.mean(means), (high - low) / 2


def caption(material: Material) -> str:
    """Return what the lines and bars show, and how many pairs are left out."""
    percent = 100 * (1 - material.summary.alpha)
    replication = material.summary.replication
    design = design_of(material.record, material.summary.arms)
    more = len(_pairs(design)) - MOST if design is not None else 0
    left = f" Not drawn: {counted(more, 'more pair')} of factors." if more > 0 else ""
    return (
        "What one factor bought at each level of another, over the rest of the design; bars: "
        f"{percent:g}% intervals of each mean over {plural(replication.unit)}"
        f"{replication.interval_of}, which are wider than those of paired differences. Parallel "
        f"lines are no interaction.{left}"
    )
