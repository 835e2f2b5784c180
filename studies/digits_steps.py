"""From plain gradient descent to a good linear classifier of digits: what does each step add?

Question   `digits_linear.py` trains with averaged weights, on standardized pixels, or both. On the
           way from neither to both at a larger rate, how much is each step worth?
Paper      None.
Run        ablate study studies/digits_steps.py      laptop: 5 seeds an arm
Cost       Under a minute on two cores.

An example of the design `path`: each arm has the values of the arm before it and one step more, and
is compared with that arm. `digits_settings.py` takes each step alone.
"""

from dataclasses import replace

from ablate import Scale, path, smoke
from ablate.study.file import load

linear = load("digits_linear")
laptop = Scale(seeds=5)

study = replace(
    linear,
    question="What does each step from plain gradient descent to a good classifier add?",
    base_arm="plain",
    design=path(
        {
            "standardized": {"digits_linear.standardize": True},
            "larger rate": {"digits_linear.learning_rate": 0.1},
            "averaged": {"digits_linear.average": True},
        },
        start="plain",
    ),
    scales={"laptop": laptop, "smoke": smoke(laptop)},
    name="",
)
