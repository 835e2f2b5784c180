"""A linear classifier of digits: which of its settings matters by itself?

Question   Learning rate, averaged weights, standardized pixels: each is changed alone, and all else
           stays. Which change makes a difference?
Paper      None.
Run        ablate study studies/digits_settings.py      laptop: at most 12 seeds an arm
Cost       Under a minute on two cores, of at most a quarter of an hour.

An example of the design `one_at_a_time`, which is blind to what two changes do together
(`digits_halves.py` asks that); of planned looks: arms are compared after 5, 8 and 12 seeds, and one
that is decided trains no more; and of a limit of time: after a quarter of an hour, what runs is
saved and nothing more starts.
"""

from dataclasses import replace

from ablate import Scale, one_at_a_time, smoke
from ablate.study.file import load

linear = load("digits_linear")
laptop = Scale(
    seeds=12,
    looks=(5, 8, 12),
    spread=0.005,  # half a point of accuracy, as in digits_linear
    hours=0.25,
)

study = replace(
    linear,
    question="Which setting of a linear classifier of digits matters by itself?",
    base_arm="plain",
    design=one_at_a_time(
        {
            "rate": {
                "a tenth": {"digits_linear.learning_rate": 0.001},
                "tenfold": {"digits_linear.learning_rate": 0.1},
            },
            "weights": {"averaged": {"digits_linear.average": True}},
            "pixels": {"standardized": {"digits_linear.standardize": True}},
        },
        base="plain",
    ),
    scales={"laptop": laptop, "smoke": smoke(laptop)},
    name="",
)
