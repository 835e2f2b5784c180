"""Four optimizers, each tuned for itself, and each with what was found for the others.

Question   SGD as the papers use it, AdamW, Muon and SOAP over an LSTM: how much of the difference
           is the optimizer, and how much is the tuning?
Paper      None. The papers of optimizers compare a new one with others' settings, or tune both.
Run        ablate study studies/optimizer_fairness.py                 laptop: for two cores
           ablate study studies/optimizer_fairness.py --scale small   PTB in byte pairs
           ablate study studies/optimizer_fairness.py --scale gpu     WikiText-103
Cost       `ablate plan studies/optimizer_fairness.py [--scale NAME]` says.

"AdamW" is searched over its rate, warm-up, rows of a batch, clipping and dropout. "AdamW as SGD"
has the settings that the same search found for SGD, except the rate, which is searched again: rates
of two optimizers do not mean the same. It is compared with "AdamW", and the four tuned optimizers
are compared with SGD.
"""

from typing import Any

from ablate import Arm, Inherit, Scale, Search, Study, smoke, table

OPTIMIZERS = {
    "SGD": {"optimizer": "sgd", "optimizer.weight_decay": 0.0},  # the recipe's is for AdamW
    "AdamW": {"optimizer": "adamw", "optimizer.beta2": 0.98, "optimizer.weight_decay": 0.1},
    "Muon": {"optimizer": "muon", "optimizer.rest_learning_rate": 0.01},
    "SOAP": {"optimizer": "soap", "optimizer.weight_decay": 0.1},
}
PAIRS = [(name, other) for name in OPTIMIZERS for other in OPTIMIZERS if name != other]
INHERIT = {f"{name} as {other}": Inherit(other, over=[f"Rate of {name}"]) for name, other in PAIRS}
LSTM = {
    "backbone": "lstm",
    "evaluator.standard.stride": None,  # it reads on from window to window
}
SMALL = {
    "corpus.level": "bpe",
    "corpus.merges": 1000,
    "corpus.train_tokens": 200_000,  # so that two cores need half an hour
}
GPU = {
    "corpus.level": "bpe",
    "corpus.merges": 8000,
    "backbone.units": 1024,
    "embedding.size": 1024,
    "training.window": 128,
}


def scale(trials: int, **words: Any) -> Scale:
    search = Search(
        space="optimizer_fairness",
        trials=trials,
        repeats=3,
        synchronous=True,
        batch=2,
        inherit=INHERIT,
    )
    changes = {**LSTM, **words.pop("changes", {})}
    return Scale(seeds=1, search=search, changes=changes, **words)


laptop = scale(4, corpus="grammar", column="laptop")
small = scale(4, corpus="ptb", column="small", changes=SMALL)
gpu = scale(12, corpus="wikitext-103", column="gpu", changes=GPU, gpus=1, precision="bfloat16")

BRIEF = ["SGD", "AdamW", "AdamW as SGD"]

study = Study(
    question="How much of the difference between optimizers is the tuning?",
    base="laptop_transformer",
    base_arm="SGD",
    design=table(
        *(Arm(name, changes) for name, changes in OPTIMIZERS.items()),
        *(Arm(f"{name} as {other}", OPTIMIZERS[name], against=name) for name, other in PAIRS),
    ),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop, seeds=1, arms=BRIEF),
        "small": small,
        "gpu": gpu,
    },
)
