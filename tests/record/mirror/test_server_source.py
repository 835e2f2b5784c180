"""A list of runs is made equal to a server's, whatever its clock says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ablate.record import listing
from ablate.record.listing import PAGE, Entry, Listing, Span


@dataclass(frozen=True)
class Info:
    run_id: str
    start_time: int


@dataclass(frozen=True)
class Run:
    info: Info


class Server:
    """Runs in MLflow's order: newest start first, then by id."""

    def __init__(self, runs: set[tuple[int, str]]) -> None:
        self.runs = sorted(runs, key=lambda run: (-run[0], run[1]))
        self.shown = self.num_pages = 0

    def show(self, span: Span, offset: int, limit: int) -> tuple[list[Any], bool]:
        low = span.oldest if span.oldest is not None else min((s for s, _ in self.runs), default=0)
        there = [run for run in self.runs if low <= run[0]]
        there = [run for run in there if span.newest is None or run[0] < span.newest]
        page = there[offset : offset + limit]
        self.shown, self.num_pages = self.shown + len(page), self.num_pages + 1
        more = len(there) > offset + limit
        return [Run(Info(run_id, start)) for start, run_id in page], more


def some_runs(draws: random.Random, num: int, low: int, high: int) -> set[tuple[int, str]]:
    return {(draws.randint(low, high), f"{draws.getrandbits(64):016x}") for _ in range(num)}


def reconciled(
    server: Server, known: set[tuple[int, str]], deleted: Sequence[set[str]] = ()
) -> tuple[set[str], list[str]]:
    entries = sorted((Entry(s, i) for s, i in known), key=lambda entry: entry.sort_key)
    ours = Listing(server.show, entries, {}, iter(deleted))
    gone = ours.reconcile()
    assert [entry.run_id for entry in ours.entries] == [run_id for _, run_id in server.runs]
    return set(ours.runs), gone


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("num_new, num_gone", [(0, 0), (1, 0), (30, 0), (0, 1), (7, 5), (400, 60)])
def test_new_runs_are_found_whenever_they_say_they_began(seed, num_new, num_gone):
    draws = random.Random(seed)
    known = some_runs(draws, 1000, 1000, 9000)
    purged = set(draws.sample(sorted(known), num_gone))
    low, high = draws.choice([(0, 10), (9001, 9999), (1000, 9000), (4000, 4010), (5000, 5000)])
    new = some_runs(draws, num_new, low, high)
    read, gone = reconciled(Server((known - purged) | new), known)
    assert {run_id for _, run_id in new} <= read
    assert gone == sorted(run_id for _, run_id in purged)


@pytest.mark.parametrize(
    "low, high", [(0, 10), (10**9, 10**9 + 9), (10**8, 10**8 + 10**6), (5 * 10**8, 5 * 10**8)]
)
def test_what_a_delivery_costs_is_its_page_and_a_few_questions(low, high):
    draws = random.Random(0)
    known = some_runs(draws, 20_000, 1000, 10**9)
    server = Server(known | some_runs(draws, 100, low, high))
    reconciled(server, known)
    assert server.shown < 300 and server.num_pages < 60


def test_with_nothing_new_it_costs_a_page_and_a_question_for_each_part():
    known = some_runs(random.Random(0), 20_000, 1000, 10**9)
    server = Server(known)
    reconciled(server, known)
    assert server.num_pages == 1 + 2**listing.UNASKED


@pytest.mark.parametrize("num", [1, 50, 3 * PAGE])
def test_a_deleted_run_cannot_hide_behind_a_new_one(num):
    """Equally many runs are deleted and added next to each other: counts do not differ."""
    draws = random.Random(3)
    known = some_runs(draws, 5000, 0, 10**6)
    gone = set(draws.sample(sorted(known), num))
    new = {(start + 1, f"{draws.getrandbits(64):016x}") for start, _ in gone}
    server = Server((known - gone) | new)
    ids = sorted(run_id for _, run_id in gone)
    pages = [set(ids[first : first + PAGE]) for first in range(0, num, PAGE)]
    assert reconciled(server, known, pages)[1] == ids
    assert num > 1 or server.shown < 100


@pytest.mark.parametrize("num", [1, 40, PAGE, 3 * PAGE])
def test_runs_that_began_in_one_moment(num):
    draws = random.Random(2)
    known = some_runs(draws, num, 7, 7) | some_runs(draws, 50, 0, 20)
    reconciled(Server(known | some_runs(draws, num, 7, 7)), known)
    reconciled(Server(some_runs(draws, num, 7, 7)), known)


def test_the_first_time_everything_is_new():
    draws = random.Random(0)
    runs = some_runs(draws, 1000, 0, 99)
    read, gone = reconciled(Server(runs), set())
    assert len(read) == 1000 and gone == []


def test_an_empty_server_has_lost_all():
    known = some_runs(random.Random(0), 30, 0, 99)
    assert len(reconciled(Server(set()), known)[1]) == 30


def test_many_strays_are_found_by_reading_every_page(monkeypatch):
    monkeypatch.setattr(listing, "MAX_QUERIES", 20)
    draws = random.Random(1)
    known = some_runs(draws, 1000, 1000, 9000)
    new = some_runs(draws, 50, 1000, 9000)
    read, _ = reconciled(Server(known | new), known)
    assert {run_id for _, run_id in new} <= read
