"""Three arms, trained in no time to speak of, then trained on: twelve trials."""

import runners

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
    "training.epochs": 3,
}

study = Study(
    question="Does it survive?",
    base=BASE,
    base_arm="a",
    design=table(
        Arm("a"),
        Arm("b", {"optimizer.learning_rate": 2.0}),
        Arm("c", {"optimizer.learning_rate": 4.0}),
    ),
    scales={"s": Scale(seeds=2, stages=(Stage("finetune", {"training.clip": 0.5}),))},
    runner="slowly_sloping",
    techniques=(runners.__file__, "often.py", "deadly.py"),
)
