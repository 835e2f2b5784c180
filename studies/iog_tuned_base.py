"""Does the gate still help once its base was tuned as long as it was? No paper asked.

Question   The gate's paper takes its base models' settings from others and tunes the gate's. Here a
           plain LSTM and one with a gate are searched for equally long, and then confirmed.
Paper      None; the gate's own has 87.1 / 84.0 for Zaremba's medium LSTM and 84.1 / 81.1 with the
           gate (Takase et al. 2017, Table 2).
Run        ablate study studies/iog_tuned_base.py                 laptop: for two cores
           ablate study studies/iog_tuned_base.py --scale paper   weeks on a GPU
Cost       `ablate plan studies/iog_tuned_base.py [--scale paper]` says.

Both arms get the same number of trials. The gate is trained with the rest, as a trial of a search
is one training; a third arm puts the gate, with its paper's settings, over the tuned base, frozen.
Searches vary too, so each is made three times with fresh search seeds: a pair is a search.
"""

from ablate import Arm, Scale, Search, Stage, Study, recipe, smaller, smoke, table

SEARCHED = ("optimizer.learning_rate", "optimizer.decay")
FROZEN = Stage("gate", {"regularizer": "none", **recipe("takase2017iog_table1")})

small = {**recipe("laptop_lstm"), "training.epochs": 5}
laptop = Scale(
    corpus="grammar",
    seeds=3,
    changes={name: value for name, value in small.items() if name not in SEARCHED},
    adapt=smaller(strengths=8),
    stage_changes={"gate": {"optimizer.learning_rate": 0.01}},  # few updates
    search=Search(
        space="iog_tuned",
        trials=8,
        options={"n_startup_trials": 4},  # of ten at random, none would learn from another
        synchronous=True,
        repeats=3,
    ),
)
paper = Scale(
    corpus="ptb",
    seeds=5,
    search=Search(
        space="iog_tuned", trials=40, early_stopping="hyperband", min_epochs=4, repeats=3
    ),
    gpus=1,
)

study = Study(
    question="Does the gate still help once its base was tuned as long as it was?",
    base="zaremba2014:medium",
    base_arm="LSTM",
    design=table(
        Arm("LSTM"),
        Arm("LSTM, gate jointly", {"gate": "iog", "gate.units": 300}),
        Arm("LSTM, gate alone", then=(FROZEN,)),
    ),
    scales={"laptop": laptop, "smoke": smoke(laptop), "paper": paper},
)
