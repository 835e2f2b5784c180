"""Whole studies: doc_layer_mix at laptop scale on PTB, and studies of trials that train nothing.

Ours is `ablate study`, as anybody runs it, with its records and its table; theirs are a plain
torch + Optuna script, and Ray Tune with OptunaSearch and MLflow's callback. All train the same
arms and seeds, on two cores with one thread each; what they found on average must agree.
"""

from __future__ import annotations

import json
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
from benchmarks.text import corpus_name

HERE = Path(__file__).parent
WORKERS = 2
ARMS = ("4,0,0,0", "3,1,0,0", "3,0,1,0", "2,1,1,0")  # doc_layer_mix's, J divided by 5
AGREE = 0.02  # of the mean losses: initial draws and masks are not the same
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
    valid_nll: float
    trials: int


def whole_study(full: bool) -> list[Figure]:
    """Quick: eight trials of one epoch. Full: twelve of two, over more text."""
    seeds = [1, 2, 3] if full else [1, 2]
    setting = {**SETTING, "epochs": 2 if full else 1, "train_tokens": 60_000 if full else 24_000}
    runs = {}
    with tempfile.TemporaryDirectory(prefix="bench-study-") as folder:
        for side in (_ours, _plain, _tune):
            place = Path(folder) / side.__name__
            place.mkdir()
            corpus = corpus_name(place)
            runs[side.__name__] = side(place, corpus, setting, seeds)
    expected = len(ARMS) * len(seeds)
    for name, run in runs.items():
        apart = abs(run.valid_nll / runs["_ours"].valid_nll - 1)
        if run.trials != expected or apart > AGREE:
            raise SystemExit(f"{name}: {run}; ours: {runs['_ours']}")
    return [
        *_against("plain torch + Optuna", runs["_ours"], runs["_plain"], 6.0),
        *_against("Ray Tune + OptunaSearch + MLflow", runs["_ours"], runs["_tune"], 8.0),
    ]


def _against(name: str, ours: Run, theirs: Run, limit: float) -> list[Figure]:
    """The whole study by the clock; and by the processors, which a busy machine disturbs less."""
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
    base = _values(setting)
    study = STUDY.format(base=base, arms=ARMS, corpus=corpus, seeds=len(seeds))
    (folder / "doc_layer_mix.py").write_text(study)
    command = [sys.executable, "-m", "ablate", "study", str(folder / "doc_layer_mix.py")]
    run = _run([*command, "--workers", str(WORKERS), "--workspace", str(folder)], folder)
    with closing(sqlite3.connect(folder / "mlflow.db")) as db:
        found = db.execute(
            "SELECT metrics.value FROM latest_metrics metrics JOIN tags USING (run_uuid)"
            " WHERE metrics.key = 'final_valid_nll' AND tags.key = 'ablate.kind'"
            " AND tags.value = 'trial'"
        ).fetchall()
    return _timed(run, [value for (value,) in found])


def _plain(folder: Path, corpus: str, setting: dict[str, Any], seeds: list[int]) -> Run:
    asked = {"storage": f"sqlite:///{folder / 'optuna.db'}"}
    return _opponent("plain_optuna", asked, folder, corpus, setting, seeds)


def _tune(folder: Path, corpus: str, setting: dict[str, Any], seeds: list[int]) -> Run:
    asked = {"folder": str(folder / "tune"), "mlflow": f"sqlite:///{folder / 'mlflow.db'}"}
    return _opponent("tune_optuna", asked, folder, corpus, setting, seeds)


def _opponent(
    name: str,
    asked: dict[str, Any],
    folder: Path,
    corpus: str,
    setting: dict[str, Any],
    seeds: list[int],
) -> Run:
    place = folder / "data" / "ptb" if corpus == "ptb" else Path(corpus)
    prefix = "ptb." if corpus == "ptb" else ""
    paths = [str(place / f"{prefix}{split}.txt") for split in ("train", "valid", "test")]
    asked = {**asked, "setting": {**setting, "paths": paths}}
    asked |= {"arms": ARMS, "seeds": seeds, "workers": WORKERS}
    (folder / "asked.json").write_text(json.dumps(asked))
    module = f"benchmarks.opponents.{name}"
    run = _run([sys.executable, "-m", module, str(folder / "asked.json")], folder)
    found = json.loads((folder / "said.txt").read_text().splitlines()[-1])
    return _timed(run, [trial["final_valid_nll"] for trial in found])


def _run(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Seconds by the clock and by the processors, and the load at the start."""
    os.sync()
    load, begun = os.getloadavg()[0], time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)}
    with (
        (folder / "said.txt").open("w") as said,
        (folder / "complained.txt").open("w") as wrong,
        Work() as work,
    ):
        done = subprocess.run(
            command, stdout=said, stderr=wrong, env=environment, cwd=folder, check=False
        )
        wall = time.perf_counter() - begun
    if done.returncode:
        texts = [(folder / name).read_text()[-2000:] for name in ("said.txt", "complained.txt")]
        raise SystemExit(f"{' '.join(command)} failed:\n" + "\n".join(texts))
    return wall, work.seconds, load


def _timed(run: tuple[float, float, float], found: list[float]) -> Run:
    wall, cpu, load = run
    mean = statistics.mean(found) if found else float("nan")
    return Run(round(wall, 2), round(cpu, 2), load, mean, len(found))


def _values(setting: dict[str, Any]) -> dict[str, Any]:
    """The setting in ablate's words."""
    rates = setting["rates"]
    dropout = "regularizer.variational_dropout"
    return {
        "corpus.train_tokens": setting["train_tokens"],
        "corpus.eval_tokens": setting["eval_tokens"],
        "embedding.size": setting["size"],
        "embedding.initial_range": setting["embedding_range"],
        "backbone": "lstm",
        "backbone.num_layers": len(setting["units"]),
        "backbone.units": tuple(setting["units"]),
        "backbone.initial_range": setting["lstm_range"],
        "head": "doc",
        "head.tied": True,
        "optimizer": "adam",
        "optimizer.learning_rate": setting["learning_rate"],
        "training.epochs": setting["epochs"],
        "training.batch_size": setting["batch_size"],
        "training.window": setting["window"],
        "training.clip": setting["clip"],
        "regularizer.embedding_dropout.rate": rates["words"],
        f"{dropout}.input": rates["input"],
        f"{dropout}.hidden": rates["hidden"],
        f"{dropout}.output": rates["output"],
        f"{dropout}.latent": rates["latent"],
        "regularizer.weight_drop.rate": rates["weights"],
        "regularizer.activation_regularization.alpha": rates["ar"],
        "regularizer.temporal_activation_regularization.beta": rates["tar"],
    }


def empty_trial(full: bool) -> list[Figure]:
    """What a further trial costs that trains nothing; see `empty_trials.py`."""
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
