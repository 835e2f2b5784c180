"""Whatever a figure describes is drawn by both of its writers: the same numbers, names and ends."""

from __future__ import annotations

import html
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ablate.compare import plots
from ablate.compare.plots import interactive, static
from ablate.compare.plots.figure import Figure, Label, Panel, Rule, Series
from ablate.compare.plots.geometry import boxes
from tests.compare.plots.test_golden_pictures import STUDIES
from tests.support.whole_study import judged_of

COMPARED = [title for title in STUDIES if title != "a factorial of three"]  # which has no new kind
Points = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Drawn:
    """What a panel shows, to nine digits."""

    lines: list[Points]
    bands: list[frozenset[tuple[str, str]]]
    intervals: list[Points]
    rules: list[str]
    limits: tuple[Any, ...]
    texts: frozenset[str]


def points(x: Iterable[float], y: Iterable[float]) -> Points:
    return tuple((f"{a:.9g}", f"{b:.9g}") for a, b in zip(x, y, strict=True))


def ends(low: Sequence[float], high: Sequence[float], x: Sequence[float]) -> Iterator[Points]:
    for at, *pair in zip(x, low, high, strict=True):
        yield points([at, at], sorted(pair))


def limits(pair: Iterable[float]) -> tuple[str, ...]:
    return tuple(f"{end:.6g}" for end in pair)


def in_the_description(panel: Panel) -> Drawn:
    series = [mark for mark in panel.marks if isinstance(mark, Series)]
    bands = [each for each in series if each.shade]
    bars = [each for each in series if each.cap and each.low]
    labels = [mark.text for mark in panel.marks if isinstance(mark, Label)]
    named = [end.text for end in panel.ends] if panel.names else []
    around = [text for _, text in panel.margin_notes] + [panel.title, panel.note, panel.x.title]
    ticks = [text for axis in (panel.x, panel.y) for _, text in axis.ticks or ()]
    return Drawn(
        lines=sorted(points(each.x, each.y) for each in series if len(each.x)),
        bands=[frozenset(points([*b.x, *b.x], [*b.low, *b.high])) for b in bands],
        intervals=[pair for each in bars for pair in ends(each.low, each.high, each.x)],
        rules=[f"{mark.x:.9g}" for mark in panel.marks if isinstance(mark, Rule)],
        limits=tuple(axis.limits and limits(axis.limits) for axis in (panel.x, panel.y)),
        texts=frozenset(filter(None, [*labels, *named, *around, *ticks])),
    )


def by_matplotlib(figure: Figure, axes: Any, panel: Panel) -> Drawn:
    bars = [container.lines for container in axes.containers]
    caps = {id(cap) for _, caps, _ in bars for cap in caps}
    rules = [line for line in axes.lines if line.get_transform() != axes.transData]
    lines = [line for line in axes.lines if id(line) not in caps and line not in rules]
    segments = [s for _, _, groups in bars for group in groups for s in group.get_segments()]
    groups = {id(group) for _, _, groups in bars for group in groups}
    bands = [band for band in axes.collections if id(band) not in groups]
    legend = axes.get_legend()
    texts = [text.get_text() for text in (*axes.texts, *(legend.get_texts() if legend else ()))]
    ticks = [t.get_text() for axis in (axes.xaxis, axes.yaxis) for t in axis.get_ticklabels()]
    titles = [axes.get_title(), axes.get_title(loc="left"), axes.get_xlabel()]
    whole = [text.get_text() for text in axes.figure.texts]
    seen = axes.get_xlim(), axes.get_ylim()
    return Drawn(
        lines=sorted(filter(None, (points(*line.get_data()) for line in lines))),
        bands=[frozenset(points(*band.get_paths()[0].vertices.T)) for band in bands],
        intervals=[points(*np.transpose(sorted(map(tuple, s)))) for s in segments],
        rules=[f"{line.get_xdata()[0]:.9g}" for line in rules],
        limits=_given(panel, map(limits, seen)),
        texts=frozenset({*texts, *ticks, *titles, *whole}),
    )


def by_plotly(figure: Any, number: str, panel: Panel) -> Drawn:
    figure = json.loads(figure) if isinstance(figure, str) else figure
    mine = [t for t in figure["data"] if (t["xaxis"], t["yaxis"]) == (f"x{number}", f"y{number}")]
    bands = [t for t in mine if t.get("fill")]
    lines = [t for t in mine if not t.get("fill")]
    layout = figure["layout"]
    axes = [layout[f"{name}axis{number}"] for name in "xy"]
    within = [t for t in layout["annotations"] if t["xref"].split()[0] == f"x{number}"]
    texts = [t["text"] for t in within] + [t["name"] for t in lines if t.get("showlegend")]
    texts += [text for axis in axes for text in axis.get("ticktext", [])]
    texts += [layout[f"xaxis{n}"]["title"]["text"] for n in ("", number)]
    texts += [a["title"]["text"] for name, a in layout.items() if name.startswith("xaxis")]
    shapes = [s for s in layout["shapes"] if s["xref"] == f"x{number}"]
    seen = ([10**e if a["type"] == "log" else e for e in a.get("range", (0, 0))] for a in axes)
    return Drawn(
        lines=sorted(p for trace in lines for p in _pieces(trace)),
        bands=[frozenset(points(t["x"], t["y"])) for t in bands],
        intervals=[pair for t in lines if "error_y" in t for pair in _intervals(t)],
        rules=[f"{shape['x0']:.9g}" for shape in shapes],
        limits=_given(panel, map(limits, seen)),
        texts=frozenset(html.unescape(text).replace("<br>", "\n") for text in texts),
    )


def _given(panel: Panel, seen: Iterable[Any]) -> tuple[Any, ...]:
    """The limits, where the description has any."""
    axes = (panel.x, panel.y)
    return tuple(a.limits and pair for a, pair in zip(axes, seen, strict=True))


def _pieces(trace: Any) -> Iterator[Points]:
    """A trace's lines: single points, or what gaps divide."""
    pairs = [*zip(trace["x"], trace["y"], strict=True)]
    for is_gap, piece in itertools.groupby(pairs, lambda pair: pair[0] is None):
        if not is_gap:
            yield points(*zip(*piece, strict=True))


def _intervals(trace: Any) -> Iterator[Points]:
    y, bars = np.array(trace["y"]), trace["error_y"]
    assert not bars["symmetric"]
    yield from ends(y - bars["arrayminus"], y + bars["array"], trace["x"])


@pytest.fixture(scope="module")
def figures() -> dict[str, dict[str, Figure]]:
    return {title: plots.described(judged_of(STUDIES[title]())) for title in COMPARED}


def test_every_figure_is_among_those_that_are_compared(figures):
    assert {name for each in figures.values() for name in each} == {*plots.NAMES}


@pytest.mark.slow
@pytest.mark.parametrize("title", COMPARED)
def test_both_writers_draw_what_is_described(title, figures):
    for figure in figures[title].values():
        still, live = static.drawn(figure), json.loads(interactive.as_json(figure))
        axes = [each for each in still.axes if each.get_visible()]
        for each, box, panel in zip(axes, boxes(figure), figure.panels, strict=True):
            told = in_the_description(panel)
            for seen in (by_matplotlib(figure, each, panel), by_plotly(live, box.number, panel)):
                assert seen.lines == told.lines
                assert sorted(map(sorted, seen.bands)) == sorted(map(sorted, told.bands))
                assert sorted(seen.intervals) == sorted(told.intervals)
                assert seen.rules == told.rules
                assert seen.limits == told.limits
                assert told.texts <= seen.texts
