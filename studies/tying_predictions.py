"""Inan et al.'s Table 3 and section 6.4: what do the models think comes next?

Question   The ten likeliest next words of a large variational LSTM without and with REAL, and how
           much either gives to <unk> and to the commonest words.
Paper      Inan, Khosravi, Socher 2017, Table 3 (Penn Treebank) has four contexts and is words, not
           numbers: REAL gives <unk> and the commonest words less. Of Table 1, valid / test: VD-LSTM
           76.8 / 72.6, REAL 71.1 / 68.5.
Run        ablate study studies/tying_predictions.py                 laptop: for two cores
           ablate study studies/tying_predictions.py --scale paper   days on a GPU
           ablate report tying_predictions    the words and the curves, on the study's page
Cost       `ablate plan studies/tying_predictions.py [--scale paper]` says.

The two arms are those of tying_table2 without its other rows; their learning curves, with those
of tying_table1's other arms, are the paper's Figure 2.
"""

from ablate import Analyze, Arm, Scale, Study, recipe, smaller, smoke, table

REAL = {"RE": True, "AL": "augmented"}  # rows of the recipe; without an output bias (section 4)
AUGMENTED = {"loss.temperature": 20.0, "loss.weight": 13.0}
OPEN = recipe("inan2017tying_later", "large")  # rows that this version leaves open


def at_laptop(values: dict) -> dict:
    """Weaker masks, and less of the augmented loss for a vocabulary of a twelfth."""
    changes = dict(smaller(strengths=8)(values))
    return changes | ({"loss.weight": 2.0} if values.get("loss") == "augmented" else {})


laptop = Scale(
    corpus="grammar",
    column="large",
    seeds=3,
    changes=recipe("laptop_lstm"),
    adapt=at_laptop,
)
paper = Scale(corpus="ptb", column="large", seeds=1, changes=OPEN, published=True, gpus=1)

study = Study(
    question="What do REAL and the model without it think comes next?",
    paper="inan2017tying",
    tables=("Table 1", "Table 3", "Section 6.4"),
    analyses=(
        Analyze(
            "next_words",
            ("VD-LSTM", "VD-LSTM+REAL"),
            published={"published": True, "split": "test"},
            shows="Table 3",
        ),
        Analyze("learning_curve", ("VD-LSTM", "VD-LSTM+REAL")),
    ),
    base="inan2017tying_section6",
    base_arm="VD-LSTM",
    design=table(
        Arm("VD-LSTM", published=("VD-LSTM", "large (1500)")),
        Arm("VD-LSTM+REAL", AUGMENTED, rows=REAL, published=("VD-LSTM+REAL", "large (1500)")),
    ),
    scales={"laptop": laptop, "smoke": smoke(laptop), "paper": paper},
)
