"""Ray Tune's function API up to a model's first update, with two workers.

python -m benchmarks.opponents.first_update FOLDER, which gets a file `updated` at that moment
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else it writes one to the home

import ray
from ray import tune


def train(config: dict[str, Any]) -> None:
    import torch

    model = torch.nn.LSTM(28, 48)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(25, 12, 28))[0].sum().backward()
    optimizer.step()
    Path(config["folder"], "updated").touch()
    tune.report({"seed": config["seed"]})


def main(folder: str) -> None:
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    tune.Tuner(
        tune.with_resources(train, {"cpu": 1}),
        param_space={"folder": folder, "seed": tune.grid_search([1, 2])},
        run_config=tune.RunConfig(name="first", storage_path=f"{folder}/tune", verbose=0),
    ).fit()


if __name__ == "__main__":
    main(sys.argv[1])
