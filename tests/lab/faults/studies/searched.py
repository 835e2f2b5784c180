"""A search for each of two arms, which stops trials early."""

import os

import hostly  # noqa: F401  (it adds a runner)

from ablate import Arm, Scale, Search, Study, table

BASE = {
    "corpus.name": "grammar",
    "embedding.size": 4,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 4,
    "head": "softmax",
    "optimizer": "sgd",
    "training.epochs": 3,
    "training.clip": 1.0 + int(os.environ.get("FAULTS_NUMBER", "0")) / 100,
}

study = Study(
    question="Which rate?",
    base=BASE,
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"training.clip": 9.0})),
    scales={
        "s": Scale(seeds=2, search=Search(space="rates.toml", trials=14, early_stopping="asha"))
    },
    runner="sloping",
    techniques=("words.py",),
)
