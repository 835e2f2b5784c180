"""Measure how this machine trains fastest: threads per trial against trials at a time.

    ablate doctor probe studies/doc_layer_mix.py

trains the study's largest arm for a few seconds with each split of the cores: one trial per core
with one thread each, then half as many trials with two threads each, and so on.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from queue import Empty
from typing import Any

from ablate.commands import _options
from ablate.compare.formats import table_of, text
from ablate.config.identity import Trial
from ablate.engine.cores import usable_cores
from ablate.errors import TrialError
from ablate.store.store import Store
from ablate.study.file import load
from ablate.study.plan import largest_trial, make_plan
from ablate.study.planned import Plan

EXAMPLE = "ablate doctor probe studies/x.py"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate doctor probe`."""
    parser.add_argument("file", help="the study file, or a shipped study's name")
    parser.add_argument("--scale", help="one of the study's scales (default: the first)")
    _options.add_locations(parser, "workspace")


def run(options: argparse.Namespace) -> str:
    """Measure trials with more threads or more workers; return the table."""
    opened = _options.workspace(options)
    data, stores = opened.data, [opened.store]
    plan = make_plan(load(options.file), options.scale, data=data, stores=stores)
    return show_probe(plan, data)


SECONDS = 4.0
ALIKE = 0.95  # fraction of the best rate: other load on the machine causes such differences
PATIENCE = 300.0  # seconds that workers may take to start


@dataclass(frozen=True)
class Way:
    """One way to use the cores, and the updates per second of all its trials together."""

    threads: int
    workers: int
    rate: float


def ways(cores: int) -> list[tuple[int, int]]:
    """Return (threads per trial, trials at a time): 1 x 8, 2 x 4, 4 x 2, 8 x 1."""
    threads = [2**power for power in range(cores.bit_length()) if 2**power <= cores]
    return [(num, cores // num) for num in threads]


def measure(trial: Trial, data: str, cores: int, seconds: float = SECONDS) -> list[Way]:
    """Measure every way to use the cores, and return the fastest first."""
    measured = [
        Way(threads, workers, _rate(replace(trial, threads=threads), workers, data, seconds))
        for threads, workers in ways(cores)
    ]
    return sorted(measured, key=lambda way: -way.rate)


def show_probe(plan: Plan, data: str, cores: int | None = None) -> str:
    """Return the table of `ablate doctor probe`, and its advice."""
    cores = cores or int(usable_cores()) or 1  # a container may have less than one
    trial = largest_trial(plan)
    measured = measure(trial, data, cores)
    best = measured[0]
    rows = [
        [str(w.threads), str(w.workers), f"{w.rate:.2f}", f"{w.rate / best.rate:.2f}"]
        for w in measured
    ]
    header = ["threads", "trials", "updates/s", "of the best"]
    advice = f"threads={best.threads} in scale '{plan.scale_name}' is the fastest here"
    fast = [way.threads for way in measured if way.rate >= ALIKE * best.rate]
    if best.threads == plan.scale.threads:
        advice += ", and is what the scale sets."
    elif plan.scale.threads in fast:
        advice += f", but {plan.scale.threads}, which the scale sets, is about as fast."
    else:
        advice += (
            f"; the scale sets {plan.scale.threads}. Change it before the study starts: trials "
            "with another number of threads are other trials, as they sum in another order."
        )
    title = f"{trial.arm}, {cores} cores, {SECONDS:g} s each"
    return "\n".join([title, "", *text.lines(table_of(header, rows)), "", advice])


def _rate(trial: Trial, workers: int, data: str, seconds: float) -> float:
    """Measure the updates per second of several processes that train at once."""
    context = mp.get_context("spawn")  # a fork would not copy the threads that torch has started
    together, results = context.Barrier(workers), context.Queue()
    order = {"trial": trial.to_plain(), "data": data}
    processes = [
        context.Process(target=_train, args=(order, seconds, together, results), daemon=True)
        for _ in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        rates = [results.get(timeout=PATIENCE + seconds) for _ in processes]
    except Empty:
        raise TrialError(
            "the benchmark processes did not start in time; is memory short?"
        ) from None
    finally:
        for process in processes:
            process.kill()
    failed = [rate for rate in rates if isinstance(rate, str)]
    if failed:
        raise TrialError(f"measuring failed: {failed[0]}")
    return sum(rates)


def _train(order: Mapping[str, Any], seconds: float, together: Any, results: Any) -> None:
    from ablate.lm.training.training import Training
    from ablate.trial.provenance import trust
    from ablate.trial.run import load_modules
    from ablate.trial.task import Place

    try:
        trial = Trial.from_plain(order["trial"])
        trust.accept(trial.modules)  # the order is our parent's
        load_modules(trial.modules)
        task = Training(trial, Place(Store(os.devnull), order["data"]))  # stores nothing
        task.advance(0)  # not timed: what the first update builds is used again
        together.wait(PATIENCE)
        first, start = task.update, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            task.advance(0)
        results.put((task.update - first) / spent)
    except Exception as error:
        together.abort()  # else the others would wait for this one
        results.put(f"{type(error).__name__}: {error}")
