"""DOC's Table 6: what of DOC's lead is the training, and what the head?

Question   AWD-LSTM and MoS trained again with DOC's non-monotone interval, MoS with DOC's dropout,
           DOC itself, and DOC fine-tuned until that no longer helps (fin).
Paper      Takase, Suzuki, Nagata 2018, Table 6 (Penn Treebank, valid / test): AWD-LSTM with an
           interval of 60 58.88 / 56.36, MoS with it 56.36 / 54.26, MoS with DOC's dropout as well
           55.67 / 53.75, DOC 54.62 / 52.87, DOC (fin) 54.12 / 52.38.
Run        ablate study studies/doc_reruns.py                 laptop: for two cores
           ablate study studies/doc_reruns.py --scale paper   days on a GPU
Cost       `ablate plan studies/doc_reruns.py [--scale paper]` says.

Figure 2's learning curves are of these arms as well: `ablate report doc_reruns` shows them. "MoS,
DOC's dropout" is Table 2's recipe with another head, and without the balance penalty, which section
5.3 makes part of DOC. At `laptop` scale no interval ever passes; a stage averages instead.
"""

from dataclasses import replace

from ablate import Analyze, Arm, Stage, Study, smoke, table
from ablate.study.file import load

LATER = {"optimizer.nonmono": 60}
AVERAGED = {"optimizer.trigger": "at_once", "training.epochs": 4, "training.stop_after_worse": 1}

scales = load("doc_balance").scales
laptop = replace(scales["laptop"], stages=(Stage("average", AVERAGED),))
paper = scales["paper"]

study = Study(
    question="What of DOC's lead is its training, and what its head?",
    paper="takase2018doc",
    tables=("Table 6",),
    analyses=(Analyze("learning_curve", ("AWD-LSTM", "MoS", "DOC"), shows="Figure 2"),),
    base="takase2018doc_table2",
    base_arm="MoS, DOC's dropout",
    design=table(
        Arm(
            "AWD-LSTM",
            LATER,
            recipe="merity2018awd",
            stages={"finetune": {"training.max_window_excess": 10}},  # as its finetune.py
            published=("AWD-LSTM", "nonmono=60"),
        ),
        Arm(
            "MoS",
            LATER,
            recipe="yang2018mos",
            stages={"finetune": {"optimizer.learning_rate": 25.0}},
            published=("AWD-LSTM-MoS", "nonmono=60"),
        ),
        Arm(
            "MoS, DOC's dropout",
            {"head": "mos", "head.experts": 15, "regularizer.mixture_balance.weight": 0.0},
            published=("AWD-LSTM-MoS", "003 implementation, DOC dropout rates"),
        ),
        Arm("DOC", published=("AWD-LSTM-DOC", "")),
        Arm(
            "DOC (fin)",
            then=(Stage("fin", {"training.repeat_while_better": True}),),
            published=("AWD-LSTM-DOC", "fin"),
        ),
    ),
    scales={"laptop": laptop, "smoke": smoke(laptop), "paper": paper},
)
