"""Plain torch and Optuna: the trials are enqueued, and two processes of one thread work them off.

python -m benchmarks.opponents.plain_optuna ASKED.json
"""

from __future__ import annotations

import json
import sys
from multiprocessing import get_context
from typing import Any

import optuna
import torch

from benchmarks.opponents.language_model import train


def work(job: dict[str, Any], num_trials: int) -> None:
    torch.set_num_threads(1)
    study = optuna.load_study(study_name="doc_layer_mix", storage=job["storage"])

    def objective(trial: optuna.Trial) -> float:
        experts = tuple(map(int, trial.suggest_categorical("experts", job["arms"]).split(",")))
        seed = trial.suggest_categorical("seed", job["seeds"])

        def report(epoch: int, train_nll: float, valid_nll: float) -> None:
            trial.report(valid_nll, epoch)

        result = train(job["setting"], experts, seed, report)
        for name, value in result.items():
            trial.set_user_attr(name, value)
        return result["best_valid_nll"]

    study.optimize(objective, n_trials=num_trials)


def main(job: dict[str, Any]) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(study_name="doc_layer_mix", storage=job["storage"])
    for seed in job["seeds"]:
        for experts in job["arms"]:
            study.enqueue_trial({"experts": experts, "seed": seed})
    num_trials = len(job["arms"]) * len(job["seeds"])
    workers = job["workers"]
    context = get_context("spawn")
    shares = [num_trials // workers + (w < num_trials % workers) for w in range(workers)]
    processes = [context.Process(target=work, args=(job, share)) for share in shares]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    result = [trial.user_attrs for trial in study.trials]
    print(json.dumps(result))


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        main(json.load(file))
