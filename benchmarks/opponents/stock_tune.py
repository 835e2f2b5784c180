"""Stock Ray Tune, as a competent user would write it: a function, a grid, MLflow's callback.

    python benchmarks/opponents/stock_tune.py FOLDER NUM_TRIALS [--reuse-actors]

The same trials as `benchmarks/empty_trials.py` gives to ablate: three epochs, the same metrics,
the same params and tags, two workers, MLflow on a SQLite file with each trial's files as artifacts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import secrets
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else it writes one to the home

import ray
from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback

EPOCHS = 3


def train(config: dict[str, Any]) -> None:
    """Train nothing, and say so every epoch."""
    for epoch in range(1, EPOCHS + 1):
        nll = 5 - 0.1 * epoch + random.Random(f"{config['seed']} {epoch}").gauss(0, 0.01)
        metrics = {"train_nll": nll, "valid_nll": nll, "valid_ppl": math.exp(nll)}
        metrics |= {"epoch": epoch, "tokens": 0, "seconds": 0.0}
        if epoch == EPOCHS:
            metrics |= {"final_valid_nll": nll, "final_test_nll": nll, "num_parameters": 0}
        tune.report(metrics)


def main(folder: Path, num_trials: int, reuse_actors: bool) -> None:
    job = json.loads((folder / "asked.json").read_text())
    arms, num_cpus = job["arms"], job["workers"]
    space = {
        **job["params"],
        "arm": tune.grid_search(arms),
        "seed": tune.grid_search(list(range(1, num_trials // len(arms) + 1))),
    }
    ray.init("local", num_cpus=num_cpus, include_dashboard=False, log_to_driver=False)
    recorded = MLflowLoggerCallback(
        tracking_uri=f"sqlite:///{folder / 'mlflow.db'}",
        experiment_name="empty_trials",
        tags=job["tags"],
        save_artifact=True,
    )
    tune.Tuner(
        tune.with_resources(train, {"cpu": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="valid_nll", mode="min", num_samples=1, reuse_actors=reuse_actors
        ),
        run_config=tune.RunConfig(
            name="empty_trials", storage_path=str(folder / "tune"), callbacks=[recorded], verbose=0
        ),
    ).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("num_trials", type=int)
    parser.add_argument("--reuse-actors", action="store_true")
    options = parser.parse_args()
    main(options.folder.absolute(), options.num_trials, options.reuse_actors)
