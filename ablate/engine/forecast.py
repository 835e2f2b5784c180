"""How long what is left takes, by workers that take one job after the other."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """Something to be done, for example a trial, that starts when those in `after` have ended."""

    id: Hashable
    seconds: float
    after: Collection[Hashable] = ()


def seconds_until_done(
    jobs: Sequence[Job], workers: int, running: Mapping[Hashable, float] | None = None
) -> float:
    """Return the seconds until the last job ends, if a free worker takes the first that may start.

    `running`: jobs under way, and the seconds left of each. What a job waits for and what is
    neither among these nor among `jobs` has ended.
    """
    running = running or {}
    unfinished = {job.id for job in jobs} | running.keys()
    waits_for = [unfinished.intersection(job.after) for job in jobs]
    followers: dict[Hashable, list[int]] = {}
    for number, others in enumerate(waits_for):
        for other in others:
            followers.setdefault(other, []).append(number)
    ready = [
        number for number, others in enumerate(waits_for) if not others
    ]  # a heap: it is sorted
    ends = [(seconds, -1 - at, one) for at, (one, seconds) in enumerate(running.items())]
    heapq.heapify(ends)
    now = 0.0
    while ends or ready:
        while ready and len(ends) < max(1, workers):
            number = heapq.heappop(ready)
            heapq.heappush(ends, (now + jobs[number].seconds, number, jobs[number].id))
        now, _, ended = heapq.heappop(ends)
        for number in followers.get(ended, ()):
            waits_for[number].discard(ended)
            if not waits_for[number]:
                heapq.heappush(ready, number)
    return now
