"""Three arms with a stage after them; `middle` for faults that take minutes."""

import os

import hostly  # noqa: F401  (it adds a runner)

from ablate import Arm, Scale, Stage, Study, table

BASE = {
    "corpus.name": "grammar",
    "embedding.size": 4,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 4,
    "head": "softmax",
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": 10,
    # Every test has trials of its own, on a tracking server that all of them share.
    "training.clip": 1.0 + int(os.environ.get("FAULTS_NUMBER", "0")) / 100,
}


def scale(seeds, epochs):
    return Scale(
        seeds=seeds,
        stages=(Stage("finetune", {"training.epochs": 4}),),
        changes={"training.epochs": epochs},
    )


study = Study(
    question="Does it survive?",
    base=BASE,
    base_arm="a",
    design=table(
        Arm("a"),
        Arm("b", {"optimizer.learning_rate": 2.0}),
        Arm("c", {"optimizer.learning_rate": 4.0}),
    ),
    scales={
        "short": scale(1, 20),
        "middle": scale(1, 150),
    },
    runner="sloping",
    techniques=("words.py",),
)
