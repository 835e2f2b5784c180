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


def work(asked: dict[str, Any], num_trials: int) -> None:
    torch.set_num_threads(1)
    study = optuna.load_study(study_name="doc_layer_mix", storage=asked["storage"])

    def objective(trial: optuna.Trial) -> float:
        experts = tuple(map(int, trial.suggest_categorical("experts", asked["arms"]).split(",")))
        seed = trial.suggest_categorical("seed", asked["seeds"])

        def report(epoch: int, train_nll: float, valid_nll: float) -> None:
            trial.report(valid_nll, epoch)

        result = train(asked["setting"], experts, seed, report)
        for name, value in result.items():
            trial.set_user_attr(name, value)
        return result["best_valid_nll"]

    study.optimize(objective, n_trials=num_trials)


def main(asked: dict[str, Any]) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(study_name="doc_layer_mix", storage=asked["storage"])
    for seed in asked["seeds"]:
        for experts in asked["arms"]:
            study.enqueue_trial({"experts": experts, "seed": seed})
    num_trials = len(asked["arms"]) * len(asked["seeds"])
    workers = asked["workers"]
    context = get_context("spawn")
    shares = [num_trials // workers + (w < num_trials % workers) for w in range(workers)]
    processes = [context.Process(target=work, args=(asked, share)) for share in shares]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    result = [trial.user_attrs for trial in study.trials]
    print(json.dumps(result))


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        main(json.load(file))
