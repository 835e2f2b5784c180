"""Two models that are really trained, in no time: plain, and with all that can follow."""

from ablate import Arm, Scale, Stage, Study, table

BASE = {
    "corpus.train_tokens": 1000,
    "corpus.eval_tokens": 200,
    "embedding.size": 6,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 6,
    "head": "softmax",
    "optimizer": "nt_asgd",
    "optimizer.learning_rate": 5.0,
    "training.epochs": 2,
    "training.batch_size": 4,
    "training.window": 20,
    "regularizer.weight_drop.rate": 0.2,
}

study = Study(
    question="The same again?",
    base=BASE,
    base_arm="softmax",
    design=table(Arm("softmax"), Arm("mos", {"head": "mos", "head.experts": 2})),
    scales={
        "plain": Scale(seeds=2),
        "whole": Scale(seeds=2, ensemble=True, stages=(Stage("finetune", {"training.clip": 0.5}),)),
    },
)
