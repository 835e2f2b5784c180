"""Parallel coordinates of a search: every trial is a line over its settings, to its loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.compare.material import Material
from ablate.compare.plots import chosen, style
from ablate.compare.text.figures import shown
from ablate.config.metrics import Metric
from ablate.results.result import result_of
from ablate.store.journal import Journal
from ablate.store.numbers import finite

MOST_ARMS, MOST_TRIALS, BEST = 6, 400, 3
LOG_RANGE = 20  # an axis is logarithmic from this ratio of largest to smallest on
TITLE = "What was searched"
NEEDS = "a search"


@dataclass(frozen=True)
class Scale:
    """One axis: the heights of the trials on it, from 0 to 1, and its marks."""

    title: str
    heights: Sequence[float]
    marks: Sequence[tuple[float, str]]


def draw(material: Material) -> Any:
    """A panel for each arm; the best three bold, trials that did not complete dotted."""
    searched = _searched(material)
    shown = chosen.arms([*searched], MOST_ARMS, material)
    if not shown:
        return None
    figure, panels = style.panels(7.4, 2.4 * len(shown) + 0.2, len(shown), 1)
    for axes, name in zip(panels, shown, strict=True):
        _panel(axes, name, searched[name], material.summary.metric)
    return figure


def _searched(material: Material) -> dict[str, list[Journal]]:
    """The trials of each search that has something to draw, by arm."""
    searched = {arm.name: _trials(arm.name, material) for arm in material.record.arms}
    return {name: trials for name, trials in searched.items() if _varied(trials)}


def _panel(axes: Any, name: str, trials: Sequence[Journal], metric: Metric) -> None:
    """Completed trials first, from the best on."""
    by_trial = {j.trial.id: result_of(j).loss(metric, "valid") for j in trials}
    known = {trial: math.inf if loss is None else loss for trial, loss in by_trial.items()}
    order = sorted(trials, key=lambda journal: known[journal.trial.id])
    losses = [loss for loss in sorted(known.values()) if loss < math.inf]
    scales = [_scale(key, [journal.config[key] for journal in order]) for key in _varied(trials)]
    last, drawn = _loss_scale(losses, metric), _drawn(len(order))
    for rank in drawn:
        heights = [scale.heights[rank] for scale in scales]
        heights += [last.heights[rank]] if rank < len(losses) else []
        axes.plot(range(len(heights)), heights, **_look(rank, len(losses)))
    _axes(axes, [*scales, last])
    left = f", {len(drawn)} drawn" if len(drawn) < len(trials) else ""
    axes.set_title(f"{name}: {len(trials)} trials, {len(losses)} completed{left}", loc="left")


def _drawn(num: int) -> list[int]:
    """The ranks of the trials that a panel draws: the best, and others evenly over the rest."""
    if num <= MOST_TRIALS:
        return list(range(num))
    rest = MOST_TRIALS - BEST
    return [*range(BEST), *(BEST + at * (num - BEST) // rest for at in range(rest))]


def _look(rank: int, num_completed: int) -> dict[str, Any]:
    if rank >= num_completed:
        return {"color": style.GREY, "linestyle": (0, (1, 2)), "linewidth": 0.9, "zorder": 1}
    if rank < min(BEST, max(1, num_completed // 3)):
        dashes = style.DASHES[rank]
        return {"color": style.VERMILLION, "linestyle": dashes, "linewidth": 2, "zorder": 4 - rank}
    shade = 0.35 + 0.45 * rank / max(1, num_completed - 1)  # the better, the darker
    return {"color": (shade, shade, 1 - 0.5 * (1 - shade)), "linewidth": 0.8, "zorder": 1}


def _axes(axes: Any, scales: Sequence[Scale]) -> None:
    axes.set(xlim=(-0.25, len(scales) - 0.75), ylim=(-0.06, 1.06), yticks=[])
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(axis="x", length=0)
    axes.set_xticks(range(len(scales)), [scale.title for scale in scales], fontsize=8)
    box = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.5}
    right = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
    for x, scale in enumerate(scales):
        axes.axvline(x, color=style.BLACK, linewidth=0.8)
        for height, text in scale.marks:
            axes.annotate(text, (x, height), **right, fontsize=7, bbox=box, zorder=6)


def _scale(key: str, values: Sequence[Any]) -> Scale:
    title = key.replace(".", "\n", 1)
    if all(finite(value) is not None for value in values):
        low, high = float(min(values)), float(max(values))
        bend = np.log if low > 0 and high / low >= LOG_RANGE else np.asarray
        heights = np.interp(bend(values), bend([low, high]), [0, 1]).tolist()
        return Scale(title, heights, [(0.0, f"{low:.3g}"), (1.0, f"{high:.3g}")])
    choices = sorted(set(map(_text, values)))
    last = max(1, len(choices) - 1)
    marks = [(i / last, style.shortened(text, 14)) for i, text in enumerate(choices)]
    return Scale(title, [choices.index(_text(value)) / last for value in values], marks)


def _loss_scale(losses: Sequence[float], metric: Metric) -> Scale:
    """At most four times the spread above the median: one bad trial would hide the rest."""
    title = f"{metric.shown}\nof valid"
    if not losses:
        return Scale(title, [], [])
    low, middle = losses[0], losses[len(losses) // 2]
    high = min(losses[-1], middle + 4 * max(middle - low, 1e-6))
    beyond = "≤ " if metric.better == "higher" else "≥ "
    more = beyond if high < losses[-1] else ""
    heights = [min(1.0, (loss - low) / ((high - low) or 1.0)) for loss in losses]
    return Scale(title, heights, [(0.0, shown(metric, low)), (1.0, f"{more}{shown(metric, high)}")])


def _text(value: Any) -> str:
    return "none" if value is None else str(value)


def _varied(trials: Sequence[Journal]) -> list[str]:
    """The fields that all of these trials have, and that differ between them."""
    if not trials:
        return []
    shared = [key for key in trials[0].config if all(key in trial.config for trial in trials)]
    return [key for key in shared if len({_text(trial.config[key]) for trial in trials}) > 1]


def _trials(arm: str, material: Material) -> list[Journal]:
    searches = material.record.searches_of(arm)
    ids = dict.fromkeys(trial for search in searches for trial in search.trials)
    trials = [material.journals[trial] for trial in ids if trial in material.journals]
    return [journal for journal in trials if journal.outcome is not None and journal.config]


def caption(material: Material) -> str:
    """Return what the lines show, and how many trials are left out."""
    return (
        "Every trial of a search as a line, over its settings, to its result on validation "
        "(best at the bottom). Bold: the best; dotted: stopped early, diverged or failed. "
        "Fields that only some trials have are left out."
        f"{chosen.left_out([*_searched(material)], MOST_ARMS, material)}"
    )
