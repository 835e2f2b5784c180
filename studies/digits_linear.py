"""Does averaging its weights help a linear classifier of digits, trained by plain SGD?

A worked example of a function of one's own: scikit-learn, with the digits that ship with it (1,797
images of 8 x 8 pixels). docs/your_own_training.md walks through it.

    ablate study studies/digits_linear.py                   5 seeds an arm, some seconds
    ablate study studies/digits_linear.py --scale tuned     every arm with its best learning rate
"""

from __future__ import annotations

from dataclasses import dataclass

from ablate import Arm, Metric, Scale, Study, setting, table, task


@dataclass(frozen=True, kw_only=True)
class DigitsConfig:
    learning_rate: float = setting(0.01, doc="of every update", low=0)
    average: bool = setting(False, doc="predict with the mean of the weights of all updates")
    standardize: bool = setting(False, doc="scale every pixel to mean 0 and variance 1")
    epochs: int = setting(8, doc="passes over the training images", low=1)


@task(
    "digits_linear",
    config=DigitsConfig,
    metrics=(Metric("accuracy", better="higher", shown="accuracy in %", factor=100),),
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


study = Study(
    question="Does averaging its weights help a linear classifier of digits?",
    base={"task": "digits_linear"},
    base_arm="plain",
    design=table(
        Arm("plain"),
        Arm("averaged", {"digits_linear.average": True}),
        Arm("standardized", {"digits_linear.standardize": True}),
        Arm("both", {"digits_linear.average": True, "digits_linear.standardize": True}),
    ),
    scales={
        "laptop": Scale(seeds=5),
    },
)
