"""A model that is really trained, for seconds: both arms, trained on, and their seeds together."""

from ablate import Arm, Scale, Stage, Study, table

BASE = {
    "corpus.train_tokens": 2500,
    "corpus.eval_tokens": 500,
    "embedding.size": 8,
    "backbone": "lstm",
    "backbone.num_layers": 2,
    "backbone.units": [10, 8],
    "head": "mos",
    "head.experts": 2,
    "optimizer": "nt_asgd",
    "optimizer.learning_rate": 5.0,
    "training.epochs": 10,
    "training.batch_size": 4,
    "training.window": 20,
    "training.variable_window": True,
    "training.clip": 0.25,
    "regularizer.weight_drop.rate": 0.3,
    "regularizer.variational_dropout.hidden": 0.2,
}

study = Study(
    question="To the same bits?",
    base=BASE,
    base_arm="mos",
    design=table(Arm("mos"), Arm("doc", {"head": "doc", "head.experts": (1, 1, 0)})),
    scales={
        "s": Scale(
            seeds=2,
            stages=(Stage("finetune", {"optimizer.trigger": "at_once", "training.epochs": 2}),),
            ensemble=True,
        )
    },
    techniques=("often.py",),
)
