"""The cursor that a clock cannot fool: a list of ours made equal to a server's."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from ablate.record import server_source
from ablate.record.server_source import Entry, Listing


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
        self.shown = 0

    def show(self, offset: int, limit: int) -> list[Any]:
        page = self.runs[offset : offset + limit]
        self.shown += len(page)
        return [Run(Info(run_id, start)) for start, run_id in page]


def some_runs(draws: random.Random, num: int, low: int, high: int) -> set[tuple[int, str]]:
    return {(draws.randint(low, high), f"{draws.getrandbits(64):016x}") for _ in range(num)}


def reconciled(server: Server, known: set[tuple[int, str]]) -> tuple[set[str], list[str]]:
    entries = sorted((Entry(s, i) for s, i in known), key=lambda entry: entry.place)
    listing = Listing(server.show, entries, {})
    gone = listing.reconcile()
    assert [entry.run_id for entry in listing.entries] == [run_id for _, run_id in server.runs]
    return set(listing.found), gone


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("num_new, num_gone", [(0, 0), (1, 0), (30, 0), (0, 1), (7, 5), (400, 60)])
def test_new_runs_are_found_whenever_they_say_they_began(seed, num_new, num_gone):
    draws = random.Random(seed)
    known = some_runs(draws, 1000, 1000, 9000)
    purged = set(draws.sample(sorted(known), num_gone))
    low, high = draws.choice([(0, 10), (9001, 9999), (1000, 9000), (4000, 4010), (5000, 5000)])
    new = some_runs(draws, num_new, low, high)
    found, gone = reconciled(Server((known - purged) | new), known)
    assert {run_id for _, run_id in new} <= found
    assert gone == sorted(run_id for _, run_id in purged)


def test_what_a_late_delivery_costs_is_a_page_and_a_few_questions():
    draws = random.Random(0)
    known = some_runs(draws, 20_000, 1000, 10**9)
    server = Server(known | some_runs(draws, 100, 0, 10))
    reconciled(server, known)
    assert server.shown < 600


def test_the_first_time_everything_is_new():
    draws = random.Random(0)
    runs = some_runs(draws, 1000, 0, 99)
    found, gone = reconciled(Server(runs), set())
    assert len(found) == 1000 and gone == []


def test_an_empty_server_has_lost_all():
    known = some_runs(random.Random(0), 30, 0, 99)
    assert len(reconciled(Server(set()), known)[1]) == 30


def test_many_strays_are_found_by_reading_every_page(monkeypatch):
    monkeypatch.setattr(server_source, "ROUNDS", 2)
    draws = random.Random(1)
    known = some_runs(draws, 1000, 1000, 9000)
    new = some_runs(draws, 50, 1000, 9000)
    found, _ = reconciled(Server(known | new), known)
    assert {run_id for _, run_id in new} <= found
