"""The dropout of DOC's mixture vectors (text 5.2): which rate, and has MoS the same optimum?

Question   The dropout of the vectors k_{j,c_t} (component j's, in the context c_t) among 0.3, 0.4,
           0.5 and 0.6, for DOC and for MoS.
Paper      Takase, Suzuki, Nagata 2018, text 5.2: of these, 0.6 was best on the Penn Treebank's
           validation text (no numbers are printed). Table 6 has MoS at 0.29 (56.36 / 54.26, Yang
           et al.'s) and at 0.6 (55.67 / 53.75).
Run        ablate study studies/doc_dropout.py                 laptop: for two cores
           ablate study studies/doc_dropout.py --scale paper   days on a GPU
Cost       `ablate plan studies/doc_dropout.py [--scale paper]` says.

Every rate for both heads is a factorial, whose interaction says whether the best rate is DOC's own.
MoS has no balance penalty, which section 5.3 makes part of DOC.
At `laptop` scale all rates are divided by 8, as all other regularizers are.
"""

from dataclasses import replace

from ablate import Study, factorial, smoke
from ablate.study.file import load

RATES = (0.3, 0.4, 0.5, 0.6)
MOS = {"head": "mos", "head.experts": 15, "regularizer.mixture_balance.weight": 0.0}
HEADS = {"DOC": {}, "MoS": MOS}

scales = load("doc_balance").scales
laptop, paper = replace(scales["laptop"], seeds=2), scales["paper"]

study = Study(
    question="Which dropout do a mixture's vectors want?",
    paper="takase2018doc",
    tables=("text 5.2",),
    base="takase2018doc_table2",
    base_arm="head DOC, rate 0.6",
    design=factorial(
        {
            "head": HEADS,
            "rate": {
                f"{rate:g}": {"regularizer.variational_dropout.latent": rate} for rate in RATES
            },
        }
    ),
    scales={"laptop": laptop, "smoke": smoke(laptop), "paper": paper},
)
