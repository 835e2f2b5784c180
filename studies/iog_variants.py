"""The input-to-output gate's variants, Table 4: should it see more than the input word?

Question   A gate over a finished recurrent highway network that sees the input word alone
           (Eq. 6-8), the hidden state too (Eq. 10), or all words so far through an LSTM of its own
           (Eq. 11-12).
Paper      Takase, Suzuki, Nagata 2017, Table 4 (Penn Treebank, test): without a gate 68.9, with it
           66.5, with the hidden state 75.6, with an LSTM 68.1.
Run        ablate study studies/iog_variants.py                 laptop: for two cores
           ablate study studies/iog_variants.py --scale paper   weeks on a GPU
Cost       `ablate plan studies/iog_variants.py [--scale paper]` says.

All gates go over the very same networks. The two that see more are compared with the one that sees
the input word alone, also in their parameters. The paper counts 0.8M more for the hidden state; its
own formula has 8.9M, and is what is trained here.
"""

from dataclasses import replace

from ablate import Arm, Scale, Stage, Study, recipe, smaller, smoke, table

MASKS_DIVISOR = 8  # of every dropout at laptop scale
RHN = "Variational RHN (depth 8, replication)"
GATE = Stage("gate", {"regularizer": "none", **recipe("takase2017iog_table1")})


def gated(name: str, gate: str, printed: str) -> Arm:
    stage = replace(GATE, changes={**GATE.changes, "gate": gate})
    against = None if gate == "iog" else "IOG"
    return Arm(name, then=(stage,), published=(RHN, printed), against=against)


laptop = Scale(
    corpus="grammar",
    seeds=5,
    changes={**recipe("laptop_lstm"), "backbone.depth": 3},
    adapt=smaller(strengths=MASKS_DIVISOR),
    stage_changes={"gate": {"optimizer.learning_rate": 0.01}},  # fewer updates (see iog.py)
    ensemble=True,
)

study = Study(
    question="Should a gate over a finished model see more than the input word?",
    paper="takase2017iog",
    tables=("Table 4",),
    columns=("more_parameters",),
    base="zilly2017rhn:depth-8",
    base_arm="no gate",
    design=table(
        Arm("no gate", published=(RHN, "base")),
        gated("IOG", "iog", "+IOG"),
        gated("IOG with hidden", "iog_hidden", "+IOG with hidden"),
        gated("LSTM gate", "iog_lstm", "+LSTM gate"),
    ),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop),
        "paper": Scale(corpus="ptb", seeds=1, published=True, gpus=1),
    },
)
