"""The Mogrifier as Melis et al. build and train it: which part, left out alone, is missed?

Question   An LSTM whose state and input gate each other, with skip connections, a capped input
           gate, masks fresh at every step, circular rows, resets of the state, RMSProp, averaged
           weights and a tuned temperature: what does it lose without each of them?
Paper      None: Melis et al. show what the rounds give. Oliva, Lago-Fernandez 2021, Table 2, quotes
           the whole on Penn Treebank: 51.40 / 50.10 (`dual_table2`).
Run        ablate study studies/melis_parts.py                 laptop: for two cores
           ablate study studies/melis_parts.py --scale paper   days on a GPU
Cost       `ablate plan studies/melis_parts.py [--scale paper]` says.

REMOVED says what "left out" means, part by part: off, or a plain stand-in. All other settings
stay as they are, tuned for none of the arms. Without the rounds it is nearly the LSTM with skip
connections of Melis et al. 2018 (`doc_comparison`), which has other settings. Without circular rows
an epoch is a pass over the text, about as long as a turn on Penn Treebank.
"""

from ablate import Scale, Study, leave_one_out, recipe, smaller, smoke

WHOLE = recipe("melis2020mogrifier")
SITES = ("input", "hidden", "output")
LOCKED = {
    **{f"regularizer.dropout.{site}": 0.0 for site in SITES},
    **{f"regularizer.variational_dropout.{s}": WHOLE[f"regularizer.dropout.{s}"] for s in SITES},
}
REMOVED = {
    "the rounds": {"backbone.rounds": 0},
    "the layers' sum": {"bridge": "none"},
    "the capped gate": {"backbone.capped": False},
    "the start by fan-in": {"backbone.initialization": "uniform"},
    "fresh masks (one a window)": LOCKED,
    "the mask on the state": {"regularizer.variational_dropout.recurrent": 0.0},
    "resets of the state": {"training.state_reset": 0.0},
    "circular rows": {"training.batching": "awd", "training.updates_per_epoch": None},
    "L2": {"regularizer.l2.everything": 0.0, "regularizer.l2.half": False},
    "averaged weights": {"training.average_after": None, "training.average_by": None},
    "RMSProp (Adam)": {"optimizer.beta1": 0.9},
    "the tuned temperature": {"evaluator": "none"},
}

laptop = Scale(
    corpus="grammar",
    seeds=3,
    changes={
        "corpus.train_tokens": 60_000,
        "corpus.eval_tokens": 4000,
        "embedding.size": 48,
        "embedding.initial_range": 0.25,
        "backbone.units": 48,
        "backbone.rank": 8,
        "training.epochs": 8,
        "training.updates_per_epoch": None,
        "training.batch_size": 20,
        "training.window": 25,
        "training.average_after": 2,
        "training.average_by": 5,
        "optimizer.learning_rate": 0.004,
    },
    adapt=smaller(strengths=8),
)
paper = Scale(corpus="ptb", seeds=5, gpus=1)

study = Study(
    question="Which part of the Mogrifier's training is missed when it is left out?",
    base="melis2020mogrifier",
    base_arm="everything",
    design=leave_one_out(REMOVED),
    scales={"laptop": laptop, "smoke": smoke(laptop, seeds=1), "paper": paper},
)
