"""What pages have besides the parts of a report: links, bars of states, figures, lists by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, ClassVar

from ablate.compare.formats import Table
from ablate.compare.page.parts import Part as OfReport
from ablate.compare.plots.figure import Figure
from ablate.store.outcome import Status

PAGE = 50  # rows of a list
MOST_NUMBERS = 100  # rows of the table below a figure


@dataclass(frozen=True)
class Link:
    """A cell that leads to another page."""

    text: str
    address: str

    def __str__(self) -> str:
        return self.text

    def __html__(self) -> str:
        return f'<a href="{escape(self.address)}">{escape(self.text)}</a>'


@dataclass(frozen=True)
class Marked:
    """A cell that differs from what it is compared with."""

    text: str

    def __html__(self) -> str:
        return f"<mark>{escape(self.text)}</mark>"


@dataclass(frozen=True)
class State:
    """A cell with a trial's state, which has a colour besides its word."""

    status: Status

    def __html__(self) -> str:
        return f'<span class="state {self.status}">{self.status}</span>'


@dataclass(frozen=True)
class Bar:
    """A cell with the numbers of trials in each state, as a bar and as text."""

    counts: Mapping[Status, int]
    more: str = ""  # to be said besides

    @property
    def shares(self) -> list[tuple[Status, float, float]]:
        """Each state with its start and its width, in percent of all."""
        total, at, shares = sum(self.counts.values()) or 1, 0.0, []
        for status, number in self.counts.items():
            if number:
                shares.append((status, at, 100 * number / total))
                at += 100 * number / total
        return shares

    def __html__(self) -> str:
        named = [f"{number} {status}" for status, number in self.counts.items() if number]
        text = ", ".join([*(named or ["nothing yet"]), *([self.more] if self.more else [])])
        bars = (
            f'<rect class="{status}" x="{at:.2f}%" width="{width:.2f}%" height="100%"/>'
            for status, at, width in self.shares
        )
        svg = f'<svg class="bar" aria-hidden="true">{"".join(bars)}</svg>'
        return f'<span class="progress">{svg}<span>{escape(text)}</span></span>'


@dataclass(frozen=True)
class Plotted:
    """A figure that the page's script draws; `address` leads to its data and its files."""

    kind: ClassVar = "plotted"
    address: str
    figure: Figure
    query: str = ""  # what the address needs to know besides its path

    @property
    def table(self) -> Table:
        """All that is drawn, in numbers."""
        return self.figure.table

    @property
    def first_rows(self) -> Table:
        """The start of these numbers; the CSV file has all of them."""
        table = self.table
        return replace(table, rows=table.rows[:MOST_NUMBERS], title=self.figure.title)


@dataclass(frozen=True)
class Files:
    """Links to a figure's files."""

    kind: ClassVar = "files"
    address: str


@dataclass(frozen=True)
class Facts:
    """Names and what they stand for, as a list."""

    kind: ClassVar = "facts"
    pairs: Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class Pages:
    """Links to the pages of a long list."""

    kind: ClassVar = "pages"
    number: int
    last: int
    addresses: Mapping[int, str]


@dataclass(frozen=True)
class Printed:
    """What a trial printed, folded up if it is long."""

    kind: ClassVar = "printed"
    title: str
    text: str


@dataclass(frozen=True)
class Filters:
    """Fields of a form, each with its choices, which filter a list."""

    kind: ClassVar = "filters"
    address: str
    choices: Mapping[str, tuple[str, Sequence[str]]]  # field -> the chosen one, all


@dataclass(frozen=True)
class Find:
    """A field for a text that a list is searched for."""

    kind: ClassVar = "find"
    address: str
    text: str


Part = OfReport | Plotted | Files | Facts | Pages | Printed | Filters | Find


@dataclass(frozen=True)
class Block:
    """A part of a page that is sent again when it changes."""

    name: str
    title: str
    parts: Sequence[Part]
    warning: str = ""


@dataclass(frozen=True)
class Page:
    """A whole page."""

    title: str
    blocks: Sequence[Block]
    changes: str = ""  # the address of its changes; "" if nothing of it changes
    state: str = ""  # whether anything of it runs now, in a word
    above: str = ""  # in small print above the title
    other: Link | None = None  # the same on another page


def pages(
    number: int, num_rows: int, address: str, parameter: str = "page", at: str = ""
) -> list[Pages]:
    """Links to the first and the last page and to those around this one; none for one page.

    `at`: the part of the document to show first.
    """
    last = max(1, -(-num_rows // PAGE))
    if last == 1:
        return []
    near = {1, *range(max(1, number - 2), min(last, number + 2) + 1), last}
    glue = "&" if "?" in address else "?"
    start, end = f"{address}{glue}{parameter}=", f"#{at}" if at else ""
    return [Pages(number, last, {one: f"{start}{one}{end}" for one in sorted(near)})]
