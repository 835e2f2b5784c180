"""Learning curves: validation by epoch, the mean over seeds and the range of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ablate.compare.material import Material
from ablate.compare.plots import chosen, style
from ablate.compare.statistics import paired as statistics
from ablate.config.metrics import Metric

CENTRED = {"ha": "center", "va": "top", "fontsize": 8, "color": style.BLUE}
MOST_ARMS = 24  # panels, each with a line for every arm that is drawn
TITLE = "Learning curves"
NEEDS = "trials of two epochs or more"
Curve = tuple[list[float], list[float], list[float]]  # mean, lowest, highest, by epoch


def draw(material: Material) -> Any:
    """All arms in one plot if they can be distinguished, otherwise each in its own panel."""
    curves = _curves(material)
    if not curves:
        return None
    shown = {name: curves[name] for name in chosen.arms([*curves], MOST_ARMS, material)}
    return (_together if len(shown) <= style.MAX_LINES else _apart)(shown, material)


def _curves(material: Material) -> dict[str, Curve]:
    """Those of two epochs or more, by arm."""
    completed = {trial for summary in material.summary.arms for trial in summary.trials}
    parents = {trial.id: trial.parents for trial in material.record.trials}
    seeds: dict[str, list[list[float]]] = defaultdict(list)
    for trial in material.record.trials:
        losses = _epochs(trial.id, parents, material) if trial.id in completed else []
        if trial.final and losses:
            seeds[trial.arm].append(losses)
    show = material.summary.metric.show
    curves = {arm.name: _curve(seeds[arm.name], show) for arm in material.record.arms}
    return {name: curve for name, curve in curves.items() if len(curve[0]) > 1}


def _together(curves: dict[str, Curve], material: Material) -> Any:
    figure, axes = style.figure(7.2, 3.8)
    ends = []
    for index, (name, curve) in enumerate(curves.items()):
        colour = style.COLOURS[index]
        _draw(axes, curve, 0.15, linewidth=1.5, **style.line(index))
        ends.append((len(curve[0]), curve[0][-1], style.shortened(name), colour))
    _axes(axes, list(curves.values()), material.summary.metric)
    axes.set(xlabel="epoch", ylabel=f"{material.summary.unit} of valid")
    style.label_ends(axes, ends)
    return figure


def _apart(curves: dict[str, Curve], material: Material) -> Any:
    """One panel for each arm, all others in grey behind it, and the base arm dashed."""
    num, columns = len(curves), 4
    height = 1.65 * -(-num // columns) + 0.3
    figure, panels = style.panels(7.6, height, num, columns, sharex=True, sharey=True)
    base = curves.get(material.record.base_arm)
    for axes, (name, curve) in zip(panels, curves.items(), strict=True):
        for other, *_ in curves.values():
            axes.plot(range(1, len(other) + 1), other, color="#d9d9d9", linewidth=0.7)
        if base is not None:
            dashed = {"color": style.BLACK, "linestyle": style.DASHES[1], "linewidth": 1}
            axes.plot(range(1, len(base[0]) + 1), base[0], **dashed)
        _draw(axes, curve, 0.2, linewidth=1.8, color=style.BLUE)
        axes.set_title(style.shortened(name, 22), fontsize=8)
        _axes(axes, list(curves.values()), material.summary.metric)
        axes.tick_params(labelsize=7)
        mean, lowest, _ = curve
        if min(lowest) > axes.get_ylim()[1]:
            axes.text(0.5, 0.9, f"↑ above, at {mean[-1]:.0f}", **CENTRED, transform=axes.transAxes)
    figure.supxlabel("epoch", fontsize=9)
    figure.supylabel(f"{material.summary.unit} of valid", fontsize=9)
    return figure


def _draw(axes: Any, curve: Curve, alpha: float, **look: Any) -> None:
    """The mean as a line, and the range as a band."""
    mean, lowest, highest = curve
    epochs = range(1, len(mean) + 1)
    axes.plot(epochs, mean, **look)
    axes.fill_between(epochs, lowest, highest, color=look["color"], alpha=alpha, linewidth=0)


def _axes(axes: Any, curves: list[Curve], metric: Metric) -> None:
    """From the best value to those of the first epochs."""
    best = _best(curves, metric)
    firsts = sorted((mean[0] for mean, _, _ in curves), key=metric.loss_of_shown)
    first, highest = firsts[len(firsts) // 2], max(max(high) for _, _, high in curves)
    seen = max(first, *(mean[-1] for mean, _, _ in curves), key=metric.loss_of_shown)
    worst = min(first * 1.6, highest) if metric.scale == "log" else seen
    style.value_axis(axes, metric, best, worst)
    style.whole_numbers(axes.xaxis)


def _best(curves: list[Curve], metric: Metric) -> float:
    """The best value of any seed, as it is shown."""
    return min((low for _, lows, _ in curves for low in lows), key=metric.loss_of_shown)


def _curve(seeds: Sequence[Sequence[float]], show: Callable[[float], float]) -> Curve:
    """As long as the shortest seed that completed; trials that did not are left out."""
    by_epoch = list(zip(*seeds, strict=False))
    return (
        [show(statistics.mean(values)) for values in by_epoch],
        [show(min(values)) for values in by_epoch],
        [show(max(values)) for values in by_epoch],
    )


def _epochs(final: str, parents: Mapping[str, Sequence[str]], material: Material) -> list[float]:
    """Losses on validation by epoch, over the stages that led to a trial, one after another."""
    chain = [final]
    while len(parents.get(chain[0], ())) == 1:
        chain.insert(0, parents[chain[0]][0])
    journals = [material.journals[trial] for trial in chain if trial in material.journals]
    metric = material.summary.metric
    losses = (metric.loss_of(e.metrics, "valid") for journal in journals for e in journal.epochs)
    return [loss for loss in losses if loss is not None]


def caption(material: Material) -> str:
    """Return what the curves show, and which arms are not drawn."""
    curves, metric = _curves(material), material.summary.metric
    logarithmic = curves and style.is_logarithmic(metric, _best([*curves.values()], metric))
    log = "is logarithmic, and " if logarithmic else ""
    return (
        "Validation by epoch: the mean over the seeds that completed, and from the best to the "
        "worst of them. Where each arm has a panel, the others are grey in it and the base arm is "
        f"dashed. The scale {log}may cut off the first epochs."
        f"{chosen.left_out([*curves], MOST_ARMS, material)}"
    )
