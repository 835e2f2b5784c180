"""Averaged weights or standardized pixels: does either help a linear classifier of digits?

Question   A linear classifier of 8 x 8 pixels, trained by plain stochastic gradient descent: is it
           better to predict with the mean of all its weights, and to scale each pixel first?
Paper      None. The digits are the 1,797 that come with scikit-learn.
Run        ablate study studies/digits_linear.py                 laptop: 5 seeds an arm
           ablate study studies/digits_linear.py --scale tuned   each arm at its best learning rate
Cost       At either scale under a minute on two idle cores, one to two minutes on busy ones.

A function of one's own: docs/tutorials/your_training.md builds a smaller one step by step. Learning
rates that suit one arm need not suit another, so the scale `tuned` searches for each arm's own,
three times; nothing here is settled by the scale `laptop` alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from ablate import Arm, Metric, Scale, Search, Study, setting, smoke, table, task


@dataclass(frozen=True, kw_only=True)
class DigitsConfig:
    learning_rate: float = setting(0.01, doc="of every update", low=0)
    average: bool = setting(False, doc="predict with the mean of the weights of all updates")
    standardize: bool = setting(False, doc="scale every pixel to mean 0 and variance 1")
    epochs: int = setting(8, doc="passes over the training images", low=1)


@task(
    "digits_linear",
    config=DigitsConfig,
    metrics=(
        Metric("accuracy", better="higher", shown="accuracy in %", factor=100, lowest=0, highest=1),
    ),
)
def train(run):
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.linear_model import SGDClassifier
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images / 16, labels, test_size=0.4, random_state=0, stratify=labels)
    train_x, rest_x, train_y, rest_y = map(np.asarray, parts)
    valid_x, test_x, valid_y, test_y = train_test_split(
        rest_x, rest_y, test_size=0.5, random_state=0, stratify=rest_y
    )
    if run.config.standardize:
        mean, spread = train_x.mean(axis=0), train_x.std(axis=0) + 1e-3
        train_x, valid_x, test_x = ((x - mean) / spread for x in (train_x, valid_x, test_x))
    model = SGDClassifier(
        loss="log_loss",
        learning_rate="constant",
        eta0=run.config.learning_rate,
        average=run.config.average,
        random_state=run.seed,
    )
    for epoch in range(run.config.epochs):
        order = np.random.default_rng([run.seed, epoch]).permutation(len(train_x))
        model.partial_fit(train_x[order], train_y[order], classes=range(10))
        yield {"valid_accuracy": model.score(valid_x, valid_y)}
    return {"test_accuracy": model.score(test_x, test_y)}


laptop = Scale(seeds=5)
tuned = Scale(
    seeds=2,
    search=Search(
        space="digits_linear",
        trials=6,
        sampler="random",  # six trials teach a sampler nothing
        listed_first=True,  # no arm ends worse on validation than with its listed rate
        synchronous=True,
        repeats=3,
    ),
)

study = Study(
    question="Does averaging weights or standardizing pixels help a linear classifier of digits?",
    base={"task": "digits_linear"},
    base_arm="plain",
    design=table(
        Arm("plain"),
        Arm("averaged", {"digits_linear.average": True}),
        Arm("standardized", {"digits_linear.standardize": True}),
        Arm("both", {"digits_linear.average": True, "digits_linear.standardize": True}),
    ),
    scales={"laptop": laptop, "smoke": smoke(laptop), "tuned": tuned},
)
