"""A search for each of two arms that keeps all workers busy, and its winners confirmed.

`exact`: its random sampler depends on nothing but the number of the suggestion, so that any order
of events must give the same table, bit for bit. `pruned`: what is suggested and stopped depends on
timing, so that only each trial by itself can be compared.
"""

from __future__ import annotations

import stormy_runner

from ablate import Arm, Scale, Search, Study, table

BASE = {
    "corpus.name": "grammar",
    "embedding.size": 4,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 4,
    "head": "softmax",
    "optimizer": "sgd",
    "training.epochs": 8,
}


def searched(**words) -> Scale:
    return Scale(seeds=2, search=Search(space="rates.toml", trials=8, **words))


study = Study(
    question="Which rate?",
    base=BASE,
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"training.clip": 1.0})),
    scales={
        "exact": searched(sampler="random"),
        "pruned": searched(early_stopping="asha"),
    },
    runner="sloping",
    techniques=(
        stormy_runner.__file__,
        "saves.py",
    ),
)
