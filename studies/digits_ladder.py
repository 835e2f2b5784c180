"""Do shifted images help a wide convolutional network as much as a narrow one?

Question   `digits_cnn.py` moves each training image by up to a pixel. Is this worth more compute to
           a network of 32 channels than to one of 4?
Paper      None.
Run        ablate study studies/digits_ladder.py      laptop: 5 seeds an arm, on each of four rungs
           ablate table digits_ladder@laptop          the rungs, and what is found over all
Cost       A minute or two on two cores.

An example of a ladder over a task of one's own, whose compute a function of the settings gives.
"""

from dataclasses import replace

from ablate import Arm, Ladder, Scale, smoke, table
from ablate.study.file import load

IMAGES, PIXELS = 1000, 64


def operations(values: dict) -> float:
    """The multiplications and additions of a training: forward, and twice as many backward."""
    channels = values["digits_cnn.channels"]
    first, second = 9 * channels * PIXELS, 9 * channels * 2 * channels * PIXELS / 4
    last = 2 * channels * PIXELS / 16 * 10
    return 3 * 2 * (first + second + last) * IMAGES * values["digits_cnn.epochs"]


ladder = Ladder(
    {"digits_cnn.channels": (4, 8, 16, 32), "digits_cnn.epochs": (3, 4, 5, 6)}, compute=operations
)
laptop = Scale(seeds=5, ladder=ladder)

study = replace(
    load("digits_cnn"),
    question="Do shifted images help a wide network as much as a narrow one?",
    base_arm="plain",
    design=table(Arm("plain"), Arm("shifted", {"digits_cnn.shift": True})),
    scales={"laptop": laptop, "smoke": smoke(laptop)},
    name="",
)
