"""Learning curves: validation by epoch, the mean over seeds and the range of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ablate.compare.judged import Judged
from ablate.compare.plots import chosen, style
from ablate.compare.plots import figure as fig
from ablate.compare.statistics import paired as statistics
from ablate.compare.text.labels import labels
from ablate.config.metrics import Metric

GREY = fig.LineStyle(colour="#d9d9d9", width=0.7)
DASHED = fig.LineStyle(dashes=style.DASHES[1], width=1)
OWN = fig.LineStyle(colour=style.BLUE, width=1.8)
MOST_IN_ONE = 5  # arms in one panel
MOST_ARMS = 24  # panels, each with a line of every arm: time grows with the square
COLUMNS = 4  # of panels
NEEDS = "trials of two epochs or more"
Curve = tuple[list[float], list[float], list[float]]  # mean, lowest, highest, by epoch


def described(judged: Judged) -> fig.Figure | None:
    """All arms in one plot if they can be distinguished, otherwise each in its own panel."""
    curves = _curves(judged)
    if not curves:
        return None
    shown = {name: curves[name] for name in chosen.arms([*curves], MOST_ARMS, judged)}
    x = fig.Axis("epoch", numbers="whole")
    y = _value_axis([*shown.values()], judged.metric, f"{judged.unit} of valid")
    caption = _caption(y.log) + chosen.left_out([*curves], MOST_ARMS, judged)
    about: Any = {"title": "Learning curves", "caption": caption}
    if len(shown) <= MOST_IN_ONE:
        looks = _looks([*shown], judged.record.base_arm)
        lines = [_series(curve, name, looks[name], 0.15) for name, curve in shown.items()]
        return fig.Figure(**about, panels=[fig.Panel(x=x, y=y, marks=lines, names="ends")])
    height = 1.65 * -(-len(shown) // COLUMNS) + 0.3
    panels = [*_panels(shown, judged.record.base_arm, x, y)]
    size: Any = {"width": 7.6, "height": height, "columns": COLUMNS}
    return fig.Figure(**about, panels=panels, **size, shared="xy")


def _looks(arms: Sequence[str], base: str) -> dict[str, fig.LineStyle]:
    """The base arm black and dashed, as in every panel; the others in colours."""
    others = (fig.LineStyle(colour=colour) for colour in style.COLOURS[1:])
    black = fig.LineStyle(dashes=style.DASHES[1])
    return {arm: black if arm == base else next(others) for arm in arms}


def _panels(
    curves: Mapping[str, Curve], base: str, x: fig.Axis, y: fig.Axis
) -> Iterator[fig.Panel]:
    """A panel for each arm, all arms in grey behind it, and the base arm dashed."""
    behind = [_line(curve, GREY) for curve in curves.values()]
    behind += [_line(curves[base], DASHED)] if base in curves else []
    _, top = y.limits or (0.0, math.inf)
    titles = labels([*curves], 22)
    for title, (name, curve) in zip(titles, curves.items(), strict=True):
        yield fig.Panel(
            x=x,
            y=y,
            marks=[*behind, _series(curve, name, OWN, 0.2)],
            title=title,
            note=f"↑ above, at {curve[0][-1]:.0f}" if min(curve[1]) > top else "",
        )


def _curves(judged: Judged) -> dict[str, Curve]:
    """The curves of two epochs or more, by arm."""
    completed = {trial for arm in judged.arms for trial in arm.trials}
    parents = {trial.id: trial.parents for trial in judged.record.trials}
    seeds: dict[str, list[list[float]]] = defaultdict(list)
    for trial in judged.record.trials:
        losses = _epochs(trial.id, parents, judged) if trial.id in completed else []
        if trial.final and losses:
            seeds[trial.arm].append(losses)
    show = judged.metric.show
    curves = {arm.name: _curve(seeds[arm.name], show) for arm in judged.record.arms}
    return {name: curve for name, curve in curves.items() if len(curve[0]) > 1}


def _line(curve: Curve, look: fig.LineStyle, **more: Any) -> fig.Series:
    return fig.Series(x=range(1, len(curve[0]) + 1), y=curve[0], look=look, **more)


def _series(curve: Curve, name: str, look: fig.LineStyle, shade: float) -> fig.Series:
    """The mean as a line, and the range as a band."""
    return _line(curve, look, name=name, low=curve[1], high=curve[2], shade=shade)


def _value_axis(curves: list[Curve], metric: Metric, title: str) -> fig.Axis:
    """An axis from the best value to the values of the first epochs."""
    best = min((low for _, lows, _ in curves for low in lows), key=metric.loss_of_shown)
    firsts = sorted((mean[0] for mean, _, _ in curves), key=metric.loss_of_shown)
    first, highest = firsts[len(firsts) // 2], max(max(high) for _, _, high in curves)
    seen = max(first, *(mean[-1] for mean, _, _ in curves), key=metric.loss_of_shown)
    # Arms that start far above the median are cut off, which the caption says.
    worst = min(first * 1.6, highest) if metric.scale == "log" else seen
    return fig.value_axis(title, metric, best, worst)


def _curve(seeds: Sequence[Sequence[float]], show: Callable[[float], float]) -> Curve:
    """As long as the shortest seed that completed; trials that did not are left out."""
    by_epoch = list(zip(*seeds, strict=False))
    return (
        [show(statistics.mean(values)) for values in by_epoch],
        [show(min(values)) for values in by_epoch],
        [show(max(values)) for values in by_epoch],
    )


def _epochs(final: str, parents: Mapping[str, Sequence[str]], judged: Judged) -> list[float]:
    """Losses on validation by epoch, over the stages that led to a trial, one after another."""
    chain = [final]
    while len(parents.get(chain[0], ())) == 1:  # a trial of several parents has no one past
        chain.insert(0, parents[chain[0]][0])
    journals = [judged.journals[trial] for trial in chain if trial in judged.journals]
    metric = judged.metric
    losses = (metric.loss_of(e.metrics, "valid") for journal in journals for e in journal.epochs)
    return [loss for loss in losses if loss is not None]


def _caption(logarithmic: bool) -> str:
    log = "is logarithmic, and " if logarithmic else ""
    return (
        "Validation by epoch: the mean over the seeds that completed, and from the best to the "
        "worst of them. The base arm is dashed; where each arm has a panel, the others are grey in "
        f"it. The scale {log}may cut off the first epochs."
    )
