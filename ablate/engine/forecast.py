"""How long the remaining jobs take, for workers that take the jobs in turn."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.store.study_record import SearchRecord


@dataclass(frozen=True)
class Job:
    """Something to be done, for example a trial, that starts when those in `after` have ended."""

    id: Hashable
    seconds: float  # NaN if unknown
    after: Collection[Hashable] = ()


def search_jobs(
    search: SearchRecord, num_requests: int, seconds: float, after: Iterable[Hashable] = ()
) -> list[Job]:
    """Return what a search may still request; the last of these jobs is the end of the search.

    `seconds`: of each request; `after`: what the search waits for, such as the model whose
    evaluation it searches. It waits for the search from which it inherits, too.
    """
    before = [*after]
    if search.inherits is not None:
        before.append(_end(search.inherits, search.repeat, None))
    end = _end(search.arm, search.repeat, search.seed_index)
    requests = [Job((end, number), seconds, before) for number in range(num_requests)]
    waits_for = [*before, *search.trials, *(job.id for job in requests)]
    return [*requests, Job(end, 0.0, waits_for)]


def _end(arm: str, repeat: int, seed_index: int | None) -> Hashable:
    return "the end of a search", arm, repeat, seed_index


def starting_after(jobs: Iterable[Job], search: Sequence[Job]) -> list[Job]:
    """Return the jobs that confirm a search's winner, which wait for the search's end, too."""
    return [replace(job, after=[*job.after, search[-1].id]) for job in jobs]


def seconds_until_done(
    jobs: Sequence[Job], workers: int, running: Mapping[Hashable, float] | None = None
) -> float:
    """Return the seconds until the last job ends, if a free worker takes the first that may start.

    `running`: jobs under way, and the seconds left of each. An id in `after` that is in neither
    `running` nor `jobs` counts as ended. The result is NaN if the seconds of any job are.
    """
    running = running or {}
    if any(map(math.isnan, (*running.values(), *(job.seconds for job in jobs)))):
        return math.nan
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
        for number in followers.pop(ended, ()):
            waits_for[number].discard(ended)
            if not waits_for[number]:
                heapq.heappush(ready, number)
    return now
