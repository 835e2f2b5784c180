"""Trials that train nothing and last a moment: what `benchmarks/cluster.py` runs on a cluster."""

import os

import sleeper

from ablate import Arm, Scale, Study, table

NUM_ARMS = 4

study = Study(
    question="Does the driver keep its workers busy?",
    base={
        "corpus.name": "grammar",
        "backbone": "lstm",
        "head": "softmax",
        "embedding.size": 8,
        "backbone.num_layers": 1,
        "backbone.units": 8,
        "optimizer": "sgd",
        "training.epochs": 3,
    },
    base_arm="arm 0",
    design=table(*(Arm(f"arm {i}", {"training.window": 20 + i}) for i in range(NUM_ARMS))),
    # A GPU each: Ray hands them out as it would real ones, and nothing here looks for them.
    scales={"s": Scale(seeds=int(os.environ.get("SLEEPERS_SEEDS", "4")), gpus=1)},
    runner="sleeper",
    techniques=(sleeper.__file__,),
)
