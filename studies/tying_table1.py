"""Inan et al.'s Table 1: tied word vectors and the augmented loss, at three sizes.

Question   A variational LSTM (VD) with the augmented loss (AL), with the word vectors as output
           matrix (RE), and with both (REAL), of 200, 650 and 1500 units.
Paper      Inan, Khosravi, Socher 2017, Table 1 (Penn Treebank, valid / test), VD and REAL: small
           92.6 / 87.3 and 86.3 / 82.7, medium 82.0 / 77.7 and 75.7 / 73.2, large 76.8 / 72.6 and
           71.1 / 68.5. The other cells stand beside ours in the table.
Run        ablate study studies/tying_table1.py                 laptop: for two cores
           ablate study studies/tying_table1.py --scale small_search   200 units: a day on two cores
           ablate study studies/tying_table1.py --scale small_search_2 its second round
           ablate study studies/tying_table1.py --scale small   what they found, three seeds
           ablate study studies/tying_table1.py --scale paper   months on a GPU
Cost       `ablate plan studies/tying_table1.py [--scale paper]` says.

The paper leaves open the dropout rates, how the rate decays and for how long, the temperature and
the weight of the augmented loss. At `paper` scale each arm searches for them three times, all with
the same budget, and each search's best is confirmed on a fresh seed. Tied arms have no output bias
(section 4; section 6.3, which the table is of, does not repeat it). Small models are trained once
more from their final state (footnote 5). Each arm is compared with VD of its size. `ablate report
tying_table1` shows the curves of the small and the large arms, the paper's Figure 2 (of small ones,
those from their final state). At `laptop` scale the sizes are 8, 26 and 60 units, and what the
paper leaves open is ours.

`small_search` is the paper's size of 200 units on whole Penn Treebank, trained for as long as two
cores can bear: each arm tries three dropout rates, the setting that decides most, for 8 epochs
each, with the temperature of 20 and the weight of 13 of `tying_table2`. In `small_search_2` each
tries three more settings: other rates or, with the augmented loss, a temperature of 80 and three
weights. In both the rate is divided by 1.5 an epoch after the 5th. A search gives no verdict: the
two settle what is open for `small`, which has three seeds.

The other settings of `small` are ours and the same for all arms: 10 epochs, then 4 more from the
final state; the rate is halved each epoch after the 6th and after the 1st. It trains in bfloat16:
an update takes 0.58 to 0.65 of its time in float32 (one core of an AMD EPYC of family 25).
"""

from dataclasses import replace

from ablate import Analyze, Arm, Scale, Search, Stage, Study, recipe, smoke, table

SPACE = "inan2017tying_section6"
WIDTH_DIVISOR = 25  # of the sizes at laptop scale
KINDS = {  # whether the matrices are tied, and the loss
    "": (False, "cross_entropy"),
    "+AL": (False, "augmented"),
    "+RE": (True, "cross_entropy"),
    "+REAL": (True, "augmented"),
}
FOUND = {  # by both searches: the rate of dropout; with the augmented loss, its temperature too
    (False, "cross_entropy"): (0.2, None),
    (False, "augmented"): (0.2, 20.0),
    (True, "cross_entropy"): (0.1, None),
    (True, "augmented"): (0.1, 80.0),
}
SIZES = {"small": 200, "medium": 650, "large": 1500}
AGAIN = Stage("again")


def arm(size: str, kind: str) -> Arm:
    return Arm(
        f"VD-LSTM{kind}, {size}",
        recipe=f"{SPACE}:{size}",
        rows=dict(zip(("RE", "AL"), KINDS[kind], strict=True)),
        then=(AGAIN,) if size == "small" else (),
        published=(f"VD-LSTM{kind}", f"{size} ({SIZES[size]})"),
        levels={"size": size, "kind": kind or "VD"},
        against=f"VD-LSTM, {size}" if kind else None,
    )


def at_laptop(values: dict) -> dict:
    """The sizes keep their order; what the paper leaves open is settled."""
    width = values["backbone.units"] // WIDTH_DIVISOR
    sites = ("input", "hidden", "output", "recurrent")
    open_ones = {f"regularizer.variational_dropout.{site}": 0.05 for site in sites}
    if values["loss"] == "augmented":
        open_ones |= {"loss.temperature": 10.0, "loss.weight": 5.0}
    return {"backbone.units": width, "embedding.size": width, **open_ones}


def with_known_loss(values: dict, temperature: float | None = 20.0) -> dict:
    """At `small_search` scale, the augmented loss has one temperature and one weight."""
    if values["loss"] != "augmented":
        return {}
    return {"loss.temperature": temperature, "loss.weight": 13.0}


changes = recipe("laptop_lstm")
laptop = Scale(
    corpus="grammar",
    column="medium",
    seeds=3,
    changes={k: v for k, v in changes.items() if k not in ("backbone.units", "embedding.size")},
    adapt=at_laptop,
)
paper = Scale(
    corpus="ptb",
    column="medium",
    seeds=1,
    changes={"training.epochs": 75},  # the paper gives none; small ones have as many again
    search=Search(space=SPACE, trials=30, early_stopping="hyperband", repeats=3),
    published=True,
    gpus=1,
)


def with_found_dropout(values: dict) -> dict:
    """Every mask's rate is the one that `small_search` found for the arm."""
    rate, _ = FOUND[values["head.tied"], values["loss"]]
    sites = ("input", "hidden", "output", "recurrent")
    masks = {f"regularizer.variational_dropout.{site}": rate for site in sites}
    return masks | with_known_loss(values)


def as_found(values: dict) -> dict:
    """Everything that the two searches found for the arm."""
    _, temperature = FOUND[values["head.tied"], values["loss"]]
    return with_found_dropout(values) | with_known_loss(values, temperature)


FIRST = Search(
    space="inan2017tying_small",
    trials=3,
    changes={"training.epochs": 8, "optimizer.flat_epochs": 5},
)
small_search = Scale(
    corpus="ptb",
    column="small",
    seeds=1,
    arms=[f"VD-LSTM{kind}, small" for kind in KINDS],
    changes={
        "training.epochs": 12,
        "optimizer.flat_epochs": 8,
        "optimizer.decay": 1.5,
        "embedding.initial_range": 0.05,
        "backbone.initial_range": 0.05,
        "head.initial_range": 0.05,
    },
    adapt=with_known_loss,
    stage_changes={"again": {"training.epochs": 6, "optimizer.flat_epochs": 2}},
    search=FIRST,
)
small_search_2 = replace(
    small_search,
    adapt=with_found_dropout,
    search=replace(FIRST, space="inan2017tying_small_2"),
)
small = replace(
    small_search,
    seeds=3,
    changes={
        **small_search.changes,
        "training.epochs": 10,
        "optimizer.flat_epochs": 6,
        "optimizer.decay": 2.0,
    },
    adapt=as_found,
    stage_changes={"again": {"training.epochs": 4, "optimizer.flat_epochs": 1}},
    search=None,
    searched=True,
    precision="bfloat16",
    note="Each arm's dropout, and the temperature and weight of its loss, come from one small "
    "search (docs/notes/log.md, 2026-11-24), and another search might choose others. The paper "
    "prints no number of epochs; these are 14.",
)

study = Study(
    question="What do tied word vectors and the augmented loss bring, alone and together?",
    paper="inan2017tying",
    tables=("Table 1",),
    analyses=(
        Analyze(
            "learning_curve",
            tuple(arm(size, kind).name for size in ("small", "large") for kind in KINDS),
            shows="Figure 2",
        ),
    ),
    base=SPACE,
    base_arm="VD-LSTM, small",
    design=table(*(arm(size, kind) for size in SIZES for kind in KINDS)),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop),
        "small_search": small_search,
        "small_search_2": small_search_2,
        "small": small,
        "paper": paper,
    },
)
