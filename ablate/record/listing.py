"""Makes a list of runs equal to a server's with few and cheap queries, without relying on clocks.

A study's mark does not say which of its trials are new (nor, while the study runs, that any is),
a server has no query for "changed since", and it takes 3 ms and more for each run that it returns.

Both sides use the same order: newest start first, then by id. Our runs in a *span* of start times
equal the server's if the server returns our last run of the span at the same position, and none
after it: one query, which returns one run. After a page from the top, where most new runs are, each
quarter of the rest is asked about so. One that differs is halved, and so on, until a span is so
short that reading all of it costs less than another query. Among 20,000 runs, new runs at any
position are found with about twenty queries.

A span with differences can still agree if as many runs were deleted as were added. So the server is
first queried for deleted runs (one page of them), which are removed from ours. If other runs turn
out to be missing, all deleted runs are read; if those do not explain it (they have since been
purged), every page is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

FIRST_PAGE, PAGE = 25, 200  # runs
UNASKED = 2  # times that all runs are halved before the first question
SHORT = 16  # a span with at most this many of our runs is read
MAX_QUERIES = 600  # then whole spans are read: the differences are too scattered


@dataclass(frozen=True)
class Entry:
    """A run in the server's order."""

    start: int
    run_id: str

    @property
    def sort_key(self) -> tuple[int, str]:
        """The server's order: newest first, then by id."""
        return (-self.start, self.run_id)


@dataclass(frozen=True)
class Span:
    """Start times from `oldest` up to but excluding `newest`; None means no limit."""

    newest: int | None = None
    oldest: int | None = None

    def split_at(self, start: int) -> tuple[Span, Span]:
        """The span from `start` on, and the span before it."""
        return Span(self.newest, start), Span(start, self.oldest)


# (span, offset, limit) -> runs, and whether there are more
FetchPage = Callable[[Span, int, int], tuple[list[Any], bool]]


@dataclass
class Listing:
    """Our list, and the runs that the server has returned."""

    fetch_page: FetchPage
    entries: list[Entry]
    runs: dict[str, Any]  # the runs that the server has returned, by id
    deleted: Iterator[set[str]] = field(default_factory=lambda: iter(()))  # ids, a page at a time
    num_queries: int = 0

    def reconcile(self) -> list[str]:
        """Add the new runs, and return the ids of those that are gone."""
        before = self._ids()
        deleted = next(self.deleted, set())
        lost = self._reconcile_without(deleted)
        if lost:  # rarely; reading all deleted runs may take many pages
            deleted = deleted.union(*self.deleted)
            lost = self._reconcile_without(deleted) if lost <= deleted else lost
        if lost - deleted:
            self._read(Span())
        return sorted(before - self._ids())

    def _reconcile_without(self, deleted: set[str]) -> set[str]:
        """Make ours equal to the server's; return the runs lost beyond the deleted ones."""
        self.entries = [entry for entry in self.entries if entry.run_id not in deleted]
        ours = self._ids()
        self._settle(self._read_top(ours), UNASKED)
        return ours - self._ids()

    def _ids(self) -> set[str]:
        return {entry.run_id for entry in self.entries}

    def _read_top(self, known: set[str]) -> Span:
        """Read pages from the top, each as long as all before, while half of one is new; return the
        rest."""
        page, more = self._fetch(Span(), 0, FIRST_PAGE)
        read = page
        while more and 2 * sum(entry.run_id in known for entry in page) <= len(page):
            page, more = self._fetch(Span(), len(read), min(PAGE, len(read)))
            read = [*read, *page]
        until = read[-1].start + 1 if read else 0  # the next page may have more of the last start
        rest = Span(newest=until)
        self.entries = [e for e in read if e.start >= until] + self._entries_in(rest)
        return rest

    def _settle(self, span: Span, unasked: int = 0) -> None:
        """Make ours equal to the server's in a span."""
        if not unasked and self._agrees(span):
            return
        halves = self._halve(span)
        if halves is None or self.num_queries > MAX_QUERIES:
            self._read(span)
            return
        for half in halves:
            self._settle(half, max(0, unasked - 1))

    def _halve(self, span: Span) -> tuple[Span, Span] | None:
        """Split a span, with known runs in each half; None if it is short."""
        ours = self._entries_in(span)
        starts = {entry.start for entry in ours}
        if len(ours) <= SHORT or len(starts) == 1:  # one start cannot be divided
            return None
        middle = ours[len(ours) // 2].start
        last = ours[-1].start
        # At `last` itself, none of our runs would be in the older half.
        return span.split_at(middle if middle > last else last + 1)

    def _agrees(self, span: Span) -> bool:
        """Return whether the server has our last run of the span at that position, as its last."""
        ours = self._entries_in(span)
        page, more = self._fetch(span, max(0, len(ours) - 1), 1)
        return not more and page == ours[-1:]

    def _read(self, span: Span) -> None:
        """Replace our runs in a span by the server's, reading all of its pages."""
        page, more = self._fetch(span, 0, PAGE)
        read = page
        while more and page:
            page, more = self._fetch(span, len(read), PAGE)
            read = [*read, *page]
        first, last = self._bounds(span)
        ordered = sorted(set(read), key=lambda entry: entry.sort_key)
        self.entries = [*self.entries[:first], *ordered, *self.entries[last:]]

    def _entries_in(self, span: Span) -> list[Entry]:
        first, last = self._bounds(span)
        return self.entries[first:last]

    def _bounds(self, span: Span) -> tuple[int, int]:
        first = 0 if span.newest is None else self._index(span.newest)
        return first, len(self.entries) if span.oldest is None else self._index(span.oldest)

    def _index(self, start: int) -> int:
        """Index of our first run that started before `start`."""
        # Starts are whole milliseconds: "before `start`" is "at most `start` - 1".
        return bisect_left(self.entries, 1 - start, key=lambda entry: -entry.start)

    def _fetch(self, span: Span, offset: int, limit: int) -> tuple[list[Entry], bool]:
        runs, more = self.fetch_page(span, offset, limit)
        self.num_queries += 1
        self.runs |= {run.info.run_id: run for run in runs}
        return [Entry(run.info.start_time or 0, run.info.run_id) for run in runs], more
