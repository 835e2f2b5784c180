"""Recurrent networks over characters, Section 2.2: does a very high momentum replace clipping?

Question   A rectified recurrent network, trained by steps that average the gradients of ever more
           tokens: does it need its gradients clipped, and does it get better?
Paper      Pachitariu & Sahani 2013, Section 2.2: momentum so high that a step averages over about
           a million tokens, and no clipping; raw text needed some. It prints no comparison: this
           one is ours.
Run        ablate study studies/momentum.py                 laptop: for two cores
           ablate study studies/momentum.py --scale ptb     the letters of Penn Treebank, on a GPU
           ablate study studies/momentum.py --scale raw     WikiText-2's, capitals and all
           ablate study studies/momentum.py --scale paper   text8's (see irlm_characters.py)
Cost       `ablate plan studies/momentum.py [--scale NAME]` says.

A step of momentum mu is 1 / (1 - mu) gradients long, so the rate is divided by that: all arms move
equally far along a gradient that stays, until the rate of one is halved after an epoch that did not
improve validation (`irlm_characters.py`). "Most" is a million tokens; the laptop's text is too
short for these, and has 20,000.
"""

from dataclasses import replace

from ablate import Scale, factorial, smoke
from ablate.study.file import load

characters = load("irlm_characters")
MOST = 1_000_000  # tokens
RATE = 1.0  # of a gradient that stays
LAPTOP_DIVISOR = 50  # of the tokens that a step averages over


def at_one_rate(values: dict) -> dict:
    """An arm's rate, from its momentum; R starts near 0, as in `irlm_characters.py`."""
    tokens = values["training.batch_size"] * values["training.window"]
    averaged = values["optimizer.momentum_tokens"] or tokens
    rate = {"optimizer.learning_rate": RATE * tokens / averaged}
    return {**rate, "backbone.recurrent_range": 0.001}


def smaller(values: dict) -> dict:
    averaged = values["optimizer.momentum_tokens"]
    less = {"optimizer.momentum_tokens": averaged and averaged / LAPTOP_DIVISOR}
    return {**less, **at_one_rate({**values, **less})}


def at_rate(name: str) -> Scale:
    given = characters.scales[name]

    def adapt(values: dict) -> dict:
        unstated = given.adapt(values) if given.adapt else {}
        return {**unstated, **at_one_rate({**values, **unstated})}

    return replace(given, adapt=adapt, published=False)


short = {"corpus.train_tokens": 50_000, "training.batch_size": 4, "training.epochs": 2}
given = characters.scales["laptop"]
laptop = replace(given, changes={**given.changes, **short}, adapt=smaller)

study = replace(
    characters,
    question="Does a very high momentum replace clipping, and is it better?",
    tables=("Section 2.2",),
    base_arm="averaged over one update, clip no",
    design=factorial(
        {
            "averaged over": {
                "one update": {"optimizer.momentum_tokens": None},
                "most / 100": {"optimizer.momentum_tokens": MOST / 100},
                "most / 10": {"optimizer.momentum_tokens": MOST / 10},
                "most": {"optimizer.momentum_tokens": MOST},
            },
            "clip": {"no": {"training.clip": None}, "1": {"training.clip": 1.0}},
        }
    ),
    scales={
        "laptop": laptop,
        "smoke": smoke(laptop, seeds=1),
        "ptb": at_rate("ptb"),
        "raw": replace(at_rate("ptb"), corpus="wikitext-2"),
        "paper": at_rate("paper"),
    },
    name="",
)
