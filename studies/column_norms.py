"""The impulse-response language model, Section 4: which norm should its units' weights have?

Question   Under dropout, every unit's column of W and of Z is given a fixed norm after each update:
           which one, and is it better than none?
Paper      Pachitariu & Sahani 2013, Section 4 and Table 2 (Penn Treebank, test): 15, chosen by 5
           runs; 102.5, against 109 without fixed norms. The other norms' numbers are not printed.
Run        ablate study studies/column_norms.py                 laptop: for two cores
           ablate study studies/column_norms.py --scale paper   a day or two on two cores
Cost       `ablate plan studies/column_norms.py [--scale paper]` says.

Norms are W's, as the paper counts them; Z's is half of it here, whose masks are scaled in training
(`irlm_ptb.py` says why). At laptop scale a column has 810 weights instead of 10,000, which are the
larger for it.
"""

from dataclasses import replace

from ablate import Arm, table
from ablate.study.file import load

irlm = load("irlm_ptb")
arms = {arm.name: arm for arm in irlm.design.arms}
free, fixed = arms["IRLM DO"], arms["IRLM DO&CN"]


def norm(length: float) -> Arm:
    lengths = {
        "regularizer.column_norm.norm": length,
        "regularizer.column_norm.output_norm": length / 2,
    }
    published = fixed.published if length == 15 else None
    return replace(fixed, name=f"norm {length:g}", changes=lengths, published=published)


study = replace(
    irlm,
    measure={},
    columns=(),
    question="Which norm should a unit's weights have, under dropout?",
    base_arm=free.name,
    design=table(free, *map(norm, (5, 10, 15, 20, 30))),
    scales={
        name: replace(scale, arms=None, seeds=2 if name == "smoke" else 5)
        for name, scale in irlm.scales.items()
        if name != "paper_10"
    },
    name="",
)
