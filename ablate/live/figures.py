"""The figures of a page: those of reports and files, and what only a running study has.

They are described as data like all others, so that a page, a file and a table show the same
numbers.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ablate.compare import plots
from ablate.compare.formats import Column, for_people
from ablate.compare.judged import Judged
from ablate.compare.page.parts import Grid
from ablate.compare.plots import figure as fig
from ablate.compare.plots import interactive
from ablate.config.metrics import Metric
from ablate.errors import ConfigError, unknown
from ablate.results.labels import labels_of
from ablate.results.result import result_of
from ablate.store.journal import Journal
from ablate.store.study_record import StudyRecord

OF_TABLE = "deltas"  # which the table draws; as a file, it is a figure
OF_ARMS = ("curves", "interactions")
OF_COSTS = ("parameters",)
OF_SEARCHES = ("budget", "history", "search")
CURVES = OF_ARMS[0]  # which change with every epoch of a trial that runs
NAMES = (OF_TABLE, *OF_ARMS, *OF_COSTS, *OF_SEARCHES)
MOST_POINTS = 500  # of a curve
MOST_DOTS = 1000  # of a figure, without a line between them
MOST_LINES = 40  # of trials that run
MOST_ARMS = 6  # whose searches have a panel
SEARCHES = ("1 (black)", "2 (blue, dashed)", "3 (red, dotted)", "4 (green, dashes and dots)")


def one(judged: Judged, name: str) -> fig.Figure | None:
    """A figure by its name; None if the study has nothing for it."""
    if name not in NAMES:
        raise ConfigError(unknown("figure", name, NAMES))
    if not judged.journals:
        return None
    figure = history(judged) if name == "history" else plots.get(name).described(judged)
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


def with_running(
    figure: fig.Figure | None, record: StudyRecord, journals: Mapping[str, Journal]
) -> fig.Figure | None:
    """The learning curves, with a thin line for each trial that has not ended; these alone, before
    an arm has a curve."""
    lines = [*_running(record, journals)]
    if not lines:
        return figure
    if figure is None:
        return thinned(_alone(lines, record))
    panels = [
        dataclasses.replace(panel, marks=[*panel.marks, *_of_panel(lines, panel)])
        for panel in figure.panels
    ]
    caption = f"{figure.caption} Thin: a trial that has not ended."
    return thinned(dataclasses.replace(figure, panels=panels, caption=caption))


def _running(
    record: StudyRecord, journals: Mapping[str, Journal]
) -> Iterator[tuple[str, fig.Series]]:
    """The arm and the line of each trial that has not ended."""
    running = {id: journal for id, journal in journals.items() if journal.status is None}
    labels, show = (labels_of(record) if running else {}), record.metric.show
    for id in itertools.islice((id for id in running if id in labels), MOST_LINES):
        if losses := _losses(running[id], record.metric):
            epochs, values = zip(*losses, strict=True)
            name = labels[id].name
            yield labels[id].arm, fig.Series(x=epochs, y=[*map(show, values)], about=name)


def _of_panel(lines: Sequence[tuple[str, fig.Series]], panel: fig.Panel) -> Iterator[fig.Series]:
    """The lines of the arms that have a curve in a panel, in their colours."""
    looks = {series.name: series.look for series in panel.series}
    for arm, line in lines:
        if arm in looks:
            yield dataclasses.replace(line, look=dataclasses.replace(looks[arm], width=0.8))


def _alone(lines: Sequence[tuple[str, fig.Series]], record: StudyRecord) -> fig.Figure:
    """A figure of trials, each with its name."""
    looks = {arm.name: fig.nth_look(at, width=1.2) for at, arm in enumerate(record.arms)}
    marks = [dataclasses.replace(s, name=s.about, look=looks[arm]) for arm, s in lines]
    values, metric = [y for line in marks for y in line.y], record.metric
    y = fig.value_axis(f"{metric.shown} of valid", metric, min(values), max(values))
    panel = fig.Panel(x=fig.Axis("epoch", numbers="whole"), y=y, marks=marks, names="ends")
    caption = f"Validation by epoch of each trial that has not ended, {MOST_LINES} at most."
    return fig.Figure(title="Learning curves", caption=caption, panels=[panel])


def _losses(journal: Journal, metric: Metric) -> list[tuple[int, float]]:
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
    most = max(len(judged.record.searches_of(arm.name)) for arm in judged.record.arms)
    legend = f", of search {', '.join(SEARCHES[:most])}" if most > 1 else ""
    caption = f"Each completed trial on validation (dots), and the best so far (steps){legend}."
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
