"""The numbers of `side_by_side.py` for a reader: for each corpus, a table for each source.

A source is a study, or a table of a paper.

A line is an arm or a model, a metric and a split: our number, the published one, and the verdict on
it or why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ablate.compare.across.row import OURS, Place, Row
from ablate.compare.formats import Column, Table, for_people
from ablate.compare.text.figures import count
from ablate.config.metrics import SPLITS


class Line(NamedTuple):
    """One number of an arm or a model, which is named in the first of its lines for a metric."""

    row: Row
    place: Place
    again: bool = False

    @property
    def beside(self) -> tuple[str, str]:
        """The published number and the verdict; empty if nothing is published."""
        return self.row.beside.get(self.place, ("", ""))


def _once(of: Callable[[Line], str]) -> Callable[[Line], str]:
    return lambda line: "" if line.again else of(line)


def _parameters(line: Line) -> str:
    return "" if line.row.parameters is None else count(line.row.parameters)


METRIC = Column("metric", _once(lambda line: line.place[2]), left=True, wraps=True)
COLUMNS = (
    Column("arm or model", _once(lambda line: line.row.name), left=True, wraps=True),
    Column("params", _once(_parameters)),
    METRIC,
    Column("split", lambda line: line.place[1], left=True),
    Column("ours", lambda line: line.row.values.get((*line.place, OURS))),
    Column("published", lambda line: line.beside[0]),
    Column("verdict", lambda line: line.beside[1], left=True, wraps=True),
)


def tables(rows: Sequence[Row]) -> Table:
    """The first table, with all others below it, corpus by corpus."""
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
    """A column in which no line has anything is left out."""
    lines = [line for row in rows for line in _lines(row, corpus)]
    units = list(dict.fromkeys(line.place[2] for line in lines))
    lines = [line for unit in units for line in lines if line.place[2] == unit]
    named = units[0] if len(units) == 1 else ""
    columns = [column for column in COLUMNS if any(map(column.of, lines))]
    if named:
        columns.remove(METRIC)
    title = " · ".join(filter(None, [source, corpus, named]))
    return for_people(columns or COLUMNS[:1], _named_once(lines), title=title)


def _lines(row: Row, corpus: str) -> list[Line]:
    order = {split: at for at, split in enumerate(SPLITS)}  # others come last
    places = [place for place in _places(row) if place[0] == corpus]
    return [
        Line(row, place)
        for place in sorted(places, key=lambda place: order.get(place[1], len(order)))
    ]


def _named_once(lines: Sequence[Line]) -> Iterator[Line]:
    named = [(line.row.name, _parameters(line), line.place[2]) for line in lines]
    for line, own, before in zip(lines, named, [None, *named], strict=False):
        yield line._replace(again=own == before)
