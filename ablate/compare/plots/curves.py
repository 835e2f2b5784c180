"""Learning curves: validation by epoch, the mean over seeds and the range of them."""

from __future__ import annotations

import math
from typing import Any

from ablate.compare.material import Material
from ablate.compare.plots import Plot, style
from ablate.compare.statistics import paired as statistics
from ablate.store.journal import Journal
from ablate.store.numbers import finite
from ablate.store.study_record import PlannedTrial

CENTRED = {"ha": "center", "va": "top", "fontsize": 8, "color": style.BLUE}
Curve = tuple[list[float], list[float], list[float]]  # mean, lowest, highest, by epoch


def draw(material: Material) -> Any:
    """All arms in one plot if they can be told apart, otherwise each in its own panel."""
    curves = {name: found for name, found in _curves(material).items() if len(found[0]) > 1}
    if not curves:
        return None
    if len(curves) <= style.MAX_LINES:
        return _together(curves, material)
    return _apart(curves, material)


def _together(curves: dict[str, Curve], material: Material) -> Any:
    figure, ((axes,),) = style.figure(7.2, 3.8)
    ends = []
    for index, (name, (mean, low, high)) in enumerate(curves.items()):
        epochs = range(1, len(mean) + 1)
        axes.plot(epochs, mean, linewidth=1.5, **style.line(index))
        axes.fill_between(epochs, low, high, color=style.COLOURS[index], alpha=0.15, linewidth=0)
        ends.append((len(mean), mean[-1], style.shortened(name), style.COLOURS[index]))
    _axes(axes, material, list(curves.values()))
    axes.set_ylabel(f"{material.summary.unit} of valid")
    figure.draw_without_rendering()
    style.labels_beside(axes, ends)
    return figure


def _apart(curves: dict[str, Curve], material: Material) -> Any:
    """One panel for each arm, all others in grey behind it, and the base arm dashed."""
    wide = 4
    high = math.ceil(len(curves) / wide)
    figure, panels = style.figure(7.6, 1.65 * high + 0.3, high, wide, sharex=True, sharey=True)
    flat = [axes for row in panels for axes in row]
    base = curves.get(material.record.base_arm)
    for axes, (name, curve) in zip(flat, curves.items(), strict=False):
        for other in curves.values():
            axes.plot(range(1, len(other[0]) + 1), other[0], color="#d9d9d9", linewidth=0.7)
        if base is not None:
            epochs = range(1, len(base[0]) + 1)
            axes.plot(epochs, base[0], color=style.BLACK, linestyle=style.DASHES[1], linewidth=1)
        mean, low, top = curve
        epochs = range(1, len(mean) + 1)
        axes.fill_between(epochs, low, top, color=style.BLUE, alpha=0.2, linewidth=0)
        axes.plot(epochs, mean, color=style.BLUE, linewidth=1.8)
        axes.set_title(style.shortened(name, 22), fontsize=8)
        _axes(axes, material, list(curves.values()))
        axes.tick_params(labelsize=7)
        if min(low) > axes.get_ylim()[1]:
            axes.text(0.5, 0.9, f"↑ above, at {mean[-1]:.0f}", **CENTRED, transform=axes.transAxes)
    for axes in flat[len(curves) :]:
        axes.set_visible(False)
    for axes in flat[: len(curves)]:  # inside a grid they repeat
        axes.set_xlabel("")
    figure.supxlabel("epoch", fontsize=9)
    figure.supylabel(f"{material.summary.unit} of valid", fontsize=9)
    return figure


def _axes(axes: Any, material: Material, curves: list[Curve]) -> None:
    """A logarithmic scale from the best value to those of the first epochs."""
    lowest = min(min(low) for _, low, _ in curves)
    firsts = sorted(mean[0] for mean, _, _ in curves)
    top = min(firsts[len(firsts) // 2] * 1.6, max(max(high) for _, _, high in curves))
    axes.set_yscale("log")
    axes.set_ylim(lowest * 0.97, max(top, lowest * 1.1))
    style.plain_numbers(axes.yaxis)
    style.whole_numbers(axes.xaxis)
    axes.set_xlabel("epoch")


def _curves(material: Material) -> dict[str, Curve]:
    return {arm.name: _curve(arm.name, material) for arm in material.record.arms}


def _curve(arm: str, material: Material) -> Curve:
    """As long as the shortest seed that completed; trials that did not are left out."""
    finals = [t for t in material.record.trials if t.arm == arm and t.final]
    completed = {trial for each in material.summary.arms for trial in each.trials}
    seeds = [_epochs(t, material) for t in finals if t.id in completed]
    num = min((len(seed) for seed in seeds if seed), default=0)
    by_epoch = [[seed[i] for seed in seeds if seed] for i in range(num)]
    mean = [statistics.mean(values) for values in by_epoch]
    return (
        [material.unit.show(each) for each in mean],
        [material.unit.show(min(values)) for values in by_epoch],
        [material.unit.show(max(values)) for values in by_epoch],
    )


def _epochs(final: PlannedTrial, material: Material) -> list[float]:
    """Nats on validation by epoch, over the stages that led to a trial, one after another."""
    parents = {trial.id: trial.parents for trial in material.record.trials}
    chain = [final.id]
    while len(parents.get(chain[0], ())) == 1:
        chain.insert(0, parents[chain[0]][0])
    journals = [material.journals.get(trial) for trial in chain]
    return [nats for journal in journals if journal for nats in _values(journal)]


def _values(journal: Journal) -> list[float]:
    found = [finite(epoch.get("valid_nll")) for epoch in journal.epochs]
    return [nats for nats in found if nats is not None]


def caption(material: Material) -> str:
    return (
        "Validation by epoch: the mean over the seeds that completed, and from the best to the "
        "worst of them. Where each arm has a panel, the others are grey in it and the base arm is "
        "dashed. The scale is logarithmic, and may cut off the first epochs."
    )


PLOT = Plot(draw=draw, caption=caption, needs="trials of two epochs or more")
