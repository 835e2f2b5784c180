"""The replay of searches on recorded curves (benchmarks/search*.py), on curves that are made up."""

from __future__ import annotations

import itertools
import math

import pytest

from ablate.store.outcome import Status
from benchmarks import search
from benchmarks.search_curves import EPOCHS, LEVELS, Curve, Table
from benchmarks.search_replay import Ours, Replay, replay

RATE = "optimizer.learning_rate"
REST = {field: levels[0] for field, levels in LEVELS.items() if field != RATE}
RATES = LEVELS[RATE]


def falling(end: float, updates: int, epochs: int = EPOCHS) -> Curve:
    """A loss that falls by 0.1 an epoch, and is lowest at the end."""
    return Curve(updates, tuple(end + 0.1 * (EPOCHS - epoch) for epoch in range(1, epochs + 1)))


def table_of(*curves: Curve) -> Table:
    """One curve per rate, whatever the other values."""
    rest = list(itertools.product(*(LEVELS[field] for field in REST)))
    of_rate = zip(RATES, curves, strict=False)
    return Table({(rate, *more): curve for rate, curve in of_rate for more in rest})


class Scripted:
    """Suggests a list of rates, and stops trials at given epochs."""

    def __init__(self, rates, stops=None):
        self.rates, self.stops, self.results = list(rates), stops or {}, []

    def ask(self):
        index = len(self.rates)
        return str(index), {**REST, RATE: self.rates.pop(0)}

    def report(self, name, epoch, loss):
        return self.stops.get(name) != epoch

    def tell(self, name, losses, status):
        self.results.append((name, len(losses), status))


class Spied:
    """A strategy, and the losses that it received."""

    def __init__(self, strategy):
        self.strategy, self.shown, self.results = strategy, {}, {}

    def ask(self):
        return self.strategy.ask()

    def report(self, name, epoch, loss):
        goes_on = self.strategy.report(name, epoch, loss)
        self.shown.setdefault(name, []).append((epoch, loss, goes_on))
        return goes_on

    def tell(self, name, losses, status):
        self.results[name] = (list(losses), status)
        self.strategy.tell(name, losses, status)


def test_updates_are_counted_by_the_epoch_and_the_best_counts_when_it_ends():
    table = table_of(falling(5.0, 10), falling(4.0, 20), falling(4.5, 30))
    strategy = Scripted(RATES[:3], stops={"1": 2})
    done = replay(strategy, table, trials=3)
    assert done.found == [(90, 5.0), (90 + 180, 4.0)]
    assert (done.updates, done.asked) == (90 + 180 + 2 * 30, 3)
    assert strategy.results == [
        ("3", 9, Status.COMPLETED),
        ("2", 9, Status.COMPLETED),
        ("1", 2, Status.PRUNED),
    ]
    assert done.reached(4.5) == 270
    assert done.best_at(269) == 5.0
    assert math.isinf(done.reached(3.9))
    assert math.isinf(done.best_at(89))


def test_a_search_ends_when_its_updates_are_spent():
    table = table_of(falling(5.0, 10))
    done = replay(Scripted([RATES[0]] * 9), table, updates=185)
    assert done.updates == 190
    assert done.asked == 3


def test_workers_take_turns_by_their_updates():
    """Epochs of 10 and of 25 updates: by 90 the first has ended, and the second has had three."""
    table = table_of(falling(5.0, 10), falling(4.0, 25))
    strategy = Scripted([RATES[0], RATES[1]])
    done = replay(strategy, table, trials=2, workers=2)
    assert done.found == [(90 + 75, 5.0), (90 + 225, 4.0)]


def test_one_that_diverges_costs_its_last_epoch_and_never_counts():
    table = table_of(falling(1.0, 10, epochs=4), falling(4.0, 10))
    strategy = Scripted(RATES[:2])
    done = replay(strategy, table, trials=2)
    assert strategy.results == [("2", 4, Status.DIVERGED), ("1", 9, Status.COMPLETED)]
    assert done.found == [(50 + 90, 4.0)]


def every_rate() -> Table:
    return table_of(*(falling(4 + abs(math.log2(rate) - 2), 10) for rate in RATES))


def test_ours_stops_what_is_not_in_the_best_third_of_its_rung():
    spied = Spied(Ours(1))
    replay(spied, every_rate(), trials=40)
    rungs = {1: [], 3: []}
    for shown in spied.shown.values():
        for epoch, loss, goes_on in shown:
            if epoch not in rungs:
                assert goes_on
                continue
            rungs[epoch].append(loss)
            promoted = sorted(rungs[epoch])[: max(1, len(rungs[epoch]) // 3)]
            assert goes_on == (loss <= promoted[-1])
    ends = [len(losses) for losses, _ in spied.results.values()]
    assert set(ends) == {1, 3, EPOCHS}


def test_shares_are_of_random_search_with_the_same_seed():
    bars = [Replay([(100, 5.0), (500, 4.0)], 1000, 10), Replay([(200, 3.0)], 1000, 10)]
    ours = [Replay([(50, 4.5), (100, 3.9)], 1000, 40), Replay([(120, 2.0)], 1000, 40)]
    theirs = [Replay([(300, 4.0)], 1000, 40), Replay([(500, 3.0)], 1000, 40)]
    summary = search.summary({search.RANDOM: bars, search.OURS: ours, "OptunaSearch": theirs})
    assert summary[search.RANDOM]["share"] == pytest.approx((0.5 + 0.2) / 2)
    assert summary[search.OURS]["share"] == pytest.approx((0.1 + 0.12) / 2)
    assert summary[search.OURS]["share_of_own"] == pytest.approx((100 / 500 + 120 / 200) / 2)
    assert search.verdict(summary) == {"a third": True, "beats stock": True}


def test_a_search_that_never_gets_there_counts_as_endless():
    bars = [Replay([(100, 4.0)], 1000, 10)] * 2
    ours = [Replay([(100, 3.9)], 1000, 40), Replay([(900, 4.5)], 1000, 40)]
    summary = search.summary({search.RANDOM: bars, search.OURS: ours, "OptunaSearch": bars})
    assert summary[search.OURS]["share"] is None
    assert summary[search.OURS]["reached"] == 0.5
    assert search.verdict(summary) == {"a third": False, "beats stock": False}
