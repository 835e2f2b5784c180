"""The figures of a page: those of reports and files, and what only a running study has.

They are described as data like all others, so that a page, a file and a table show the same
numbers.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ablate.compare import plots
from ablate.compare.formats import Column, for_people
from ablate.compare.judged import Judged
from ablate.compare.page.parts import Grid
from ablate.compare.plots import figure as fig
from ablate.compare.plots import interactive
from ablate.errors import ConfigError, unknown
from ablate.results.labels import labels_of
from ablate.results.result import result_of
from ablate.store.journal import Journal

OF_TABLE = "deltas"  # which the table draws; as a file, it is a figure
OF_ARMS = ("curves", "interactions")
OF_COSTS = ("parameters",)
OF_SEARCHES = ("budget", "history", "search")
OF_RUNNING = ("progress",)  # what changes with every epoch
NAMES = (OF_TABLE, *OF_ARMS, *OF_COSTS, *OF_SEARCHES, *OF_RUNNING)
MOST_POINTS = 500  # of a curve
MOST_DOTS = 1000  # of a figure, without a line between them
MOST_LINES = 40  # of trials that run
MOST_ARMS = 6  # whose searches have a panel


def one(judged: Judged, name: str) -> fig.Figure | None:
    """A figure by its name; None if the study has nothing for it."""
    if name not in NAMES:
        raise ConfigError(unknown("figure", name, NAMES))
    if not judged.journals:
        return None
    own = {"progress": progress, "history": history}
    figure = own[name](judged) if name in own else plots.get(name).described(judged)
    return None if figure is None else thinned(figure)


def plain(figure: fig.Figure) -> dict[str, Any]:
    """The figure as plotly's plain data."""
    return json.loads(interactive.as_json(figure))


def thinned(figure: fig.Figure) -> fig.Figure:
    """The figure with at most 500 points a curve and 1,000 dots, which its caption says."""
    every = [mark for panel in figure.panels for mark in panel.marks]
    clouds = sum(_is_cloud(mark) for mark in every)
    most_dots = MOST_DOTS // max(2, clouds)
    made = {
        id(mark): _thinned(mark, most_dots if _is_cloud(mark) else MOST_POINTS) for mark in every
    }
    if all(made[id(mark)] is mark for mark in every):
        return figure
    panels = [
        dataclasses.replace(panel, marks=[made[id(mark)] for mark in panel.marks])
        for panel in figure.panels
    ]
    dots = f", and each panel {most_dots} of its dots" if clouds else ""
    note = f" Each curve shows at most {MOST_POINTS} of its points{dots}, evenly spaced."
    return dataclasses.replace(figure, panels=panels, caption=figure.caption + note)


def _is_cloud(mark: fig.Mark) -> bool:
    """Return whether it is named dots without a line, each of which a browser draws by itself."""
    return isinstance(mark, fig.Series) and bool(mark.name) and not mark.look.width


def _thinned(mark: fig.Mark, most: int) -> fig.Mark:
    if not isinstance(mark, fig.Series) or len(mark.x) <= most:
        return mark
    last = len(mark.x) - 1  # the first point and the last one stay
    kept = [round(at * last / (most - 1)) for at in range(most)]
    points = {
        part: [values[at] for at in kept] if (values := getattr(mark, part)) else ()
        for part in ("x", "y", "low", "high")
    }
    return dataclasses.replace(mark, **points)


def progress(judged: Judged) -> fig.Figure | None:
    """A line for each trial that has not ended, which curves over seeds do not have yet."""
    running = [(id, j) for id, j in judged.journals.items() if j.status is None and j.epochs]
    if not running:
        return None
    record, metric, labels = judged.record, judged.metric, labels_of(judged.record)
    looks = {arm.name: fig.nth_look(at, width=1.2) for at, arm in enumerate(record.arms)}
    lines = []
    for id, journal in running[:MOST_LINES]:
        label, losses = labels.get(id), _losses(journal, judged)
        if label is not None and losses:
            epochs, values = zip(*losses, strict=True)
            shown = [metric.show(loss) for loss in values]
            lines.append(fig.Series(x=epochs, y=shown, name=label.name, look=looks[label.arm]))
    if not lines:
        return None
    more = len(running) > MOST_LINES
    left = f" The first {MOST_LINES} of {len(running)} are drawn." if more else ""
    values = [y for line in lines for y in line.y]
    y = fig.value_axis(f"{metric.shown} of valid", metric, min(values), max(values))
    panel = fig.Panel(x=fig.Axis("epoch", numbers="whole"), y=y, marks=lines, names="ends")
    caption = f"Validation by epoch of each trial that has not ended.{left}"
    return fig.Figure(title="Under way", caption=caption, panels=[panel])


def _losses(journal: Journal, judged: Judged) -> list[tuple[int, float]]:
    metric = judged.metric
    pairs = ((e.number, metric.loss_of(e.metrics, "valid")) for e in journal.epochs)
    return [(number, loss) for number, loss in pairs if loss is not None]


def history(judged: Judged) -> fig.Figure | None:
    """Every trial of each search in its order, and the best one so far."""
    metric = judged.metric
    panels = []
    for arm in judged.record.arms:
        marks: list[fig.Mark] = []
        for at, search in enumerate(judged.record.searches_of(arm.name)):
            known = [(n, judged.journals.get(t)) for n, t in enumerate(search.trials, 1)]
            losses = [(n, result_of(j).loss(metric, "valid")) for n, j in known if j is not None]
            marks += _history([(n, loss) for n, loss in losses if loss is not None], at, judged)
        if marks:
            x, y = fig.Axis("trial of the search", numbers="whole"), fig.Axis(metric.shown)
            panels.append(fig.Panel(x=x, y=y, marks=marks, title=arm.name))
    if not panels:
        return None
    more = len(panels) - MOST_ARMS
    left = f" {more} more arms are not drawn." if more > 0 else ""
    shown = panels[:MOST_ARMS]
    caption = "Each completed trial of a search on validation (dots), and the best so far (steps)."
    about: Any = {"title": "History of the searches", "caption": caption + left, "panels": shown}
    columns = min(2, len(shown))
    return fig.Figure(**about, columns=columns, height=2.6 * -(-len(shown) // columns), shared="y")


def _history(losses: list[tuple[int, float]], at: int, judged: Judged) -> list[fig.Mark]:
    if not losses:
        return []
    show, look = judged.metric.show, fig.nth_look(at)
    numbers = [number for number, _ in losses]
    best = [min(loss for _, loss in losses[: end + 1]) for end in range(len(losses))]
    dots = dataclasses.replace(look, marker="o", size=3, width=0)
    return [
        fig.Series(x=numbers, y=[show(loss) for _, loss in losses], name="trial", look=dots),
        fig.Series(x=numbers, y=[*map(show, best)], name="best so far", look=look, steps=True),
    ]


def best_settings(judged: Judged) -> list[Grid]:
    """The settings of the best trial of each search so far: a row a field, a column a search."""
    found = judged.found_so_far
    winners = [(arm, repeat, values) for arm, by in found.items() for repeat, values in by.items()]
    if not winners:
        return []
    fields = list(dict.fromkeys(name for _, _, values in winners for name in values))
    several = len(winners) > len(found)
    columns = [
        Column("setting", str, left=True),
        *(_of_winner(arm, repeat if several else None, values) for arm, repeat, values in winners),
    ]
    return [Grid(for_people(columns, fields), "Best settings so far")]


def _of_winner(arm: str, repeat: int | None, values: Any) -> Column:
    heading = arm if repeat is None else f"{arm}, search {repeat + 1}"
    return Column(heading, lambda field: values.get(field))
