"""DOC's Tables 7 and 8: against what had been published, and with five models together.

Question   DOC, fine-tuned on and averaged over five seeds, against LSTMs, RHNs, AWD-LSTM and MoS.
Paper      Takase, Suzuki, Nagata 2018, Table 7 (Penn Treebank, valid / test): MoS 56.54 / 54.44,
           DOC 54.62 / 52.87, fin 54.12 / 52.38, five of them 49.99 / 48.44, fin 48.63 / 47.17.
           Table 8 (WikiText-2): MoS 63.88 / 61.45, DOC 60.97 / 58.55, fin 60.29 / 58.03, five
           56.14 / 54.23, fin 54.91 / 53.09. The other rows are quoted there.
Run        ablate study studies/doc_comparison.py                            laptop: for two cores
           ablate study studies/doc_comparison.py --scale paper              Table 7: weeks on a GPU
           ablate study studies/doc_comparison.py --scale paper_wikitext-2   Table 8
Cost       `ablate plan studies/doc_comparison.py [--scale paper]` says.

Every arm has five seeds, where the page has one model each. The architecture that was searched for
(Zoph & Le) is in `iog`. Five DOCs on WikiText-2 have 183.2M parameters; the page prints 185. There
the authors' README has dropout 0.55 on the first layer's input, and Table 2 0.65: an arm of its own
tells what that is worth. The RHN has depth 8, and tied depth 10, where its authors have these
numbers; the one under a gate is that of Takase et al. 2017, tied at depth 8. The older rows are at
`laptop` scale in the studies of the papers that they are from, and the parts of the LSTM with skip
connections in `melis_parts`.
"""

from dataclasses import replace

from ablate import Arm, Scale, Stage, Study, recipe, smaller, smoke, table

START = {"optimizer.trigger": "at_once", "training.stop_after_worse": 60}
FINETUNE = Stage("finetune", START)
SOONER = {**START, "training.stop_after_worse": 5}  # as AWD and MoS are
OF_AWD = Stage("finetune", {**SOONER, "training.max_window_excess": 10})
OF_MOS = Stage("finetune_mos", SOONER)  # at a rate of its own, by the scale
FIN = Stage("fin", {"training.repeat_while_better": True})
FIVE = Stage("five", kind="evaluate", over="seeds")
GATE = Stage("gate", {"regularizer": "none", **recipe("takase2017iog_table1")})
FRATERNAL = {
    "regularizer.fraternal_dropout.kappa": 0.1,
    "regularizer.activation_regularization.alpha": 0.0,
    "regularizer.temporal_activation_regularization.beta": 0.0,
    "optimizer.nonmono": 60,
}


def quoted(name: str, base: str, *then: Stage, changes: dict | None = None) -> Arm:
    return Arm(name, changes or {}, recipe=base, then=then, published=(name, ""))


def doc(variant: str, *then: Stage) -> Arm:
    name = f"DOC, {variant}" if variant else "DOC"
    return Arm(name, then=(FINETUNE, *then), published=("AWD-LSTM-DOC", variant))


BOTH = (
    quoted("AWD-LSTM (Merity et al., 2018)", "merity2018awd", OF_AWD),
    quoted(
        "AWD-LSTM + Fraternal Dropout (Zolna et al., 2018)",
        "merity2018awd",
        FINETUNE,
        changes=FRATERNAL,
    ),
    quoted("AWD-LSTM-MoS (Yang et al., 2018)", "yang2018mos", OF_MOS),
    doc(""),
    doc("fin", FIN),
    doc("ensemble x5", FIVE),
    doc("fin ensemble x5", FIN, FIVE),
)
SKIPS = quoted("LSTM with skip connections (Melis et al., 2018)", "melis2018")
PTB = (
    quoted("LSTM (medium) (Zaremba et al., 2014)", "zaremba2014:medium"),
    quoted("LSTM (large) (Zaremba et al., 2014)", "zaremba2014:large"),
    quoted("Variational LSTM (medium) (Gal and Ghahramani, 2016)", "gal2016:medium"),
    quoted("Variational LSTM (large) (Gal and Ghahramani, 2016)", "gal2016:large"),
    quoted("Variational RHN (Zilly et al., 2017)", "zilly2017rhn:depth-8"),
    quoted("Variational RHN + WT (Zilly et al., 2017)", "zilly2017rhn:depth-10-tied"),
    quoted("Variational RHN + WT + IOG (Takase et al., 2017)", "zilly2017rhn:depth-8-tied", GATE),
)
INAN = "Variational LSTM + WT + AL (Inan et al., 2017)"
WIKITEXT = (
    Arm(
        "DOC, dropout of the authors' README",
        {"regularizer.variational_dropout.input": 0.55},
        then=(FINETUNE,),
    ),
    quoted("Variational LSTM + IOG (Takase et al., 2017)", "gal2016:medium", GATE),
    Arm(
        INAN,
        {
            **recipe("inan2017tying_later", "medium"),
            "loss.temperature": 20.0,
            "loss.weight": 25.0,  # of WikiText-2, as we remember the later version
        },
        recipe="inan2017tying_section6:medium",
        rows={"RE": True, "AL": "augmented"},
        published=(INAN, ""),
    ),
)


def faster(rate: float) -> dict[str, dict[str, float]]:
    """Yang et al. fine-tune at a higher rate than they train at (20 and 15)."""
    return {OF_MOS.name: {"optimizer.learning_rate": rate}}


def names(*arms: Arm) -> list[str]:
    return [arm.name for arm in arms]


laptop = Scale(
    corpus="grammar",
    column="ptb",
    seeds=3,
    changes={**recipe("laptop_awd"), "training.epochs": 4},
    adapt=smaller(strengths=8, experts=5),
    arms=names(*BOTH),
)
paper = Scale(
    corpus="ptb",
    seeds=5,
    published=True,
    gpus=1,
    arms=names(*BOTH, SKIPS, *PTB),
    stage_changes=faster(25.0),
)
wikitext = replace(
    paper, corpus="wikitext-2", arms=names(*BOTH, SKIPS, *WIKITEXT), stage_changes=faster(20.0)
)

study = Study(
    question="How good is DOC among what had been published?",
    paper="takase2018doc",
    tables=("Table 7", "Table 8"),
    base="takase2018doc_table2",
    base_arm="DOC",
    design=table(*BOTH, SKIPS, *PTB, *WIKITEXT),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop, seeds=2),
        "paper": paper,
        "paper_wikitext-2": wikitext,
    },
)
