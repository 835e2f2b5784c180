"""Does dropout help a narrow LSTM as much as a wide one?

Run        ablate study width_and_dropout.py                  settings as they stand
           ablate study width_and_dropout.py --scale tuned    every arm tuned first
"""

from ablate import Scale, Search, Study, factorial

BASE = {
    "embedding.size": 32,
    "embedding.initial_range": 0.3,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 24,
    "head": "softmax",
    "optimizer": "adam",
    "optimizer.learning_rate": 0.01,
    "training.epochs": 6,
    "training.batch_size": 8,
    "training.window": 20,
    "training.clip": 1.0,
    "corpus.train_tokens": 8_000,
    "corpus.eval_tokens": 4_000,
}
FACTORS = {
    "width": {"narrow": {}, "wide": {"backbone.units": 160}},
    "dropout": {
        "off": {},
        "on": {
            "regularizer.variational_dropout.input": 0.3,
            "regularizer.variational_dropout.output": 0.3,
        },
    },
}

study = Study(
    question="Does dropout help a narrow LSTM as much as a wide one?",
    base=BASE,
    base_arm="width narrow, dropout off",
    design=factorial(FACTORS),
    scales={
        "listed": Scale(seeds=5),
        "tuned": Scale(
            seeds=5, search=Search(space="rates", trials=8, synchronous=True, repeats=3)
        ),
    },
)
