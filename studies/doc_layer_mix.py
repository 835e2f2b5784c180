"""DOC's Table 3: from which layers should the mixture's distributions come?

Question   A mixture of softmaxes computed from several layers of an LSTM (DOC) against one from
           the last layer alone (MoS): which layers, how many each, and does it help to balance
           the mixture's weights?
Paper      Takase, Suzuki, Nagata 2018, Table 3 (Penn Treebank): MoS 56.54 / 54.44 (valid / test),
           DOC (15,5,0,0) 54.87 / 53.15, with the balance penalty at 0.001 54.62 / 52.87.
Run        ablate study studies/doc_layer_mix.py                    laptop: for two cores
           ablate study studies/doc_layer_mix.py --scale ten_arms   the paper's whole table, 4 seeds
           ablate study studies/doc_layer_mix.py --scale third      ours: DOC and MoS, whole PTB
           ablate study studies/doc_layer_mix.py --scale third_search   settings for these two
           ablate study studies/doc_layer_mix.py --scale paper      days on a GPU
Cost       `ablate plan studies/doc_layer_mix.py [--scale SCALE]` says.

An arm's name lists the distributions from layer 3, 2, 1 and the embedding: (i3, i2, i1, i0). The
first two are Yang et al.'s own settings, their dropout on the mixture vectors included. At
`laptop` scale everything is small: the widths, the text (the built-in corpus), J (divided by 5),
and with them the regularizers (divided by 20).

`laptop` asks of MoS and of five further distributions from each place below the last layer: layer
2, layer 1, the embedding. Its settings were chosen by the base arm alone: sixteen settings of MoS
were tried on seed 1 (rate, initial ranges, regularizers, widths, epochs), and no other arm had been
trained when the best of those that take half a minute was taken (docs/notes/log.md). Most models
of this kind first stay on the plateau of an n-gram for as long as luck has it. With wide initial
ranges and a rate that falls to 0, every seed leaves it, and the last epoch changes 0.3%.

Its five seeds take five to six minutes on two cores. Twelve other seeds (101 to 112) were trained
before, with the same settings and with looks planned at 5, 8 and 12: docs/notes/log.md has that
table.

`third` asks of the paper's final DOC and of MoS on whole Penn Treebank, at a third of the paper's
widths and of its distributions and with a third of its regularization, for 8 epochs of Adam.
`third_search` tried two learning rates and two ranges of the initial word vectors for each arm, for
2 epochs. Both arms were best at the higher rate and the larger range. With the smaller range, DOC's
distributions from layer 2 are saturated within 170 updates at that rate (docs/notes/log.md,
2026-11-25). Large products are in bfloat16.
"""

from dataclasses import replace

from ablate import Arm, Scale, Search, Stage, Study, smaller, smoke, table

EXPERTS_DIVISOR = 5  # of J at laptop scale: (15, 5, 0, 0) becomes (3, 1, 0, 0)
CHOSEN = "Settings were chosen by the base arm alone, on seed 1, before any other was trained so."
THIRDS = "A name's numbers of distributions are the paper's; a third of them is trained."
STRENGTH_DIVISOR = 20  # of every regularizer but the mixture balance, which the arms compare


def mos(experts: int) -> Arm:
    return Arm(
        f"MoS {experts},0,0,0",
        {"head.experts": experts},
        recipe="yang2018mos",
        stages={"finetune": {"optimizer.learning_rate": 25.0, "training.stop_after_worse": 5}},
        published=("AWD-LSTM-MoS", f"i3={experts},i2=0,i1=0,i0=0,lambda_beta=0"),
    )


def doc(*experts: int, balance: float = 0.0) -> Arm:
    name = "DOC " + ",".join(map(str, experts))
    layers = ",".join(f"i{3 - place}={count}" for place, count in enumerate(experts))
    return Arm(
        f"{name}, balance {balance:g}" if balance else name,
        {"head.experts": experts, "regularizer.mixture_balance.weight": balance},
        published=("AWD-LSTM-DOC", f"{layers},lambda_beta={balance:g}"),
    )


laptop = Scale(
    corpus="grammar",
    column="ptb",
    arms=("MoS 15,0,0,0", "DOC 15,5,0,0", "DOC 15,0,5,0", "DOC 15,0,0,5"),
    seeds=5,
    first_seed=301,
    changes={
        "corpus.train_tokens": 60_000,
        "embedding.size": 28,
        "embedding.initial_range": 2.0,
        "backbone.units": (48, 48, 31),
        "backbone.initial_range": 0.7,
        "optimizer": "adamw",
        "optimizer.learning_rate": 0.01,
        "optimizer.weight_decay": 0.0,
        "schedule": "cosine",
        "training.epochs": 8,
        "training.window": 25,
        "training.clip": 1.0,
    },
    adapt=smaller(strengths=STRENGTH_DIVISOR, experts=EXPERTS_DIVISOR),
    note=CHOSEN,
)

ten_arms = replace(laptop, arms=None, seeds=4, first_seed=201)

third = Scale(
    corpus="ptb",
    arms=("MoS 15,0,0,0", "DOC 15,5,0,0, balance 0.001"),
    seeds=3,
    changes={
        "embedding.size": 93,
        "backbone.units": (320, 320, 207),
        "optimizer": "adam",
        "optimizer.weight_decay": 0.0,
        "optimizer.schedule": "decay",
        "optimizer.flat_epochs": 5,
        "optimizer.decay": 2.0,
        "training.epochs": 8,
        "training.batch_size": 20,
        "training.window": 35,
    },
    adapt=smaller(strengths=3, experts=3),
    precision="bfloat16",
    settings_of="third_search",  # the rate, and the range of the initial word vectors
    note=f"The search tried 2 epochs of each setting, and 8 epochs are few. {THIRDS}",
)

third_search = replace(
    third,
    seeds=1,
    settings_of="",
    search=Search(space="doc_third", trials=4, changes={"training.epochs": 2}),
    note=f"The search tried 2 epochs of each setting, on one seed. {THIRDS}",
)

paper = Scale(
    corpus="ptb",
    seeds=1,
    stages=(
        Stage(
            "finetune",
            {"optimizer.trigger": "at_once", "training.stop_after_worse": 60},
        ),
    ),
    published=True,
    gpus=1,
)

study = Study(
    question="From which layers should the mixture's distributions come?",
    margin="1%",
    paper="takase2018doc",
    tables=("Table 3",),
    base="takase2018doc_table2",
    base_arm="MoS 15,0,0,0",
    design=table(
        mos(15),
        mos(20),
        doc(15, 0, 0, 5),
        doc(15, 0, 5, 0),
        doc(15, 5, 0, 0),
        doc(15, 5, 0, 0, balance=0.0001),
        doc(15, 5, 0, 0, balance=0.001),
        doc(15, 5, 0, 0, balance=0.01),
        doc(10, 5, 0, 5),
        doc(10, 5, 5, 0),
    ),
    scales={
        "laptop": laptop,
        "ten_arms": ten_arms,
        "smoke": smoke(ten_arms),
        "third": third,
        "third_search": third_search,
        "paper": paper,
    },
)
