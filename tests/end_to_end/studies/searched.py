"""A search for each of two arms, one that repeats exactly and one that keeps all workers busy."""

import runners

from ablate import Arm, Scale, Search, Study, table

BASE = {
    "corpus.name": "grammar",
    "embedding.size": 4,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 4,
    "head": "softmax",
    "optimizer": "sgd",
    "training.epochs": 2,
}


def searched(**words) -> Scale:
    return Scale(seeds=2, search=Search(space="rates.toml", trials=14, **words))


study = Study(
    question="Which rate?",
    base=BASE,
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"training.clip": 1.0})),
    scales={
        "synchronous": searched(synchronous=True, batch=3),
        "asynchronous": searched(early_stopping="asha"),
    },
    runner="sloping",
    techniques=(
        runners.__file__,
        "deadly.py",
    ),
)
