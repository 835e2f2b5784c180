"""A study whose first trials all fail for one reason starts no more; any other goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ablate.config.identity import Trial
from ablate.store import journal as journals
from ablate.store.epoch import Epoch
from ablate.store.outcome import Status
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.support import small_studies
from tests.support.small_studies import RATE_AND_WINDOW

BROKEN = "own.py:3: the command ended with status 1: no module"


def scheduled(workspace, num_arms: int = 3, **scale) -> Schedule:
    others = [Arm(f"arm{num}", {"training.window": 10 + num}) for num in range(1, num_arms)]
    study = Study(
        question="Does it run?",
        base=small_studies.BASE,
        base_arm="base",
        design=table(Arm("base"), *others),
        scales={"s": Scale(seeds=4, **scale)},
        runner="stand_in",
        name="q",
    )
    plan = make_plan(study, "s", data=workspace.data)
    return Schedule(plan, workspace.store, open_search(workspace.searches))


def ended(schedule: Schedule, reason: Callable[[Trial], str | None]) -> Mapping[str, int]:
    """End trials until none starts, with a reason or as completed; the number of each status."""
    while (trial := schedule.next()) is not None:
        why = reason(trial)
        status = Status.FAILED if why else Status.COMPLETED
        journals.close(schedule.store, trial, status, why)
        schedule.finished(trial.id)
    known = [*schedule.status.values()]
    return {status: known.count(status) for status in known}


@pytest.mark.parametrize(("num_arms", "num_trials"), [(1, 3), (2, 3), (3, 3), (4, 4), (9, 5)])
def test_the_first_trials_fail_for_one_reason(workspace, num_arms, num_trials):
    schedule = scheduled(workspace, num_arms)
    found = ended(schedule, lambda trial: f"{BROKEN} {trial.seed}.5%\n$ train --seed {trial.seed}")
    assert found == {Status.FAILED: num_trials}
    assert schedule.exhausted and not schedule.complete
    num = {1: "1 arm,", 9: "5 arms,"}.get(num_arms, f"{num_arms} arms,")
    assert f"the first {num_trials} that ended, of {num}" in schedule.failure


def test_the_next_run_tries_them_again(workspace):
    ended(scheduled(workspace), lambda trial: BROKEN)
    assert ended(scheduled(workspace), lambda trial: None) == {Status.COMPLETED: 12}


@pytest.mark.parametrize(
    "reason",
    [
        lambda trial: BROKEN if trial.arm != "arm2" else None,
        lambda trial: BROKEN if trial.arm != "base" else None,
        lambda trial: BROKEN if trial.seed > 1 else None,
        lambda trial: f"{BROKEN} {trial.arm}",
        lambda trial: f"{BROKEN} {trial.seed}" if trial.arm == "arm1" else BROKEN,
    ],
    ids=["arm2 completes", "base completes", "seed 1 completes", "by arm", "by seed of arm1"],
)
def test_a_study_goes_on_if_some_may_succeed(workspace, reason):
    schedule = scheduled(workspace)
    assert sum(ended(schedule, reason).values()) == 12
    assert schedule.failure is None and schedule.complete


def test_what_an_earlier_run_completed_may_succeed(workspace):
    ended(scheduled(workspace), lambda trial: BROKEN if trial.seed > 1 else None)
    schedule = scheduled(workspace)
    assert ended(schedule, lambda trial: BROKEN) == {Status.COMPLETED: 3, Status.FAILED: 9}


def test_a_trial_that_trains_meanwhile_may_succeed(workspace):
    schedule = scheduled(workspace, num_arms=9)
    trains = schedule.next()
    schedule.progress(trains.id, Epoch(1, {"valid_nll": 1.0}))
    assert ended(schedule, lambda trial: BROKEN)[Status.FAILED] == 35


def test_a_search_needs_more_trials(workspace):
    space = workspace.folder / "space.toml"
    space.write_text(RATE_AND_WINDOW)
    search = Search(space=str(space), trials=9, repeats=1)
    schedule = scheduled(workspace, num_arms=2, search=search)
    assert ended(schedule, lambda trial: BROKEN) == {Status.FAILED: 10}
