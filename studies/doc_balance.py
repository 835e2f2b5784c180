"""DOC's Table 4: how evenly are the distributions used, and at what price?

Question   The balance penalty's weight, lambda_beta, against the coefficient of variation of the
           mixture's mean weights.
Paper      Takase, Suzuki, Nagata 2018, Table 4 (Penn Treebank, valid / test), by lambda_beta:
           0: 0.276 / 0.279, 0.0001: 0.254 / 0.252, 0.001: 0.217 / 0.213, 0.01: 0.092 / 0.086.
           Its perplexities are those of Table 3.
Run        ablate study studies/doc_balance.py                 laptop: for two cores
           ablate study studies/doc_balance.py --scale paper   days on a GPU
           then, for each expert of a trial: ablate trial analyze mixture_use TRIAL
Cost       `ablate plan studies/doc_balance.py [--scale paper]` says.

The trials at `paper` scale are four of doc_layer_mix's: what one study has trained, the other
reuses. A last arm has the penalty as Eq. 12-13 print it; the numbers were made by the authors'
code, which is stronger about as many times as there are distributions (19 at J = 20).
"""

from ablate import Arm, Scale, Stage, Study, recipe, smaller, smoke, table

WEIGHT = "regularizer.mixture_balance.weight"
DOC = "AWD-LSTM-DOC"


def balanced(weight: float) -> Arm:
    name = f"lambda {weight:g}"
    return Arm(
        name,
        {WEIGHT: weight},
        published=(DOC, f"i3=15,i2=5,i1=0,i0=0,lambda_beta={weight:g}"),
        also_published=((DOC, f"i3=15,i2=5,lambda_beta={weight:g}"),),
    )


as_printed = {WEIGHT: 0.01, "regularizer.mixture_balance.mode": "paper"}

# Other studies of DOC take these two scales from here.
laptop = Scale(
    corpus="grammar",
    column="ptb",
    seeds=3,
    changes=recipe("laptop_awd"),
    adapt=smaller(strengths=8, experts=5),
    stages=(Stage("average", {"optimizer.trigger": "at_once", "training.epochs": 2}),),
)
paper = Scale(
    corpus="ptb",
    seeds=1,
    stages=(Stage("finetune", {"optimizer.trigger": "at_once", "training.stop_after_worse": 60}),),
    published=True,
    gpus=1,
)

study = Study(
    question="How evenly are the mixture's distributions used, and at what price?",
    paper="takase2018doc",
    tables=("Table 3", "Table 4"),
    measure={"evaluator": "mixture_use"},
    columns=("mixture_use.variation",),
    base="takase2018doc_table2",
    base_arm="lambda 0",
    design=table(
        balanced(0.0),
        balanced(0.0001),
        balanced(0.001),
        balanced(0.01),
        Arm("lambda 0.01, Eq. 12-13 as printed", as_printed),
    ),
    scales={"laptop": laptop, "smoke": smoke(laptop), "paper": paper},
)
