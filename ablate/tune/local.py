"""Run a study without Ray: one worker in this process, which a debugger can step through."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ablate.config.identity import Trial
from ablate.tune.schedule import Schedule, take_in
from ablate.tune.worker import Worker

Order = Callable[[Trial], Mapping[str, Any]]
ELSEWHERE_SECONDS = 1.0  # between looks whether another study's driver has ended a trial


def run(schedule: Schedule, order: Order) -> None:
    """Run trials one after another until none is left or the schedule is stopping."""
    while not schedule.exhausted:
        trial = schedule.next()
        if trial is not None:
            _run_trial(Worker(order(trial)), schedule, trial)
        elif schedule.elsewhere:
            time.sleep(ELSEWHERE_SECONDS)
        else:
            return  # nothing is running, so there is nothing to wait for


def _run_trial(worker: Worker, schedule: Schedule, trial: Trial) -> None:
    while take_in(schedule, trial.id, worker.advance()):
        if schedule.stopping:
            worker.save()
            return
