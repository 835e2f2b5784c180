"""What a trial costs beyond its training: studies of trials that train nothing, ours and stock.

    python benchmarks/empty_trials.py [--trials N]

Each contestant runs a small and a large study, in turn and several times, each in a process of its
own on the same two cores; the slope between the sizes is what one further trial costs, so start-up
does not count. Both record the same epochs, metrics, params and tags in MLflow on SQLite, and what
they recorded is counted afterwards. Exits with 1 where ours costs more than the limit.

    ours            `ablate study`, as anybody runs it: Ray, journals, records; listed arms
    ours, searched  the same, every trial asked of Optuna
    stock           Ray Tune's function API with its MLflow callback (`opponents/stock_tune.py`)
    stock, reused   the same, told to reuse its actors
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

LIMIT_S = 0.2
CORES = 2
EPOCHS = 3
LOOK_S = 0.5  # between two looks at what processes work
ARMS = ("a", "b", "c", "d")
HERE = Path(__file__).parent
STUDY = """
from ablate import Arm, Scale, Search, Study, table

study = Study(
    question="What does a trial cost that trains nothing?",
    base={base!r},
    base_arm="a",
    design=table(*(Arm(name, {{"training.window": 20 + i}}) for i, name in enumerate({arms!r}))),
    scales={{"empty": {scale}}},
    runner="stand_in",
)
"""
SPACE = """
paper = "none"
tables = ["Table 1"]

["Learning rate"]
field = "optimizer.learning_rate"
range = [1e-3, 10.0]
scale = "log"

["Window"]
field = "training.window"
choices = [10, 20]
"""
BASE = {
    "corpus.name": "grammar",
    "backbone": "lstm",
    "head": "softmax",
    "embedding.size": 8,
    "backbone.num_layers": 1,
    "backbone.units": 8,
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": EPOCHS,
}


@dataclass(frozen=True)
class Run:
    """One study in a fresh process: its wall-clock and processor seconds."""

    contestant: str
    trials: int
    wall_s: float
    cpu_s: float
    load: float  # of the machine when it began; over 0.5 or so, somebody else was at work


@dataclass(frozen=True)
class Contestant:
    """How to run a study in a folder, and at which sizes."""

    name: str
    sizes: tuple[int, int]
    command: Callable[[Path, int], Sequence[str]]


def main() -> int:
    options = _options()
    each = options.trials // 3
    contestants = [
        Contestant("ours", (each, 3 * each), _ours),
        Contestant("ours, searched", (each, 3 * each), _searched),
        Contestant("stock", (4, 12), _stock),
        Contestant("stock, reused", (12, 60), _stock_reused),
    ]
    chosen = [
        each
        for each in contestants
        if options.only in (None, each.name) and each.name not in options.skip
    ]
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="empty-trials-") as folder:
        data = _encoded_corpus(Path(folder))
        for _ in range(options.rounds):
            for position in range(2):
                for contestant in chosen:
                    path = _fresh(Path(folder), data)
                    run = _measure(contestant, contestant.sizes[position], path)
                    print(f"  {run.contestant}: {run.trials} trials in {run.wall_s:.1f} s", end="")
                    print(f", {run.cpu_s:.1f} s of work (load {run.load:.1f})", flush=True)
                    runs.append(run)
    return _report(runs, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=240, help="of our larger study")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", metavar="CONTESTANT", help="to look into one, without results")
    parser.add_argument("--skip", metavar="CONTESTANT", nargs="+", default=(), help="leave it out")
    parser.add_argument("--results", type=Path, default=HERE / "empty_trials.json")
    options = parser.parse_args()
    if options.trials < 1 or options.trials % (3 * len(ARMS)):
        parser.error(f"--trials must be a multiple of {3 * len(ARMS)}")
    return options


def _ours(folder: Path, trials: int) -> list[str]:
    study = STUDY.format(base=BASE, arms=ARMS, scale=f"Scale(seeds={trials // len(ARMS)})")
    return _study(folder, study)


def _searched(folder: Path, trials: int) -> list[str]:
    """One arm, tuned by all trials but one: Optuna's TPE, on its durable storage."""
    (folder / "space.toml").write_text(SPACE)
    search = f"Search(space={str(folder / 'space.toml')!r}, trials={trials - 1})"
    study = STUDY.format(base=BASE, arms=ARMS[:1], scale=f"Scale(seeds=1, search={search})")
    return _study(folder, study)


def _study(folder: Path, study: str) -> list[str]:
    (folder / "empty.py").write_text(study)
    command = [sys.executable, "-m", "ablate", "study", str(folder / "empty.py")]
    return [*command, "--workers", str(CORES), "--workspace", str(folder)]


def _stock(folder: Path, trials: int) -> list[str]:
    """Records as much as ours for a trial: the resolved config as params, equally many tags."""
    from ablate.config.resolve import resolve
    from ablate.trial.provenance.environment import environment

    result = environment()
    tags = {"study": "empty", "scale": "empty", "corpus": "grammar", "host": result["host"]}
    tags |= {"versions": json.dumps(result["versions"]), "git": json.dumps(result["git"])}
    tags |= {f"fact_{index}": "as many as ours" for index in range(20)}
    job = {"arms": ARMS, "workers": CORES, "params": resolve(BASE).flat, "tags": tags}
    (folder / "asked.json").write_text(json.dumps(job))
    script = HERE / "opponents" / "stock_tune.py"
    return [sys.executable, str(script), str(folder), str(trials)]


def _stock_reused(folder: Path, trials: int) -> list[str]:
    return [*_stock(folder, trials), "--reuse-actors"]


def _encoded_corpus(folder: Path) -> Path:
    """Encode the corpus first: that is not part of the cost of a trial."""
    from ablate.lm.data.corpus import open_corpus
    from ablate.lm.sections import CorpusConfig

    open_corpus(CorpusConfig(), folder / "data")
    return folder / "data"


def _fresh(folder: Path, data: Path) -> Path:
    path = folder / "run"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    (path / "data").symlink_to(data)
    return path


def _measure(contestant: Contestant, trials: int, path: Path) -> Run:
    command = contestant.command(path, trials)
    os.sync()
    load, start = os.getloadavg()[0], time.perf_counter()
    with (path / "said.txt").open("w+") as printed, Work() as work:
        done = subprocess.run(
            command,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            cwd=path,
            check=False,
        )
        wall = time.perf_counter() - start
        printed.seek(0)
        if done.returncode:
            raise SystemExit(f"{contestant.name} failed:\n{printed.read()[-4000:]}")
    _check_records(path / "mlflow.db", trials, contestant.name)
    return Run(contestant.name, trials, wall, work.seconds, load)


class Work:
    """Measure processor seconds of all processes of a command, sampled while it runs.

    Ray's processes leave their parents and are waited for by nobody, so the system does not add
    them up. As the reaper of orphans we keep them among our descendants.
    """

    def __init__(self) -> None:
        self._used: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        set_child_subreaper = 36  # PR_SET_CHILD_SUBREAPER
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(set_child_subreaper, 1)

    def __enter__(self) -> Work:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    @property
    def seconds(self) -> float:
        return sum(self._used.values())

    def _look_on(self) -> None:
        while True:
            last = self._over.wait(LOOK_S)
            self._used |= _descendants(os.getpid())
            if last:
                return


def _descendants(ancestor: int) -> dict[int, float]:
    """Return the processor seconds of a process and its descendants, by process."""
    parents, used = {}, {}
    tick = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid], used[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / tick

    def descends(pid: int) -> bool:
        while pid in parents and pid != ancestor:
            pid = parents[pid]
        return pid == ancestor

    return {pid: spent for pid, spent in used.items() if pid != ancestor and descends(pid)}


def _check_records(database: Path, trials: int, name: str) -> None:
    """Check that MLflow has every epoch of every trial: no side is fast by omitting something."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        counted = db.execute(
            "SELECT count(*) FROM (SELECT run_uuid FROM runs JOIN metrics USING (run_uuid)"
            " WHERE status = 'FINISHED' AND metrics.key = 'valid_nll'"
            " GROUP BY run_uuid HAVING count(*) >= ?)",
            (EPOCHS,),
        ).fetchone()[0]
    if counted != trials:
        raise SystemExit(f"{name} recorded {counted} of {trials} trials")


def _report(runs: list[Run], options: argparse.Namespace) -> int:
    costs = {name: _cost(runs, name) for name in dict.fromkeys(run.contestant for run in runs)}
    for name, cost in costs.items():
        print(f"{name}: {cost['wall_s']:.3f} s a further trial, {cost['cpu_s']:.3f} s of work")
    if options.only is not None:
        return 0
    ours = costs["ours"]["wall_s"]
    ratios = {name: cost["wall_s"] / ours for name, cost in costs.items() if "stock" in name}
    for name, ratio in ratios.items():
        print(f"{name} / ours: {ratio:.1f}")
    result = {
        "machine": _machine(),
        "limit_s": LIMIT_S,
        "cost_of_a_further_trial": costs,
        "ratios_to_ours": ratios,
        "runs": [asdict(run) for run in runs],
    }
    options.results.write_text(json.dumps(result, indent=1) + "\n")
    within = all(cost["wall_s"] <= LIMIT_S for name, cost in costs.items() if "ours" in name)
    print(f"limit {LIMIT_S} s: {'kept' if within else 'MISSED'}")
    return 0 if within else 1


def _cost(runs: list[Run], name: str) -> dict[str, float]:
    """Return the slope between the sizes, each at its fastest: load only slows a run down."""
    mine = [run for run in runs if run.contestant == name]
    small, large = sorted({run.trials for run in mine})

    def slope(attribute: str) -> float:
        least = {
            size: min(getattr(run, attribute) for run in mine if run.trials == size)
            for size in (small, large)
        }
        return (least[large] - least[small]) / (large - small)

    return {"wall_s": slope("wall_s"), "cpu_s": slope("cpu_s")}


def _machine() -> dict[str, object]:
    from ablate.trial.provenance.environment import hardware

    packages = ("ray", "optuna", "mlflow", "torch", "pyarrow", "sqlalchemy")
    return {
        "processor": hardware(),
        "cores_used": CORES,
        "cores": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "synced_write_ms": round(1000 * _synced_write(), 2),
    }


def _synced_write(times: int = 20) -> float:
    """Measure the seconds of a durable write of a small file on this disk."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        for number in range(times):
            with open(Path(folder) / str(number), "wb") as file:
                file.write(b"x" * 4096)
                file.flush()
                os.fsync(file.fileno())
        return (time.perf_counter() - start) / times


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    sys.exit(main())
