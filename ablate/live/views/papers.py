"""The papers' tables, with what the store has beside each of their numbers."""

from __future__ import annotations

import re
from collections import Counter

from ablate import papers
from ablate.compare.formats import Column, for_people
from ablate.compare.page.parts import Grid, Text
from ablate.live.parts import Block, Facts, Link
from ablate.store.store import Store
from ablate.study.next_to_papers import RUN, Line, Results, rows_of


def index(store: Store) -> list[Block]:
    """Every paper, and how many rows of its tables have a result here."""
    results = Results(store)
    known = [(papers.load(id), rows_of(id, results)) for id in papers.ids()]
    columns = [
        Column("paper", lambda p: Link(p[0].id, f"/papers/{p[0].id}"), left=True),
        Column("title", lambda p: p[0].title, left=True),
        Column("venue", lambda p: f"{p[0].venue} {p[0].year}", left=True),
        Column("rows", lambda p: len(p[1])),
        Column("run here", lambda p: sum(line.state == RUN for line in p[1])),
    ]
    return [Block("papers", "", [Grid(for_people(columns, known, title="papers"))])]


def one(store: Store, paper: str) -> list[Block]:
    """A block for each table of a paper."""
    lines = rows_of(paper, Results(store))
    tables: dict[str, list[Line]] = {}
    for line in lines:
        tables.setdefault(line.table, []).append(line)
    published = papers.load(paper)
    states = Counter(line.state for line in lines)
    about = Facts(
        [
            ("authors", ", ".join(published.authors)),
            ("published", f"{published.venue} {published.year}"),
            ("text", Link(published.url, published.url)),
        ]
    )
    counts = ", ".join(f"{num} {state}" for state, num in states.items())
    columns = [
        Column("row", lambda line: _breakable(line.system), left=True),
        Column("published", lambda line: line.published, left=True),
        Column("here", lambda line: line.here, left=True),
        Column("arms of shipped studies", lambda line: line.arms, left=True),
    ]
    blocks = [
        Block(f"table{at}", name, [Grid(for_people(columns, rows, title=name))])
        for at, (name, rows) in enumerate(tables.items())
    ]
    return [Block("about", "", [about, Text(f"{len(lines)} rows: {counts}.")]), *blocks]


def _breakable(name: str) -> str:
    """A row's name with spaces after its commas, so that no number is broken over two lines."""
    return re.sub(r",(?=\S)", ", ", name)
