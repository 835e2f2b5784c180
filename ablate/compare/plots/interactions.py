"""Interactions: what a factor bought at each level of another. Parallel lines: none."""

from __future__ import annotations

import itertools
import math
from typing import Any

from ablate.compare.material import Material
from ablate.compare.plots import Plot, style
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.effects import DESIGNS, Design
from ablate.compare.statistics.replication import plural

MOST = 12  # pairs of factors in one plot


def draw(material: Material) -> Any:
    """A panel for each pair of factors: mean and interval, by level."""
    if material.record.design not in DESIGNS or not all(a.values for a in material.summary.arms):
        return None
    levels = [dict(material.record.arm(arm.name).levels) for arm in material.summary.arms]
    base = dict(material.record.arm(material.record.base_arm).levels)
    design = Design(levels, base)
    pairs = list(itertools.combinations(design.factors, 2))[:MOST]
    if not pairs or not design.balanced:
        return None
    wide = min(3, len(pairs))
    high = math.ceil(len(pairs) / wide)
    size = (2.5 * wide + 0.6 if wide > 1 else 4.5, 2.6 * high)
    figure, panels = style.figure(*size, high, wide, sharey=True)
    flat = [axes for row in panels for axes in row]
    for axes, (a, b) in zip(flat, pairs, strict=False):
        _panel(axes, material, design, a, b)
    for axes in flat[len(pairs) :]:
        axes.set_visible(False)
    for row in panels:
        row[0].set_ylabel(f"{material.summary.unit} of {material.summary.split}")
    return figure


def _panel(axes: Any, material: Material, design: Design, a: str, b: str) -> None:
    places = range(len(design.levels[a]))
    for index, level in enumerate(design.levels[b]):
        cells = [_cell(material, design, {a: at, b: level}) for at in design.levels[a]]
        shown = [material.unit.show(mean) for mean, _ in cells]
        ends = [
            [s - material.unit.show(m - half), material.unit.show(m + half) - s]
            for s, (m, half) in zip(shown, cells, strict=True)
        ]
        shifted = [place + 0.04 * index for place in places]  # so that bars do not hide others
        axes.errorbar(
            shifted,
            shown,
            yerr=list(zip(*ends, strict=True)),
            capsize=3,
            linewidth=1.4,
            ms=5,
            label=f"{b}: {level}",
            **{**style.line(index), **style.marker(index)},
        )
    axes.set_xticks(list(places), [style.shortened(level, 14) for level in design.levels[a]])
    axes.set_xlim(-0.3, len(design.levels[a]) - 0.7)
    axes.set_xlabel(a)
    axes.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _cell(material: Material, design: Design, at: dict[str, str]) -> tuple[float, float]:
    """The mean nats over the arms at these levels, and half its interval."""
    chosen = [
        arm
        for arm, levels in zip(material.summary.arms, design.arms, strict=True)
        if all(levels[factor] == level for factor, level in at.items())
    ]
    shared = [i for i in chosen[0].values if all(i in arm.values for arm in chosen)]
    groups = material.summary.replication.groups(shared)
    means = [statistics.mean([arm.values[i] for i in group for arm in chosen]) for group in groups]
    if not means:
        return statistics.mean([v for arm in chosen for v in arm.values.values()]), 0.0
    low, high = statistics.t_interval(means, material.summary.alpha) or (means[0], means[0])
    return statistics.mean(means), (high - low) / 2


def caption(material: Material) -> str:
    percent = 100 * (1 - material.summary.alpha)
    replication = material.summary.replication
    return (
        "What one factor bought at each level of another, over the rest of the design; bars: "
        f"{percent:g}% intervals{replication.interval_of} of each mean over "
        f"{plural(replication.unit)}, which are wider than those of paired differences. Parallel "
        "lines are no interaction."
    )


PLOT = Plot(draw=draw, caption=caption, needs="a factorial design that is done")
