"""How long what is left takes: against schedules written by hand, and bounds of any schedule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.engine.forecast import Job, seconds_until_done


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
