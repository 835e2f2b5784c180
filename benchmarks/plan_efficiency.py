"""How fast whole training steps are, relative to a matrix product: what `ablate plan` assumes.

    python -m benchmarks.plan_efficiency [--workspace DIR] STUDY@SCALE ...

For the largest arm of each scale: its operations per training token, the tokens of an update, and
the efficiency, measured in this process's own time on one core. `ablate.study.cost` has a curve
through such points. A scale on Penn Treebank wants a workspace that has it (`ablate data get ptb`).
"""

from __future__ import annotations

import argparse
import tempfile
import time

import torch

from ablate.config.data_source import source_of
from ablate.lm.training.training import Training
from ablate.store.store import Store
from ablate.store.workspace import open_workspace
from ablate.study import cost
from ablate.study.file import load
from ablate.study.plan import largest_trial, make_plan
from ablate.trial.task import Place

SECONDS = 4.0  # of updates
MOST_UPDATES = 40


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plan_efficiency")
    parser.add_argument("scales", nargs="+", metavar="STUDY@SCALE")
    parser.add_argument("--workspace")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for key in options.scales:
        study, _, scale = key.partition("@")
        print(measured(study, scale or None, open_workspace(options.workspace).data), flush=True)


def measured(study: str, scale: str | None, data: str) -> str:
    plan = make_plan(load(study), scale, data=data)
    trial = largest_trial(plan)
    flops = cost.flops_per_token(trial.config, source_of(trial.config.corpus, data).vocabulary()[0])
    with tempfile.TemporaryDirectory() as folder:
        task = Training(trial, Place(Store(folder), data))
        task.advance(0)
        start, tokens, updates = time.process_time(), task.num_tokens, 0
        while (took := time.process_time() - start) < SECONDS and updates < MOST_UPDATES:
            task.advance(0)
            updates += 1
        tokens = task.num_tokens - tokens
    rate, machine = flops * tokens / took, cost.matrix_rate(1, trial.precision)
    return (
        f"{plan.record.key}, {trial.arm}: {flops / 1e6:.2f} MFLOP a token, "
        f"{tokens // updates} tokens an update, efficiency {rate / machine:.2f} "
        f"(assumed: {cost.efficiency(flops, trial.precision):.2f})"
    )


if __name__ == "__main__":
    main()
