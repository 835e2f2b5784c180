"""How this machine trains fastest: few threads a trial and many trials at a time, or many and few.

    ablate probe studies/doc_layer_mix.py

trains the study's largest arm for some seconds in each way to use the cores: as many trials at a
time as there are cores, of one thread each, then half as many of two, and so on.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from queue import Empty
from typing import Any

from ablate.errors import StudyError, TrialError
from ablate.identity import Trial
from ablate.layout import Grid
from ablate.plan import Plan
from ablate.store import Store

SECONDS = 4.0
ALIKE = 0.95  # of the best rate: other work on the machine makes such differences
PATIENCE = 300.0  # seconds that workers may take to begin


@dataclass(frozen=True)
class Way:
    """One way to use the cores, and the updates a second of all its trials together."""

    threads: int
    workers: int
    rate: float


def ways(cores: int) -> list[tuple[int, int]]:
    """(threads of a trial, trials at a time): 1 x 8, 2 x 4, 4 x 2, 8 x 1."""
    threads = [2**power for power in range(cores.bit_length()) if 2**power <= cores]
    return [(each, cores // each) for each in threads]


def largest_trial(plan: Plan) -> Trial:
    """A trial of the arm with the most parameters that needs no other trial; of an arm that is
    searched, with the values that its search departs from."""
    sizes = {arm.name: arm.num_parameters or 0 for arm in plan.record.arms}
    searched = [plan.search_trial(each, {}, 0) for each in plan.searches if not each.parents]
    trained = [t for t in (*plan.trials, *searched) if not t.parents and sizes.get(t.arm)]
    if not trained:
        raise StudyError(f"{plan.record.key} trains nothing that could be measured.")
    return max(trained, key=lambda trial: sizes[trial.arm])


def measure(trial: Trial, data: str, cores: int, seconds: float = SECONDS) -> list[Way]:
    """Every way to use the cores, the fastest first."""
    found = [
        Way(threads, workers, _rate(replace(trial, threads=threads), workers, data, seconds))
        for threads, workers in ways(cores)
    ]
    return sorted(found, key=lambda way: -way.rate)


def show_probe(plan: Plan, data: str, cores: int | None = None) -> str:
    """The table of `ablate probe`, and what it says."""
    cores = cores or os.cpu_count() or 1
    trial = largest_trial(plan)
    found = measure(trial, data, cores)
    best = found[0]
    rows = [
        [str(w.threads), str(w.workers), f"{w.rate:.2f}", f"{w.rate / best.rate:.2f}"]
        for w in found
    ]
    header = ["threads", "at once", "updates/s", "of the best"]
    advice = f"threads={best.threads} in scale '{plan.scale_name}' is the fastest here"
    fast = [way.threads for way in found if way.rate >= ALIKE * best.rate]
    if best.threads == plan.scale.threads:
        advice += ", and is what it has."
    elif plan.scale.threads in fast:
        advice += f", by too little to tell: {plan.scale.threads}, which it has, is as good."
    else:
        advice += (
            f"; it has {plan.scale.threads}. Other threads make other trials, since they sum in "
            "another order: change it before the study begins."
        )
    title = f"{trial.arm}, {cores} cores, {SECONDS:g} s each"
    return "\n".join([title, "", *Grid(header, rows).lines(80, "-"), "", advice])


def _rate(trial: Trial, workers: int, data: str, seconds: float) -> float:
    """Updates a second of so many processes that train at once."""
    context = mp.get_context("spawn")
    together, told = context.Barrier(workers), context.Queue()
    order = {"trial": trial.to_plain(), "data": data}
    processes = [
        context.Process(target=_train, args=(order, seconds, together, told), daemon=True)
        for _ in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        rates = [told.get(timeout=PATIENCE + seconds) for _ in processes]
    except Empty:
        raise TrialError("the processes that measure did not begin; is memory short?") from None
    finally:
        for process in processes:
            process.kill()
    failed = [rate for rate in rates if isinstance(rate, str)]
    if failed:
        raise TrialError(f"measuring failed: {failed[0]}")
    return sum(rates)


def _train(order: Mapping[str, Any], seconds: float, together: Any, told: Any) -> None:
    from ablate.train.loop import Training
    from ablate.train.task import Place
    from ablate.trial import load_modules

    try:
        trial = Trial.from_plain(order["trial"])
        load_modules(trial.modules)
        task = Training(trial, Place(Store(os.devnull), order["data"]))
        task.advance(0)
        together.wait(PATIENCE)
        first, begun = task.update, time.perf_counter()
        while (spent := time.perf_counter() - begun) < seconds:
            task.advance(0)
        told.put((task.update - first) / spent)
    except Exception as error:
        together.abort()
        told.put(f"{type(error).__name__}: {error}")
