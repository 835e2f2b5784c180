"""Run a study without Ray: one worker in this process, which a debugger can step through."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ablate.config.identity import Trial
from ablate.tune.orders import Ordered, Orders
from ablate.tune.schedule import Schedule
from ablate.tune.worker import Worker

ELSEWHERE_SECONDS = 1.0  # between looks whether another study's driver has ended a trial


def run(schedule: Schedule, order: Ordered) -> None:
    """Run trials one after another until none is left or the schedule is stopping."""
    orders = Orders(schedule)
    while not schedule.exhausted:
        if trials := orders.next():
            _run_trials(Worker(order(trials)), orders, trials)
        elif schedule.elsewhere:
            time.sleep(ELSEWHERE_SECONDS)
        else:
            return  # nothing is running, so there is nothing to wait for


def _run_trials(worker: Worker, orders: Orders, trials: Sequence[Trial]) -> None:
    left = {trial.id: trial for trial in trials}
    while left:
        for slice_ in worker.advance():
            if not orders.take_in(left[slice_["trial"]], slice_):
                worker.drop(slice_["trial"])
                del left[slice_["trial"]]
        if left and orders.schedule.stopping:
            worker.save()
            return
