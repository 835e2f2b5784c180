"""The impulse-response language model, Section 2: what does a linear network need its matrix for?

Question   A linear network whose recurrent matrix is diagonal (IRLM), dense, or random and fixed
           (an echo state network); and a rectified one, half of whose units are such a network.
Paper      Pachitariu & Sahani 2013, in the text (Section 2.1: a dense linear network's response is
           a sum of powers of its eigenvalues, of which 20% were above 0.9). It prints no perplexity
           of these networks.
Run        ablate study studies/irlm_linear.py                 laptop: for two cores
           ablate study studies/irlm_linear.py --scale paper   hours on two cores
           ablate report irlm_linear                           with the eigenvalues and timescales
Cost       `ablate plan studies/irlm_linear.py [--scale paper]` says.

The first two arms are `irlm_ptb.py`'s, and the same trials; all have its dropout and its column
norms. The spectral radius of 0.9 and the size of the fixed block, half of the units, are ours.
"""

from dataclasses import replace
from typing import Any

from ablate import Analyze, Arm, table
from ablate.study.file import load

irlm = load("irlm_ptb")
arms = {arm.name: replace(arm, published=None, against=None) for arm in irlm.design.arms}
diagonal, rectified = arms["IRLM DO&CN"], arms["RNN DO&CN"]
LINEAR = {"backbone.activation": "identity"}
RANDOM = {"backbone.recurrent_range": 0.05, "backbone.spectral_radius": 0.9}
FIXED = {**RANDOM, "backbone.recurrent_rate": 0.0}
HALF = {**RANDOM, "backbone.blocks": (256, 256), "backbone.block_rates": (0.1, 0.0)}


def variant(name: str, **changes: Any) -> Arm:
    return replace(rectified, name=name, changes={**rectified.changes, **changes})


def small(values: dict) -> dict:
    """Blocks that fill the laptop's units."""
    half = values["backbone.units"] // 2
    return {"backbone.blocks": (half, half)} if "backbone.blocks" in values else {}


dense = variant("dense linear RNN", **LINEAR)
echo = variant("linear echo state", **LINEAR, **FIXED)
block = variant("RNN, echo-state block", **HALF)

study = replace(
    irlm,
    measure={},
    columns=(),
    question="What does a linear recurrent network need its matrix for?",
    tables=(),
    base_arm=diagonal.name,
    design=table(diagonal, rectified, dense, echo, block),
    analyses=(
        Analyze("eigenvalues", (dense.name, rectified.name)),
        Analyze("timescales", (diagonal.name,)),
    ),
    scales={
        name: replace(scale, arms=None, adapt=small)
        for name, scale in irlm.scales.items()
        if name in ("laptop", "smoke", "paper")
    },
    name="",
)
