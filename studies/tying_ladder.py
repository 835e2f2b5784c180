"""A ladder: do tied word vectors bring a larger model as much as a small one?

Question   An LSTM whose output matrix is its word vectors, against one with a matrix of its own, at
           four sizes: the larger the model, the smaller the share of its parameters that tying
           saves. Does what it brings grow, shrink or hold?
Paper      None: Inan, Khosravi, Socher 2017 compare both at 200, 650 and 1500 units
           (`tying_table1.py`).
Run        ablate study studies/tying_ladder.py           laptop: for two cores
           ablate table tying_ladder@laptop               the rungs, and what is found over all
           ablate plot tying_ladder@laptop                both curves, and the gain by compute
Cost       `ablate plan studies/tying_ladder.py` says.

Width and number of epochs rise together, so that no rung trains for much longer than its size can
use; word vectors are as wide as the backbone, as tying needs. Both arms have the same settings on
all rungs, except that the learning rate falls with the root of the width. The settings were not
tuned for either arm.
"""

from ablate import Arm, Ladder, Scale, Study, recipe, smoke, table

WIDTHS, EPOCHS = (8, 12, 18, 28), (2, 3, 4, 6)


def rate_by_width(values: dict) -> dict:
    """The rate of the smallest rung, divided by the root of how much wider a rung is."""
    wider = values["backbone.units"] / WIDTHS[0]
    return {"optimizer.learning_rate": round(1.0 / wider**0.5, 3)}


ladder = Ladder(
    {"backbone.units": WIDTHS, "embedding.size": WIDTHS, "training.epochs": EPOCHS},
    transfer=rate_by_width,
    rule="the learning rate falls with the root of the width",
)
changes = {key: value for key, value in recipe("laptop_lstm").items() if key not in ladder.sizes}
laptop = Scale(corpus="grammar", seeds=5, ladder=ladder, changes=changes)

study = Study(
    question="Does what tied word vectors bring go on with compute?",
    base="zaremba2014:small",
    base_arm="untied",
    design=table(Arm("untied", {"head.tied": False}), Arm("tied", {"head.tied": True})),
    scales={"laptop": laptop, "smoke": smoke(laptop, seeds=1)},
)
