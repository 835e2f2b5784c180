"""Parallel coordinates of a search: every trial is a line over its settings, to its loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ablate.compare.formats import table_of_values, text_of
from ablate.compare.judged import Judged
from ablate.compare.plots import chosen, style
from ablate.compare.plots import figure as fig
from ablate.compare.text.figures import shown
from ablate.compare.text.labels import labels
from ablate.config.metrics import Metric
from ablate.results.result import result_of
from ablate.store.journal import Journal
from ablate.store.numbers import finite

MOST_ARMS, MOST_TRIALS, BEST = 6, 500, 3  # panels; lines in all of them; bold lines
SHADES = 12
LOG_RANGE = 20  # an axis is logarithmic from this ratio of largest to smallest on
NEEDS = "a search"
CAPTION = (
    "Every trial of a search as a line, over its settings, to its result on validation "
    "(best at the bottom). Bold and red: the best, of which the first is solid; grey and "
    "dotted: stopped early, diverged or failed. Fields that only some trials have are left out."
)
Ranked = Sequence[tuple[float, Journal]]  # each with its loss


@dataclass(frozen=True)
class Scale:
    """One axis: the heights of the trials on it, from 0 to 1, and its marks."""

    title: str
    heights: Sequence[float]
    marks: Sequence[tuple[float, str]]


def described(judged: Judged) -> fig.Figure | None:
    """A panel for each arm; the best three bold, trials that did not complete dotted."""
    searched = _searched(judged)
    arms = chosen.arms([*searched], MOST_ARMS, judged)
    if not arms:
        return None
    metric = judged.metric
    most = MOST_TRIALS // len(arms)
    ranked = {arm: _ranked(searched[arm], metric) for arm in arms}
    rows = [row for arm, trials in ranked.items() for row in _rows(arm, trials, most, metric)]
    return fig.Figure(
        title="What was searched",
        caption=CAPTION + chosen.left_out([*searched], MOST_ARMS, judged),
        panels=[_panel(arm, trials, most, metric) for arm, trials in ranked.items()],
        width=7.4,
        height=2.4 * len(arms) + 0.2,
        own_table=table_of_values(["arm", "trial", "settings", f"{metric.shown} of valid"], rows),
    )


def _searched(judged: Judged) -> dict[str, list[Journal]]:
    """The trials of each search that has something to draw, by arm."""
    searched = {arm.name: _trials(arm.name, judged) for arm in judged.record.arms}
    return {name: trials for name, trials in searched.items() if _varied(trials)}


def _ranked(trials: Sequence[Journal], metric: Metric) -> Ranked:
    """The trials from the best on; those that did not complete are last."""
    losses = [result_of(journal).loss(metric, "valid") for journal in trials]
    pairs = [(math.inf if x is None else x, j) for x, j in zip(losses, trials, strict=True)]
    return sorted(pairs, key=lambda pair: pair[0])


def _panel(name: str, ranked: Ranked, most: int, metric: Metric) -> fig.Panel:
    """The best trials as lines over scales, the last of which is their result."""
    trials = [journal for _, journal in ranked]
    losses = [loss for loss, _ in ranked if loss < math.inf]
    varied = _varied(trials)
    scales = [_scale(key, [journal.config[key] for journal in trials]) for key in varied]
    scales.append(_loss_scale(losses, metric))
    lines = []
    for rank in range(min(most, len(trials))):
        heights = [scale.heights[rank] for scale in scales if rank < len(scale.heights)]
        look, about = _look(rank, len(losses)), _about(ranked[rank], varied, metric)
        lines.append(fig.Series(x=range(len(heights)), y=heights, look=look, about=about))
    rules = [fig.Rule(x) for x in range(len(scales))]
    marks = [fig.Label(x, *mark) for x, scale in enumerate(scales) for mark in scale.marks]
    titles = [(x, scale.title) for x, scale in enumerate(scales)]
    left = f", the best {most} drawn" if most < len(trials) else ""
    return fig.Panel(
        title=f"{name}: {len(trials)} trials, {len(losses)} completed{left}",
        x=fig.Axis(limits=(-0.25, len(scales) - 0.75), ticks=titles, grid=False),
        y=fig.Axis(limits=(-0.06, 1.06), ticks=(), grid=False),
        marks=[*lines, *rules, *marks],
        parallel=True,
    )


def _rows(arm: str, ranked: Ranked, most: int, metric: Metric) -> Iterator[list[Any]]:
    """A row for every drawn trial: its settings and its result."""
    varied = _varied([journal for _, journal in ranked])
    for loss, journal in ranked[:most]:
        settings = ", ".join(_settings(journal, varied))
        yield [arm, journal.trial.id, settings, metric.show(loss) if loss < math.inf else None]


def _settings(journal: Journal, keys: Sequence[str]) -> Iterator[str]:
    return (f"{key} = {text_of(journal.config[key]) or 'none'}" for key in keys)


def _about(ranked: tuple[float, Journal], keys: Sequence[str], metric: Metric) -> str:
    """A trial's result, and a line for each of its settings."""
    loss, journal = ranked
    result = f"{metric.shown} of valid: {shown(metric, loss)}" if loss < math.inf else "no result"
    return "\n".join([f"trial {journal.trial.id}, {result}", *_settings(journal, keys)])


def _look(rank: int, num_completed: int) -> fig.LineStyle:
    if rank >= num_completed:
        return fig.LineStyle(colour=style.GREY, dashes=(1, 2), width=0.9, above=1)
    if rank < min(BEST, max(1, num_completed // 3)):
        dashes = style.DASHES[rank]
        # The best is drawn last, on top of the others.
        return fig.LineStyle(colour=style.VERMILLION, dashes=dashes, width=2, above=4 - rank)
    # The better, the darker; in few shades, since lines that look the same are drawn at once.
    shade = 0.35 + 0.45 * round(SHADES * rank / max(1, num_completed - 1)) / SHADES
    levels = (round(255 * share) for share in (shade, shade, 1 - 0.5 * (1 - shade)))
    return fig.LineStyle(colour="#{:02x}{:02x}{:02x}".format(*levels), width=0.8, above=1)


def _scale(key: str, values: Sequence[Any]) -> Scale:
    title = key.replace(".", "\n", 1)
    if all(finite(value) is not None for value in values):
        low, high = float(min(values)), float(max(values))
        bend = np.log if low > 0 and high / low >= LOG_RANGE else np.asarray
        heights = np.interp(bend(values), bend([low, high]), [0, 1]).tolist()
        return Scale(title, heights, [(0.0, f"{low:.3g}"), (1.0, f"{high:.3g}")])
    choices = sorted(set(map(_text, values)))
    last = max(1, len(choices) - 1)
    marks = [(i / last, text) for i, text in enumerate(labels(choices, 14))]
    return Scale(title, [choices.index(_text(value)) / last for value in values], marks)


def _loss_scale(losses: Sequence[float], metric: Metric) -> Scale:
    """At most four times the spread above the median: one bad trial would hide the rest."""
    title = f"{metric.shown}\nof valid"
    if not losses:
        return Scale(title, [], [])
    low, middle = losses[0], losses[len(losses) // 2]
    high = min(losses[-1], middle + 4 * max(middle - low, 1e-6))  # half of them may be equal
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


def _trials(arm: str, judged: Judged) -> list[Journal]:
    searches = judged.record.searches_of(arm)
    ids = dict.fromkeys(trial for search in searches for trial in search.trials)
    trials = [judged.journals[trial] for trial in ids if trial in judged.journals]
    return [journal for journal in trials if journal.outcome is not None and journal.config]
