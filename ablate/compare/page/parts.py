"""What a page consists of, as data: sections of tables, texts and pictures. None of it is HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ablate.compare.formats import Table
from ablate.compare.plots.figure import Figure


@dataclass(frozen=True)
class Grid:
    """A table's headings and rows."""

    kind: ClassVar = "grid"
    table: Table
    title: str = ""
    folded: str = ""  # the line that unfolds it; none: it is always shown


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar = "text"
    text: str
    look: Literal["plain", "answer", "warning", "small", "code", "command"] = "plain"


@dataclass(frozen=True)
class Drawing:
    """A described figure, which the page draws as it can: to be used, or as a still picture."""

    kind: ClassVar = "drawing"
    name: str
    figure: Figure


@dataclass(frozen=True)
class Picture:
    """A still picture as SVG, with its caption and its numbers."""

    kind: ClassVar = "picture"
    svg: str
    title: str
    caption: str = ""
    table: Table | None = None


@dataclass(frozen=True)
class Progress:
    """A bar that fills, with a text; of a running study, so no report has one."""

    kind: ClassVar = "progress"
    done: int
    total: int
    text: str


@dataclass(frozen=True)
class Folded:
    """Paragraphs behind a line that unfolds them."""

    kind: ClassVar = "folded"
    line: str
    texts: Sequence[str]


Part = Grid | Text | Drawing | Picture | Folded


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading; the first one's heading is that of the page."""

    title: str
    parts: Sequence[Part]
    above: str = ""  # in small print above its heading


def small(texts: Iterable[str]) -> list[Text]:
    """Paragraphs in small print."""
    return [Text(text, "small") for text in texts]


def first_section(table: Table, further: Iterable[Part] = ()) -> Section:
    """A page's beginning: the question as its headline, the answer, and the table."""
    title, above = (table.question or table.title), (table.title if table.question else "")
    return Section(title, [*table_parts(table), *further], above)


def table_parts(table: Table) -> Iterator[Part]:
    """The answer, and the table with what has to be known of it."""
    yield from (Text(text, "answer") for text in table.answer)
    yield from (Text(warning, "warning") for warning in table.warnings)
    yield Grid(table)
    yield from (Grid(other, other.title) for other in table.further)
    yield from small([*table.settings, *replace(table, answer=()).small_print("bold")])
    yield from [Text(table.reference, "code")] if table.reference else []


def made_parts(table: Table) -> Iterator[Part]:
    """Every column and everything that is said of a table, folded up."""
    yield Grid(table, folded="Every column")
    for other in table.further:
        yield Grid(other, folded=other.title or other.headings[0])
    yield Folded("How these numbers were made", [*table.settings, *table.small_print("bold")])
