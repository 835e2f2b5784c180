"""An input-to-output gate over MoS and over DOC. No paper asked.

Question   The gate scales the logits of every component. Does it help mixtures as it helped single
           softmaxes, trained alone over the frozen model (as its paper does) or with all the rest?
Paper      None; near it, AWD-LSTM 58.6 / 56.7 and with the gate 58.5 / 56.7 (Takase et al. 2017,
           Table 2), and DOC 54.62 / 52.87 (Takase et al. 2018, Table 6).
Run        ablate study studies/iog_over_mixtures.py                 laptop: for two cores
           ablate study studies/iog_over_mixtures.py --scale paper   days on a GPU
Cost       `ablate plan studies/iog_over_mixtures.py [--scale paper]` says.

A frozen arm continues from the trials of its head without a gate. Each arm is compared with its
own head; "more training" fine-tunes for as many epochs as the gate has, so that a gain from a
further stage is not taken for the gate's. At `laptop` scale the gate's rate is ten times the
paper's: in so few updates it gets nowhere at 0.001.
"""

from ablate import Arm, Scale, Stage, Study, recipe, smaller, smoke, table

HEADS = {
    "softmax": {
        "head": "softmax",
        "backbone.last_units": 280,
        "regularizer.mixture_balance.weight": 0.0,
    },
    "MoS": {"head": "mos", "head.experts": 15},
    "DOC": {},
}
FROZEN = Stage("gate", {"regularizer": "none", **recipe("takase2017iog_table1")})
MORE = Stage("more", {"optimizer.trigger": "at_once", "training.epochs": 5})
JOINTLY = {"gate": "iog", "gate.units": 300, "gate.dropout": 0.5}


def arms(head: str) -> list[Arm]:
    changes = HEADS[head]
    return [
        Arm(head, changes, against=None if head == "DOC" else "DOC"),
        Arm(f"{head}, more training", changes, then=(MORE,), against=head),
        Arm(f"{head}, gate alone", changes, then=(FROZEN,), against=head),
        Arm(f"{head}, gate jointly", {**changes, **JOINTLY}, against=head),
    ]


def at_laptop(values: dict) -> dict:
    """The last layer stays as wide as a word vector, for the tied softmax."""
    return {
        **smaller(strengths=8, experts=5)(values),
        "backbone.last_units": values["embedding.size"],
    }


laptop = Scale(
    corpus="grammar",
    column="ptb",
    seeds=3,
    changes={**recipe("laptop_awd"), "training.epochs": 4},
    adapt=at_laptop,
    stage_changes={"gate": {"optimizer.learning_rate": 0.01}},
)
paper = Scale(corpus="ptb", seeds=5, gpus=1)

study = Study(
    question="Does an input-to-output gate help mixtures, trained alone or jointly?",
    base="takase2018doc_table2",
    base_arm="DOC",
    design=table(*(arm for head in HEADS for arm in arms(head))),
    scales={"laptop": laptop, "smoke": smoke(laptop), "paper": paper},
)
