"""A list of runs made equal to a server's, in few and cheap questions; no clock is believed.

Both sides sort alike: newest start first, then by id. Of a *span* of starts we hold what the server
holds when it shows our last run of it at that run's place in it, and none after it: one question,
answered with one run. So, after a page from the top, where news are mostly found:

1. the rest is asked for in a few spans. One that agrees is done with;
2. one that does not is halved, and so on (of two halves the second must differ if the first does
   not), until it is so short that reading all of it costs less than another question.

What came in at any place is found in some twenty questions among 20,000 runs, for a span becomes
cheaper to ask about as it becomes shorter: the server sorts only what is in it.

A span that differs inside can agree only where as many of ours are gone as new ones came. So the
server is asked first which runs were deleted (one page of them), and these are taken out of ours.
Where anything else turns out to be gone, all that were deleted are read; where that does not tell
why (they were purged since), every page is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

FIRST_PAGE, PAGE = 25, 200  # runs; a server takes 3 ms and more for each of them
PARTS = 4  # spans that are asked for first
SHORT = 16  # runs of ours in a span that is read
MOST_QUESTIONS = 600  # then all pages are read: too much lies here and there


@dataclass(frozen=True)
class Entry:
    """A run in the order of the server."""

    start: int
    run_id: str

    @property
    def place(self) -> tuple[int, str]:
        return (-self.start, self.run_id)


@dataclass(frozen=True)
class Span:
    """Starts from `oldest` on, before `newest`; None has no end."""

    newest: int | None = None
    oldest: int | None = None

    def parted(self, at: int) -> tuple[Span, Span]:
        """What starts at `at` or later, and what starts before."""
        return Span(self.newest, at), Span(at, self.oldest)


Show = Callable[[Span, int, int], tuple[list[Any], bool]]  # (span, offset, limit) -> runs, more?


@dataclass
class Listing:
    """Ours, and what the server has shown."""

    show: Show
    entries: list[Entry]
    found: dict[str, Any]  # the runs that the server has shown, by id
    deleted: Iterator[set[str]] = field(default_factory=lambda: iter(()))  # ids, a page at a time
    questions: int = 0

    def reconcile(self) -> list[str]:
        """Take in what is new; the ids of those that are gone."""
        before = self._ids()
        told = next(self.deleted, set())
        lost = self._reconciled_without(told)
        if lost:
            told = told.union(*self.deleted)
            lost = self._reconciled_without(told) if lost <= told else lost
        if lost - told:
            self._read(Span())
        return sorted(before - self._ids())

    def _reconciled_without(self, told: set[str]) -> set[str]:
        """Ours made equal to the server's; which were gone without being told."""
        self.entries = [entry for entry in self.entries if entry.run_id not in told]
        ours = self._ids()
        if ours:
            self._settle(self._after_the_top(ours))
        else:
            self._read(Span())
        return ours - self._ids()

    def _ids(self) -> set[str]:
        return {entry.run_id for entry in self.entries}

    def _after_the_top(self, known: set[str]) -> list[Span]:
        """Pages from the top as long as they are new; then spans of what lies below them."""
        shown, more = self._shown(Span(), 0, FIRST_PAGE)
        page, num = shown, None
        while more and 4 * sum(entry.run_id in known for entry in page) <= 3 * len(page):
            num = self._num_new() if num is None else num
            limit = min(PAGE, max(FIRST_PAGE, num + 1 - len(shown)))
            page, more = self._shown(Span(), len(shown), limit)
            shown = [*shown, *page]
        if not more:
            self.entries = shown
            return []
        until = shown[-1].start + 1  # of the last start there may be more than was shown
        rest = Span(newest=until)
        self.entries = [e for e in shown if e.start >= until] + self.entries[self._first(until) :]
        return self._parts(rest)

    def _num_new(self) -> int:
        """How many there are above our last runs, going by what stands in the last one's place."""
        last = len(self.entries) - 1
        page, _ = self._shown(Span(), last, 1)
        place = self.entries.index(page[0]) if page and page[0] in self.entries else last
        return last - place

    def _parts(self, rest: Span) -> list[Span]:
        ours, spans = self._ours(rest), []
        for part in range(1, PARTS if ours else 1):
            start = ours[len(ours) * part // PARTS].start
            if rest.newest is None or start < rest.newest:
                above, rest = rest.parted(start)
                spans.append(above)
        return [*spans, rest]

    def _settle(self, spans: list[Span]) -> None:
        """Make ours equal to the server's in each of them."""
        waiting = [(span, False) for span in reversed(spans)]  # and whether it is known to differ
        while waiting:
            span, differs = waiting.pop()
            if self.questions > MOST_QUESTIONS:
                self._read(Span())
                return
            if not differs and self._agrees(span):
                continue
            halves = self._halves(span)
            if halves is None:
                self._read(span)
                continue
            above, below = halves
            same = self._agrees(above)
            waiting.append((below, same))
            if not same:
                waiting.append((above, True))

    def _halves(self, span: Span) -> tuple[Span, Span] | None:
        """The span in two, with runs of ours in either; None where it is short."""
        ours = self._ours(span)
        starts = {entry.start for entry in ours}
        if len(ours) <= SHORT or len(starts) == 1:
            return None
        middle = ours[len(ours) // 2].start
        last = ours[-1].start
        return span.parted(middle if middle > last else last + 1)

    def _agrees(self, span: Span) -> bool:
        """Whether the server shows our last run of it at its place, and none after it."""
        ours = self._ours(span)
        page, more = self._shown(span, max(0, len(ours) - 1), 1)
        return not more and page == ours[-1:]

    def _read(self, span: Span) -> None:
        """All pages of a span: there the server is right."""
        page, more = self._shown(span, 0, PAGE)
        shown = page
        while more and page:
            page, more = self._shown(span, len(shown), PAGE)
            shown = [*shown, *page]
        above = [] if span.newest is None else self.entries[: self._first(span.newest)]
        below = [] if span.oldest is None else self.entries[self._first(span.oldest) :]
        self.entries = [*above, *sorted(set(shown), key=lambda entry: entry.place), *below]

    def _ours(self, span: Span) -> list[Entry]:
        first = 0 if span.newest is None else self._first(span.newest)
        last = len(self.entries) if span.oldest is None else self._first(span.oldest)
        return self.entries[first:last]

    def _first(self, start: int) -> int:
        """Where those begin that started before this."""
        return bisect_left(self.entries, 1 - start, key=lambda entry: -entry.start)

    def _shown(self, span: Span, offset: int, limit: int) -> tuple[list[Entry], bool]:
        runs, more = self.show(span, offset, limit)
        self.questions += 1
        self.found |= {run.info.run_id: run for run in runs}
        return [Entry(run.info.start_time or 0, run.info.run_id) for run in runs], more
