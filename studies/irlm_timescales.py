"""The impulse-response language model, Figure 1: how long do its units remember?

Question   Which timescales do the units of a linear, diagonal network learn, and do they depend on
           the regularization, or on where the recurrent weights started?
Paper      Pachitariu & Sahani 2013, Figure 1a: the timescales -1 / log r of the trained units, in
           order; most units forget within a few words, and a few remember for very long. No table.
Run        ablate study studies/irlm_timescales.py                 laptop: for two cores
           ablate report irlm_timescales                           the figures, on the study's page
Cost       `ablate plan studies/irlm_timescales.py [--scale paper]` says.

The first two arms are `irlm_ptb.py`'s, and the same trials. The third starts from the paper's
"long contexts", every r at 0.9 (Table 1d); the others from 0.5, which is ours.
"""

from dataclasses import replace

from ablate import Analyze, table
from ablate.study.file import load

irlm = load("irlm_ptb")
arms = {arm.name: replace(arm, published=None) for arm in irlm.design.arms}
plain, best = arms["IRLM no reg"], arms["IRLM DO&CN"]
long = replace(
    best, name="IRLM DO&CN, long start", changes={**best.changes, "backbone.initial": 0.9}
)

study = replace(
    irlm,
    measure={},
    columns=(),
    question="How long do the units of a linear recurrent network learn to remember?",
    tables=("Figure 1a",),
    design=table(plain, best, long),
    analyses=(
        Analyze("timescales", (best.name,), shows="Figure 1a"),
        Analyze("timescales", (plain.name, long.name)),
    ),
    scales={
        name: replace(scale, arms=None) for name, scale in irlm.scales.items() if name != "paper_10"
    },
    name="",
)
