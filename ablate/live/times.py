"""When a study's trials were trained, as far as their journals say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from ablate.store.journal import Journal

SHOWN = "%-d %B %Y, %H:%M UTC"


def span(journals: Iterable[Journal]) -> tuple[datetime, datetime] | None:
    """The first start and the last end; None if no start is known."""
    spans = [each for journal in journals for each in _spans(journal)]
    if not spans:
        return None
    return min(start for start, _ in spans), max(end for _, end in spans)


def _spans(journal: Journal) -> Iterator[tuple[datetime, datetime]]:
    """Each attempt's start; of the last one, its end by the trial's own clock."""
    for attempt in journal.attempts:
        if attempt.started:
            start = datetime.fromisoformat(attempt.started)
            is_last = attempt is journal.attempts[-1]
            yield start, start + timedelta(seconds=_seconds(journal, attempt.from_epoch, is_last))


def _seconds(journal: Journal, from_epoch: int, is_last: bool) -> float:
    if not is_last:
        return 0.0
    by_epoch = {epoch.number: epoch.seconds or 0.0 for epoch in journal.epochs}
    trained = max(by_epoch.values(), default=0.0) - by_epoch.get(from_epoch, 0.0)
    return trained + ((journal.outcome and journal.outcome.seconds) or 0.0)
