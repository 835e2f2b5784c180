"""Ray Tune's function API, OptunaSearch and the MLflow callback, doing the same trials.

python -m benchmarks.opponents.tune_optuna ASKED.json
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from typing import Any

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else it writes one to the home

import ray
from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback
from ray.tune.search.optuna import OptunaSearch


def trial(config: dict[str, Any], setting: dict[str, Any]) -> None:
    import torch

    from benchmarks.opponents.language_model import train

    torch.set_num_threads(1)

    def report(epoch: int, train_nll: float, valid_nll: float) -> None:
        tune.report({"epoch": epoch, "train_nll": train_nll, "valid_nll": valid_nll})

    experts = tuple(map(int, config["experts"].split(",")))
    result = train(setting, experts, config["seed"], report)
    tune.report({**result, "valid_nll": result["best_valid_nll"]})


def main(job: dict[str, Any]) -> None:
    space = {
        "experts": tune.choice(job["arms"]),
        "seed": tune.choice(job["seeds"]),
    }
    points = [{"experts": e, "seed": s} for s in job["seeds"] for e in job["arms"]]
    ray.init("local", num_cpus=job["workers"], include_dashboard=False, log_to_driver=False)
    recorded = MLflowLoggerCallback(
        tracking_uri=job["mlflow"], experiment_name="doc_layer_mix", save_artifact=True
    )
    search = OptunaSearch(metric="valid_nll", mode="min", points_to_evaluate=points)
    results = tune.Tuner(
        tune.with_resources(tune.with_parameters(trial, setting=job["setting"]), {"cpu": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="valid_nll",
            mode="min",
            search_alg=search,
            num_samples=len(points),
            max_concurrent_trials=job["workers"],
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            name="doc_layer_mix", storage_path=job["folder"], callbacks=[recorded], verbose=0
        ),
    ).fit()
    names = ("final_valid_nll", "final_test_nll", "best_valid_nll", "updates")
    print(json.dumps([{name: result.metrics[name] for name in names} for result in results]))


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        main(json.load(file))
