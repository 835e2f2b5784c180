"""The augmented loss on mixtures of softmaxes. No paper asked.

Question   Inan et al.'s loss draws what a model predicts towards words with like vectors. Mixtures
           have other means of spreading probability: does the loss help them as it helps a
           single softmax?
Paper      None; for single softmaxes Inan et al. 2017, Table 1, has 69.0 (RE) and 68.5 (REAL) on
           test at 1500 units; DOC without the loss has 52.87 (Takase et al. 2018, Table 6).
Run        ablate study studies/augmented_mixtures.py                 laptop: for two cores
           ablate study studies/augmented_mixtures.py --scale paper   days on a GPU
Cost       `ablate plan studies/augmented_mixtures.py [--scale paper]` says.

A factorial of head and loss; of a mixture, the tempered distribution is that of its tempered
components. tau = 20 and alpha = 13 are the later version's, as we remember it; at `laptop` scale
the vocabulary is a twelfth, and alpha 2.
"""

from dataclasses import replace

from ablate import Study, factorial, smaller, smoke
from ablate.study.file import load

HEADS = {
    "softmax": {
        "head": "softmax",
        "backbone.last_units": 280,
        "regularizer.mixture_balance.weight": 0.0,
    },
    "MoS": {"head": "mos", "head.experts": 15},
    "DOC": {"head": "doc"},
}
LOSSES = {
    "cross entropy": {"loss": "cross_entropy"},
    "augmented": {"loss": "augmented", "loss.temperature": 20.0, "loss.weight": 13.0},
}


def at_laptop(values: dict) -> dict:
    changes = dict(smaller(strengths=8, experts=5)(values))
    changes["backbone.last_units"] = values["embedding.size"]
    return changes | ({"loss.weight": 2.0} if values["loss"] == "augmented" else {})


scales = load("doc_balance").scales
laptop = replace(scales["laptop"], adapt=at_laptop)
paper = replace(scales["paper"], seeds=5, published=False)

study = Study(
    question="Does the augmented loss help mixtures as it helps a single softmax?",
    base="takase2018doc_table2",
    base_arm="head DOC, loss cross entropy",
    design=factorial({"head": HEADS, "loss": LOSSES}),
    scales={"laptop": laptop, "smoke": smoke(laptop), "paper": paper},
)
