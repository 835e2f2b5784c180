"""The impulse-response language model, Section 5.1: how long should a cache of counts be?

Question   An IRLM, and counts of five words, mixed with a cache of the last 20 to 1,000 words:
           which length is best, and does the network need the same one as the counts?
Paper      Pachitariu & Sahani 2013: a cache of the last 50 to 100 words (Section 5.1); the slowest
           units of the network itself remember up to 50 (Figure 1). Table 2 (Penn Treebank, test):
           KN5 141.2, with a cache 125.7; IRLM 102.5, with KN5 and cache 94. We know no numbers for
           other lengths.
Run        ablate study studies/irlm_caches.py                 laptop: for two cores
           ablate study studies/irlm_caches.py --scale paper   hours on two cores
           ablate study studies/irlm_caches.py --scale counts  the counts alone, on PTB: a minute
Cost       `ablate plan studies/irlm_caches.py [--scale paper]` says.

One IRLM is trained for each seed, `irlm_ptb.py`'s; every arm judges the same one.
"""

from dataclasses import replace

from ablate import Arm, Scale, Stage, table
from ablate.study.file import load

LENGTHS = (20, 50, 100, 200, 500, 1000)

irlm = load("irlm_ptb")
best = next(arm for arm in irlm.design.arms if arm.name == "IRLM DO&CN")


def counted(length: int) -> Arm:
    values = {"model": "ngram", "ngram.order": 5, "ngram.cache_window": length}
    if length == 100:
        return Arm(f"KN5, cache {length}", values, published=("5-gram Kneser-Ney", "+KN5+cache"))
    return Arm(f"KN5, cache {length}", values, against="KN5, cache 100")


def judged(length: int) -> Arm:
    values = {"evaluator": "interpolated", "evaluator.interpolated.cache_window": length}
    return replace(
        best,
        name=f"IRLM, counts, cache {length}",
        then=(Stage("judged", values, kind="evaluate"),),
        published=None,
        against="IRLM, counts, cache 100" if length != 100 else None,
    )


alone = Arm("KN5", {"model": "ngram", "ngram.order": 5}, published=("5-gram Kneser-Ney", ""))
counts = [alone, *map(counted, LENGTHS)]

study = replace(
    irlm,
    measure={},
    columns=(),
    question="How long should a cache of counts be?",
    base_arm="KN5, cache 100",
    design=table(*counts, *map(judged, LENGTHS)),
    scales={
        name: replace(scale, arms=None)
        for name, scale in irlm.scales.items()
        if name in ("laptop", "smoke", "paper")
    }
    | {"counts": Scale(corpus="ptb", seeds=1, arms=[arm.name for arm in counts], published=True)},
    name="",
)
