"""DOC's Table 5: the rank of the matrix of log-probabilities.

Question   One softmax of a D-wide output gives logits of rank D + 1 at most (the bias adds one).
           Do mixtures reach the vocabulary's size?
Paper      Takase, Suzuki, Nagata 2018, Table 5 (Penn Treebank): AWD-LSTM 401, MoS 10,000,
           DOC 10,000, on valid and test alike.
Run        ablate study studies/doc_rank.py                 laptop: for two cores
           ablate study studies/doc_rank.py --scale paper   days on a GPU
           then, for a trial's spectrum: ablate trial analyze rank TRIAL --set num=10000
Cost       `ablate plan studies/doc_rank.py [--scale paper]` says.

A rank is at most the number of contexts: here it is the vocabulary's size, so that a full rank can
show (2.4 GB and some minutes for each trial at `paper`; the vocabulary of `laptop` has 810 words).
401 is the logits' rank; the log-probabilities of a softmax with a bias have one more, for what
normalises them. At `laptop` scale the last layer is 28 wide.
"""

from dataclasses import replace

from ablate import Arm, Study, smoke, table
from ablate.study.file import load

scales = load("doc_balance").scales
laptop, paper = replace(scales["laptop"], seeds=2), scales["paper"]

study = Study(
    question="What is the rank of the log-probability matrix?",
    paper="takase2018doc",
    tables=("Table 5", "Table 6"),
    measure={"evaluator.predictions.contexts": 10_000},
    columns=("predictions.rank",),
    base="takase2018doc_table2",
    base_arm="AWD-LSTM",
    design=table(
        Arm(
            "AWD-LSTM",
            {"optimizer.nonmono": 60},
            recipe="merity2018awd",
            stages={"finetune": {"training.max_window_excess": 10}},  # as its finetune.py
            published=("AWD-LSTM", "nonmono=60"),
            also_published=(("AWD-LSTM", ""),),
        ),
        Arm(
            "MoS",
            {"optimizer.nonmono": 60},
            recipe="yang2018mos",
            stages={"finetune": {"optimizer.learning_rate": 25.0}},
            published=("AWD-LSTM-MoS", "nonmono=60"),
            also_published=(("AWD-LSTM-MoS", ""),),
        ),
        Arm("DOC", published=("AWD-LSTM-DOC", "")),
    ),
    scales={"laptop": laptop, "smoke": smoke(laptop), "paper": paper},
)
