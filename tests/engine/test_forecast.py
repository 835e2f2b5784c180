"""How long what is left takes: against schedules written by hand, and bounds of any schedule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.engine.forecast import Forecast, Job, seconds_until_done
from tests.engine.test_screen import ended, epoch, record_of


@pytest.mark.parametrize(
    ("workers", "seconds"),
    [(1, 15.0), (2, 9.0), (3, 6.0), (5, 3.0), (100, 3.0)],
)
def test_five_equal_jobs_take_as_many_rounds_as_workers_need(workers, seconds):
    jobs = [Job(number, 3.0) for number in range(5)]
    assert seconds_until_done(jobs, workers) == pytest.approx(seconds)


def test_the_last_seed_of_a_chain_has_one_worker_busy():
    """Three LSTMs of 100, and a gate of 40 over each. On two workers the first two LSTMs end at
    100, their gates at 140; then the third LSTM runs alone until 240, and its gate until 280."""
    in_chains = [
        job
        for seed in range(3)
        for job in (Job(f"lstm {seed}", 100.0), Job(f"gate {seed}", 40.0, [f"lstm {seed}"]))
    ]
    assert seconds_until_done(in_chains, 2) == pytest.approx(280.0)
    assert seconds_until_done(in_chains, 1) == pytest.approx(420.0)
    assert seconds_until_done(in_chains, 3) == pytest.approx(140.0)


def test_what_runs_holds_its_worker_and_is_waited_for():
    jobs = [Job("after a", 5.0, ["a"]), Job("free", 7.0), Job("after what has ended", 1.0, ["z"])]
    assert seconds_until_done(jobs, 2, {"a": 10.0, "b": 2.0}) == pytest.approx(15.0)
    # `free` from 2 to 9, the third until 10, `after a` until 15
    assert seconds_until_done([], 2, {"a": 10.0, "b": 2.0}) == 10.0
    assert seconds_until_done([], 2) == 0.0


@st.composite
def work(draw):
    """Jobs that wait for some of those before them."""
    seconds = draw(st.lists(st.floats(0.0, 100.0), max_size=12))
    return [
        Job(number, took, draw(st.sets(st.integers(0, number - 1))) if number else ())
        for number, took in enumerate(seconds)
    ]


@given(work(), st.integers(1, 4))
def test_it_lies_between_what_no_schedule_can_beat_and_what_every_one_can(jobs, workers):
    """Graham's bound: at most the share of each worker and the longest chain together."""
    ends: dict[int, float] = {}
    for job in jobs:
        ends[job.id] = job.seconds + max((ends[one] for one in job.after), default=0.0)
    chain, share = max(ends.values(), default=0.0), sum(job.seconds for job in jobs) / workers
    seconds = seconds_until_done(jobs, workers)
    assert max(chain, share) <= seconds + 1e-9
    assert seconds <= share + chain * (1 - 1 / workers) + 1e-9


EPOCHS = {"base": 4, "doc": 2, "judged": 0, "followed": 0}


def learned(forecast: Forecast, arm: str, seconds: float, here: bool) -> None:
    """Learn that a trial of the arm took these seconds."""
    trial = replace(ended(f"{arm}-0").trial, values={"training.epochs": EPOCHS[arm]})
    number = EPOCHS[arm]
    epochs = [*map(epoch, range(1, number)), replace(epoch(number), seconds=seconds)]
    journal = replace(ended(f"{arm}-0"), trial=trial, epochs=epochs if number else [])
    if not number and journal.outcome:
        journal = replace(journal, outcome=replace(journal.outcome, seconds=seconds))
    if here:
        forecast.started(trial, 0.0)
    forecast.ended(journal, seconds)


def planned(arms=tuple(EPOCHS), **words) -> Forecast:
    record, forecast = record_of(num_seeds=2, arms=arms), Forecast(**words)
    trials = tuple(replace(trial, epochs=EPOCHS[trial.arm]) for trial in record.trials)
    forecast.take_record(replace(record, trials=trials))
    return forecast


def test_what_evaluates_follows_evaluations_and_what_trains_follows_trainings():
    """Here training takes three times as long as there, and evaluation half as long."""
    forecast = planned()
    for arm, seconds in {"base": 100, "doc": 50, "judged": 40, "followed": 60}.items():
        learned(forecast, arm, seconds, here=False)
    assert forecast.seconds_left({}, ["followed-1"], 1) == 60
    learned(forecast, "base", 300, here=True)
    assert forecast.seconds_left({}, ["followed-1"], 1) == pytest.approx(3 * 60)  # by training
    learned(forecast, "judged", 20, here=True)
    assert forecast.seconds_left({}, ["followed-1"], 1) == pytest.approx(60 / 2)
    assert forecast.seconds_left({}, ["doc-1"], 1) == pytest.approx(3 * 50)
    running = replace(ended("base-1").trial, values={"training.epochs": 4})
    forecast.started(running, 0.0)  # one that runs counts less than one that has ended here
    forecast.running["base-1"].update(replace(epoch(1), seconds=600.0), record_of().metric, 600.0)
    assert forecast.seconds_left({}, ["doc-1"], 1) == pytest.approx(3 * 50)
    assert forecast.seconds_left({}, ["judged-1"], 1) == 20


def test_operations_say_it_alone_until_a_trial_has_ended_and_then_in_proportion():
    """An epoch of `doc` counts three times as much as one of `base`, and takes as many seconds."""
    forecast = planned(("base", "doc"), epoch_seconds={"base": 10.0, "doc": 30.0})
    assert forecast.seconds_left({}, ["base-0", "doc-0"], 1) == pytest.approx(4 * 10 + 2 * 30)
    learned(forecast, "base", 80, here=False)
    assert forecast.seconds_left({}, ["base-1"], 1) == pytest.approx(80)
    assert forecast.seconds_left({}, ["doc-0"], 1) == pytest.approx(2 * 2 * 30)


def test_without_operations_nothing_is_known_until_a_trial_has_ended():
    assert planned().seconds_left({}, ["base-0"], 1) is None
