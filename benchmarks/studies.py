"""Whole studies: doc_layer_mix at laptop scale on PTB, and studies of trials that train nothing.

Ours is `ablate study`, as anybody runs it, with its records and its table; theirs are a plain
torch + Optuna script, and Ray Tune with OptunaSearch and MLflow's callback. All train the same
arms and seeds, on two cores with one thread each. First the sides are shown to be one training
(`same_training.py`); under masks of their own they then agree as far as short runs can.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.empty_trials import Work
from benchmarks.measure import Figure
from benchmarks.same_training import train_alike, values_of
from benchmarks.text import corpus_name

HERE = Path(__file__).parent
WORKERS = 2
ARMS = ("4,0,0,0", "3,1,0,0", "3,0,1,0", "2,1,1,0")  # doc_layer_mix's, J divided by 5
ERRORS = 3.0  # standard errors that the sides' mean losses may differ by
SETTING: dict[str, Any] = {
    "size": 28,
    "units": [48, 48, 8],
    "embedding_range": 0.6,
    "lstm_range": 0.3,
    "learning_rate": 0.012,
    "clip": 1.0,
    "batch_size": 12,
    "window": 25,
    "eval_tokens": 2_000,
    "rates": {
        "words": 0.0125,
        "input": 0.05,
        "hidden": 0.028125,
        "output": 0.05,
        "latent": 0.075,
        "weights": 0.0625,
        "ar": 0.25,
        "tar": 0.125,
    },
}
STUDY = """
from ablate import Arm, Scale, Study, table

study = Study(
    question="From which layers should the mixture's distributions come?",
    base={base!r},
    base_arm={arms[0]!r},
    design=table(*(
        Arm(name, {{"head.experts": tuple(map(int, name.split(",")))}}) for name in {arms!r}
    )),
    scales={{"laptop": Scale(corpus={corpus!r}, seeds={seeds})}},
)
"""


@dataclass(frozen=True)
class Run:
    """A study from the command to its end."""

    wall_s: float
    cpu_s: float
    load: float
    valid_nll: float  # the mean over the trials
    spread: float  # their standard deviation
    trials: int


def whole_study(full: bool) -> list[Figure]:
    """Quick: eight trials of one epoch. Full: twelve of two, over more text."""
    seeds = [1, 2, 3] if full else [1, 2]
    setting = {**SETTING, "epochs": 2 if full else 1, "train_tokens": 60_000 if full else 24_000}
    runs = {}
    with tempfile.TemporaryDirectory(prefix="bench-study-") as folder:
        alike = Path(folder) / "alike"
        corpus = corpus_name(alike)
        train_alike({**setting, "paths": text_files(alike, corpus)}, ARMS, corpus, alike)
        for side in (_ours, _plain, _tune):
            path = Path(folder) / side.__name__
            path.mkdir()
            corpus = corpus_name(path)
            options = {**setting, "paths": text_files(path, corpus)}
            runs[side.__name__] = side(path, corpus, options, seeds)
    expected = len(ARMS) * len(seeds)
    for name, run in runs.items():
        if run.trials != expected or not means_agree(run, runs["_ours"]):
            raise SystemExit(
                f"{name}: {run}; ours: {runs['_ours']}. Allowed: {expected} trials, and mean "
                f"losses at most {ERRORS:g} standard errors apart."
            )
    return [
        *_against("plain torch + Optuna", runs["_ours"], runs["_plain"], 6.0),
        *_against("Ray Tune + OptunaSearch + MLflow", runs["_ours"], runs["_tune"], 8.0),
    ]


def means_agree(one: Run, other: Run) -> bool:
    """Return whether the spread of the trials explains the difference of the mean losses.

    These trainings are short and their rate is high. Two sides that are one training draw other
    starts and other masks, and on the made-up text one trial in eight ends 3 to 11% above the rest:
    a limit of 2% of the mean was exceeded by chance in 7% of comparisons.
    """
    error = math.hypot(one.spread / one.trials**0.5, other.spread / other.trials**0.5)
    return abs(one.valid_nll - other.valid_nll) <= ERRORS * error


def _against(name: str, ours: Run, theirs: Run, limit: float) -> list[Figure]:
    """Time the whole study by wall clock, and by processor time, which load disturbs less."""
    note = f"load {ours.load:.1f} and {theirs.load:.1f}"
    details = {"ours": asdict(ours), "theirs": asdict(theirs)}
    return [
        Figure(
            what=f"whole study, against {name}", ours=ours.wall_s, theirs=theirs.wall_s, unit="s",
            sense="faster", limit=limit, ratio=theirs.wall_s / ours.wall_s, note=note,
            details=details,
        ),
        Figure(
            what=f"whole study, against {name}: processor", ours=ours.cpu_s, theirs=theirs.cpu_s,
            unit="s", sense="faster", limit=None, ratio=theirs.cpu_s / ours.cpu_s,
        ),
    ]  # fmt: skip


def _ours(folder: Path, corpus: str, setting: dict[str, Any], seeds: list[int]) -> Run:
    base = values_of(setting)
    study = STUDY.format(base=base, arms=ARMS, corpus=corpus, seeds=len(seeds))
    (folder / "doc_layer_mix.py").write_text(study)
    command = [sys.executable, "-m", "ablate", "study", str(folder / "doc_layer_mix.py")]
    run = _run([*command, "--workers", str(WORKERS), "--workspace", str(folder)], folder)
    with closing(sqlite3.connect(folder / "mlflow.db")) as db:
        result = db.execute(
            "SELECT metrics.value FROM latest_metrics metrics JOIN tags USING (run_uuid)"
            " WHERE metrics.key = 'final_valid_nll' AND tags.key = 'ablate.kind'"
            " AND tags.value = 'trial'"
        ).fetchall()
    return _timed(run, [value for (value,) in result])


def _plain(folder: Path, corpus: str, setting: dict[str, Any], seeds: list[int]) -> Run:
    job = {"storage": f"sqlite:///{folder / 'optuna.db'}"}
    return _opponent("plain_optuna", job, folder, corpus, setting, seeds)


def _tune(folder: Path, corpus: str, setting: dict[str, Any], seeds: list[int]) -> Run:
    job = {"folder": str(folder / "tune"), "mlflow": f"sqlite:///{folder / 'mlflow.db'}"}
    return _opponent("tune_optuna", job, folder, corpus, setting, seeds)


def _opponent(
    name: str,
    job: dict[str, Any],
    folder: Path,
    corpus: str,
    setting: dict[str, Any],
    seeds: list[int],
) -> Run:
    job = {**job, "setting": setting}
    job |= {"arms": ARMS, "seeds": seeds, "workers": WORKERS}
    (folder / "asked.json").write_text(json.dumps(job))
    module = f"benchmarks.opponents.{name}"
    run = _run([sys.executable, "-m", module, str(folder / "asked.json")], folder)
    result = json.loads((folder / "said.txt").read_text().splitlines()[-1])
    return _timed(run, [trial["final_valid_nll"] for trial in result])


def text_files(folder: Path, corpus: str) -> list[str]:
    """Write the files of the text, for implementations that read them."""
    path = folder / "data" / "ptb" if corpus == "ptb" else Path(corpus)
    prefix = "ptb." if corpus == "ptb" else ""
    return [str(path / f"{prefix}{split}.txt") for split in ("train", "valid", "test")]


def _run(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Return wall-clock and processor seconds, and the load at the start."""
    os.sync()
    load, start = os.getloadavg()[0], time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)}
    with (
        (folder / "said.txt").open("w") as printed,
        (folder / "complained.txt").open("w") as wrong,
        Work() as work,
    ):
        done = subprocess.run(
            command, stdout=printed, stderr=wrong, env=environment, cwd=folder, check=False
        )
        wall = time.perf_counter() - start
    if done.returncode:
        texts = [(folder / name).read_text()[-2000:] for name in ("said.txt", "complained.txt")]
        raise SystemExit(f"{' '.join(command)} failed:\n" + "\n".join(texts))
    return wall, work.seconds, load


def _timed(run: tuple[float, float, float], result: list[float]) -> Run:
    wall, cpu, load = run
    mean = statistics.mean(result) if result else math.nan
    spread = statistics.stdev(result) if len(result) > 1 else math.nan
    return Run(round(wall, 2), round(cpu, 2), load, mean, spread, len(result))


def empty_trial(full: bool) -> list[Figure]:
    """Measure the cost of one more trial that trains nothing; see `empty_trials.py`."""
    with tempfile.TemporaryDirectory(prefix="bench-empty-") as folder:
        results = Path(folder) / "results.json"
        command = [sys.executable, str(HERE / "empty_trials.py"), "--results", str(results)]
        quick = ["--trials", "120", "--rounds", "1", "--skip", "ours, searched", "stock, reused"]
        done = subprocess.run(
            [*command, *([] if full else quick)], capture_output=True, text=True, check=False
        )
        if not results.exists():
            raise SystemExit(f"empty_trials.py failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        costs = json.loads(results.read_text())["cost_of_a_further_trial"]
    ours = costs["ours"]
    ours_s = max(ours["wall_s"], ours["cpu_s"])  # starts that differ can make the slope too flat
    return [
        Figure(
            what=f"a further trial that trains nothing, against {name}",
            ours=ours_s, theirs=cost["wall_s"], unit="s",
            sense="faster", limit=10.0, ratio=cost["wall_s"] / ours_s,
            note=f"processor: {ours['cpu_s']:.2f} and {cost['cpu_s']:.2f} s", details=cost,
        )
        for name, cost in costs.items() if name.startswith("stock")
    ]  # fmt: skip
