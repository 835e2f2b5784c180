"""Four settings of a linear classifier of digits, in half of their sixteen combinations.

Question   Learning rate, averaged weights, standardized pixels, number of epochs: what does each do
           on average over the others, and which two depend on each other?
Paper      None.
Run        ablate study studies/digits_halves.py      laptop: 5 seeds an arm
Cost       Under a minute on two cores.

An example of the design `fractional_factorial`: the number of epochs follows from the three other
factors, so that eight arms are enough. The price is printed below the table: effects that these
arms cannot tell apart.
"""

from dataclasses import replace

from ablate import Scale, fractional_factorial, smoke
from ablate.study.file import load

linear = load("digits_linear")
laptop = Scale(seeds=5)

study = replace(
    linear,
    question="What do four settings of a linear classifier do on average, and together?",
    base_arm="rate 0.01, averaged no, standardized no, epochs 4",
    design=fractional_factorial(
        {
            "rate": {
                "0.01": {"digits_linear.learning_rate": 0.01},
                "0.001": {"digits_linear.learning_rate": 0.001},
            },
            "averaged": {"no": {}, "yes": {"digits_linear.average": True}},
            "standardized": {"no": {}, "yes": {"digits_linear.standardize": True}},
            "epochs": {"4": {"digits_linear.epochs": 4}, "16": {"digits_linear.epochs": 16}},
        },
        {"epochs": ("rate", "averaged", "standardized")},
    ),
    scales={"laptop": laptop, "smoke": smoke(laptop)},
    name="",
)
