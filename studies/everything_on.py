"""With everything switched on, what can be left out? No paper asked.

Question   A DOC over a Mogrifier with a dual bridge, an input-to-output gate, the augmented loss
           and every regularizer of AWD-LSTM and more: which part, left out alone, is missed?
Paper      None; each part was shown to help by itself, over a model without the others.
Run        ablate study studies/everything_on.py                 laptop: for two cores
           ablate study studies/everything_on.py --scale paper   weeks on a GPU
Cost       `ablate plan studies/everything_on.py [--scale paper]` says.

REMOVED says what "left out" means, part by part: off, or a plain stand-in. All other settings
stay as they are, tuned for none of the arms: that a part is not missed may mean that the rest has
become too much. Where the gate is trained with all the rest, there is no frozen base.
"""

from ablate import Scale, Study, leave_one_out, recipe, smaller, smoke

EVERYTHING = {
    **recipe("takase2018doc_table2", "ptb"),
    "backbone": "mogrifier",
    "backbone.rounds": 4,
    "backbone.rank": 100,
    "bridge": "dual",
    "bridge.output_dropout": 0.4,
    "gate": "iog",
    "gate.units": 300,
    "gate.dropout": 0.5,
    "loss": "augmented",
    "loss.temperature": 20.0,
    "loss.weight": 13.0,
    "optimizer.nonmono": 5,
    "regularizer.fraternal_dropout.kappa": 0.1,
}
BALANCE = "regularizer.mixture_balance.weight"
LOCKED = [f"regularizer.variational_dropout.{s}" for s in ("input", "hidden", "output", "latent")]
REMOVED = {
    "the rounds before each step (LSTM)": {"backbone": "lstm"},
    "the mixture (softmax)": {"head": "softmax", BALANCE: 0.0},
    "the lower layer's distributions": {"head.experts": (20,)},
    "the dual bridge": {"bridge": "none"},
    "the gate": {"gate": "none"},
    "the augmented loss (cross entropy)": {"loss": "cross_entropy"},
    "averaging (SGD)": {"optimizer": "sgd"},
    "variational dropout": dict.fromkeys(LOCKED, 0.0),
    "dropout of word types": {"regularizer.embedding_dropout.rate": 0.0},
    "weight drop": {"regularizer.weight_drop.rate": 0.0},
    "AR": {"regularizer.activation_regularization.alpha": 0.0},
    "TAR": {"regularizer.temporal_activation_regularization.beta": 0.0},
    "fraternal dropout": {"regularizer.fraternal_dropout.kappa": 0.0},
    "the mixture's balance": {BALANCE: 0.0},
    "weight decay": {"optimizer.weight_decay": 0.0},
}


def at_laptop(values: dict) -> dict:
    """Smaller parts too, and less of the augmented loss for a vocabulary of a twelfth."""
    sizes = {"backbone.rank": 8, "gate.units": 32, "loss.weight": 2.0}
    known = {name: size for name, size in sizes.items() if name in values}
    return {**smaller(strengths=8, experts=5)(values), **known}


laptop = Scale(
    corpus="grammar",
    seeds=3,
    changes={
        **recipe("laptop_awd"),
        "corpus.train_tokens": 30_000,
        "optimizer.nonmono": 1,
    },
    adapt=at_laptop,
)
paper = Scale(corpus="ptb", seeds=5, gpus=1)

study = Study(
    question="With everything switched on, what can be left out?",
    base=EVERYTHING,
    base_arm="everything",
    design=leave_one_out(REMOVED),
    scales={"laptop": laptop, "smoke": smoke(laptop, seeds=1), "paper": paper},
)
