"""The numbers of `side_by_side.py` for a reader: a table for each corpus, source and metric.

A source is a study, or a table of a paper.

A line is an arm or a model and a split: our number, the published one, and the verdict on it or why
there is none.
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
    """One number of an arm or a model, which is named in the first of its lines."""

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


COLUMNS = (
    Column("arm or model", _once(lambda line: line.row.name), left=True, names=True),
    Column("params", _once(_parameters)),
    Column("split", lambda line: line.place[1], left=True, names=True),
    Column("ours", lambda line: line.row.values.get((*line.place, OURS)), first=1),
    Column("published", lambda line: line.beside[0], first=2),
    Column("verdict", lambda line: line.beside[1], left=True, wraps=True, first=1),
)


def tables(rows: Sequence[Row]) -> Table:
    """The first table, with all others below it: by corpus, by source, and by metric."""
    grouped: dict[tuple[str, str, str], list[Line]] = {}
    for line in (Line(row, place) for row in rows for place in _places(row)):
        corpus, _, unit = line.place
        grouped.setdefault((corpus, line.row.source, unit), []).append(line)
    first = {part: at for at, key in reversed([*enumerate(grouped)]) for part in _prefixes(key)}
    keys = sorted(grouped, key=lambda key: [first[part] for part in _prefixes(key)])
    every = [_table(key, grouped[key]) for key in keys]
    return replace(every[0], further=every[1:]) if every else _table(("", "", ""), ())


def _prefixes(key: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [key[: num + 1] for num in range(len(key))]


def _places(row: Row) -> list[Place]:
    """The places of a row's numbers: validation, then test, then what has no such split."""
    places = dict.fromkeys([*(key[:3] for key in row.values), *row.beside])
    order = {split: at for at, split in enumerate(SPLITS)}
    return sorted(places, key=lambda place: order.get(place[1], len(order)))


def _table(key: tuple[str, str, str], lines: Sequence[Line]) -> Table:
    """A column in which no line has anything is left out."""
    corpus, source, unit = key
    columns = [column for column in COLUMNS if any(map(column.of, lines))]
    title = " · ".join(filter(None, [source, corpus, unit]))
    return for_people(columns or COLUMNS[:1], _named_once(lines), title=title)


def _named_once(lines: Sequence[Line]) -> Iterator[Line]:
    named = [(line.row.name, _parameters(line)) for line in lines]
    for line, own, before in zip(lines, named, [None, *named], strict=False):
        yield line._replace(again=own == before)
