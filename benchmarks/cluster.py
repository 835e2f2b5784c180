"""Does one driver keep a cluster's workers busy? `make bench-cluster`

A head and two hosts of Ray on this machine (`ray.cluster_utils`), each with half of the workers;
every trial gets a GPU that is only a number to Ray. Trials train nothing: they sleep, so that 64
workers fit on two cores. Everything else is as ever: the study travels as a parcel, each trial is
journalled in a store that all hosts see, the records go to MLflow on SQLite.

A trial that lasts no time shows the most trials a second that the driver hands out. For trials that
last a moment, workers note when each call begins and ends: a worker waits from the end of one call
to the beginning of the next. Counted is from when all workers have started to when the last trial
is handed out; start-up and the end, when nothing is left to do, are not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STUDY = HERE / "sleepers" / "study.py"
NOTING = "sleeper:RecordingMasks"  # of the folder of the study
SIZES = (1, 4, 16, 64)
MB_A_WORKER = 260
ENOUGH_PER_WORKER = 8  # trials
HEAD = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 80 * 2**20}


@dataclass(frozen=True)
class Found:
    """The results of one run."""

    workers: int
    seconds_a_trial: float
    trials: int  # handed out while it was counted
    window_s: float
    trials_a_second: float
    waiting: float  # share of the workers' time
    wait_ms: float  # from the end of a trial to the beginning of the worker's next, in the median
    driver_ms: float  # of the driver's processor time, a trial
    driver_busy: float  # share of a core
    load: float  # of the machine when it began


def main() -> int:
    options = _options()
    if options.one is not None:
        print(json.dumps(asdict(_measure(options.one, options.seconds))))
        return 0
    result = [_apart(16, 0.0)] if 16 in options.sizes else []
    result += [_apart(size, options.seconds) for size in options.sizes]
    options.results.write_text(json.dumps([asdict(each) for each in result], indent=1) + "\n")
    print(_table(result))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), metavar="WORKERS")
    parser.add_argument("--seconds", type=float, default=8.0, help="that a trial lasts, about")
    parser.add_argument("--one", type=int, metavar="WORKERS", help="measure one size, in here")
    parser.add_argument("--results", type=Path, default=HERE / "cluster.json")
    return parser.parse_args()


def _apart(workers: int, seconds: float) -> Found:
    """Run one size in a separate process."""
    needed, free = workers * MB_A_WORKER, _free_mb()
    if needed > free:
        raise SystemExit(f"{workers} workers need about {needed} MB, and {free} are free")
    words = [sys.executable, "-m", "benchmarks.cluster", f"--one={workers}", f"--seconds={seconds}"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
    if done.returncode:
        raise SystemExit(f"{workers} workers: exit status {done.returncode}")
    result = Found(**json.loads(done.stdout.strip().splitlines()[-1]))
    print(_row(result), file=sys.stderr, flush=True)
    return result


def _free_mb() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) // 1024
    return sys.maxsize


def _measure(workers: int, seconds: float) -> Found:
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="sleepers-") as folder:
        notes = Path(folder) / "notes"
        notes.mkdir()
        os.environ.update(_environment(workers, seconds, notes))
        from ray.cluster_utils import Cluster  # which looks at once whether there is a token

        cluster = Cluster(initialize_head=True, head_node_args=HEAD)
        try:
            for host in range(2):
                part = workers // 2 + (host < workers % 2)
                if part:
                    cluster.add_node(num_cpus=part, num_gpus=part, object_store_memory=80 * 2**20)
            work = _driven(str(cluster.address), workers, Path(folder))
        finally:
            cluster.shutdown()
        return _counted(workers, seconds, _read(notes), work, load)


def _environment(workers: int, seconds: float, notes: Path) -> dict[str, str]:
    """Return the environment of the hosts, and so of all workers."""
    per_worker = ENOUGH_PER_WORKER if seconds else 40
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "RAY_worker_niceness": "0",  # or a machine that others use would starve them
        "SLEEPERS_SECONDS": str(seconds),
        "SLEEPERS_WORKERS": str(workers),
        "SLEEPERS_NOTES": str(notes),
        "SLEEPERS_SEEDS": str(max(4, math.ceil(workers * per_worker / 4))),  # four arms
    }


def _driven(address: str, workers: int, folder: Path) -> list[tuple[float, float]]:
    """Run the study; return the driver's processor time over the run."""
    from ablate.engine import run as engine
    from ablate.store.workspace import open_workspace

    sys.path.insert(0, str(STUDY.parent))
    order_workers_that_note()
    workspace = open_workspace(str(folder / "workspace"), store=str(folder / "store"))
    options = engine.RunOptions(address=address, workers=workers, quiet=True)
    work: list[tuple[float, float]] = []
    over = threading.Event()
    threading.Thread(target=_look, args=(work, over), daemon=True).start()
    ended = engine.run_study(str(STUDY), "s", workspace, options)
    over.set()
    statuses = {journal.status for journal in ended.summary.journals.values()}
    if statuses != {"completed"}:
        raise SystemExit(f"trials ended as {statuses}")
    return work


def order_workers_that_note() -> None:
    """From now on, every order is for a worker that writes down when it is called."""
    from ablate.engine import drive

    ordinary = drive._order

    def order(*given: Any) -> dict[str, Any]:
        return {**ordinary(*given), "worker": NOTING}

    drive._order = order


def _look(work: list[tuple[float, float]], over: threading.Event) -> None:
    while not over.wait(0.2):
        work.append((time.monotonic(), time.process_time()))


Call = tuple[str, float, float]


def _read(notes: Path) -> list[list[Call]]:
    """Read the calls of each worker."""
    result = []
    for file in notes.iterdir():
        lines = [line.split() for line in file.read_text().splitlines()]
        result.append([(what, float(start), float(ended)) for what, start, ended in lines])
    return result


def _counted(
    workers: int,
    seconds: float,
    calls: list[list[Call]],
    work: list[tuple[float, float]],
    load: float,
) -> Found:
    begins = sorted(start for each in calls for what, start, _ in each if what == "begin")
    first = max(each[0][1] for each in calls)
    last = begins[-1]
    busy = sum(max(0.0, min(last, e) - max(first, b)) for each in calls for _, b, e in each)
    waits = sorted(
        after[1] - before[2]
        for each in calls
        for before, after in itertools.pairwise(each)
        if after[0] == "begin" and first <= before[2] <= last
    )
    number = sum(first < start <= last for start in begins)
    worked = _at(work, last) - _at(work, first)
    return Found(
        workers=workers,
        seconds_a_trial=seconds,
        trials=number,
        window_s=round(last - first, 1),
        trials_a_second=round(number / (last - first), 2),
        waiting=round(1 - busy / (workers * (last - first)), 4),
        wait_ms=round(1000 * waits[len(waits) // 2], 1),
        driver_ms=round(1000 * worked / number, 1),
        driver_busy=round(worked / (last - first), 3),
        load=round(load, 1),
    )


def _at(work: list[tuple[float, float]], moment: float) -> float:
    """Return the driver's processor time at a moment."""
    return min(work, key=lambda point: abs(point[0] - moment))[1]


def _table(result: list[Found]) -> str:
    heads = ("workers", "a trial lasts", "trials", "trials/s", "workers wait", "median wait")
    head = f"| {' | '.join(heads)} | driver's work |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *map(_row, result)])


def _row(result: Found) -> str:
    return (
        f"| {result.workers} | {result.seconds_a_trial:g} s | {result.trials} | "
        f"{result.trials_a_second:.2f} | {100 * result.waiting:.1f}% | {result.wait_ms:.0f} ms | "
        f"{result.driver_ms:.0f} ms a trial, {100 * result.driver_busy:.0f}% of a core |"
    )


if __name__ == "__main__":
    sys.exit(main())
