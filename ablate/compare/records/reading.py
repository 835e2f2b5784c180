"""The numbers of `side_by_side.py` for a reader: for each corpus, a table for each source.

A source is a study, or a table of a paper.

A line is an arm or a model, a metric and a split: ours, what is published, and the verdict on that
or why there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ablate.compare.formats import Column, Table
from ablate.compare.records.row import OURS, Place, Row
from ablate.compare.text.figures import count
from ablate.config.metrics import SPLITS


@dataclass(frozen=True, kw_only=True)
class Line:
    """One number of an arm or a model; a column in which no line has anything is left out."""

    name: str
    parameters: str
    metric: str
    split: str
    ours: str
    published: str
    verdict: str


COLUMNS = {
    "name": Column("arm or model", left=True, wraps=True),
    "parameters": Column("params"),
    "metric": Column("metric", left=True, wraps=True),
    "split": Column("split", left=True),
    "ours": Column("ours"),
    "published": Column("published"),
    "verdict": Column("verdict", left=True, wraps=True),
}


def tables(rows: Sequence[Row]) -> Table:
    """The first table, with all others below it; those of one corpus one after the other."""
    places = [place for row in rows for place in _places(row)]
    every = [
        _table(source, corpus, [row for row in rows if row.source == source])
        for corpus in dict.fromkeys(corpus for corpus, *_ in places)
        for source in dict.fromkeys(row.source for row in rows if corpus in _corpora(row))
    ]
    if not every:
        return _table("", "", ())
    return replace(every[0], further=every[1:])


def _places(row: Row) -> list[Place]:
    return list(dict.fromkeys([*(key[:3] for key in row.values), *row.beside]))


def _corpora(row: Row) -> set[str]:
    return {corpus for corpus, *_ in _places(row)}


def _table(source: str, corpus: str, rows: Sequence[Row]) -> Table:
    lines = [line for row in rows for line in _lines(row, corpus)]
    units = list(dict.fromkeys(line.metric for line in lines))
    lines = [line for unit in units for line in lines if line.metric == unit]
    named = units[0] if len(units) == 1 else ""
    shown = [
        field
        for field in COLUMNS
        if any(getattr(line, field) for line in lines) and not (named and field == "metric")
    ]
    return Table(
        [COLUMNS[field] for field in shown or ["name"]],
        [[getattr(line, field) for field in shown] for line in _without_repetition(lines)],
        title=" · ".join(filter(None, [source, corpus, named])),
    )


def _lines(row: Row, corpus: str) -> list[Line]:
    order = {split: at for at, split in enumerate(SPLITS)}
    places = [place for place in _places(row) if place[0] == corpus]
    return [
        Line(
            name=row.name,
            parameters="" if row.parameters is None else count(row.parameters),
            metric=place[2],
            split=place[1],
            ours=row.values.get((*place, OURS), ""),
            published=row.beside.get(place, ("", ""))[0],
            verdict=row.beside.get(place, ("", ""))[1],
        )
        for place in sorted(places, key=lambda place: order.get(place[1], len(order)))
    ]


def _without_repetition(lines: Iterable[Line]) -> list[Line]:
    """An arm is named once, above its other lines of the same metric."""
    shown: list[Line] = []
    before = None
    for line in lines:
        named = (line.name, line.parameters, line.metric)
        again = replace(line, name="", parameters="", metric="")
        shown.append(again if named == before else line)
        before = named
    return shown
