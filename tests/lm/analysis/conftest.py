"""Tiny trials, trained once, that the tests of analyses share."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.lm.analysis.subject import Subject
from ablate.store.journal import find
from ablate.store.outcome import Status
from ablate.store.workspace import Workspace
from tests.support import places, trials
from tests.support.small_studies import new_workspace

VECTORS = places.VECTORS
CORPUS = {"corpus.name": "grammar", "corpus.train_tokens": 2000, "corpus.eval_tokens": 500}
SHARED = {
    **CORPUS,
    "embedding.size": 8,
    "optimizer": "adam",
    "optimizer.learning_rate": 0.01,
    "training.epochs": 2,
    "training.batch_size": 4,
    "training.window": 20,
}
IRLM = {**SHARED, "backbone": "irlm", "backbone.units": 8, "head": "softmax"}
GATED_DOC = {
    **SHARED,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 10,
    "head": "doc",
    "head.experts": [2, 1],
    "gate": "iog",
    "gate.units": 6,
}
NGRAM = {**CORPUS, "model": "ngram", "ngram.order": 3}
COUNTING = "counting"


@pytest.fixture(scope="session")
def place(tmp_path_factory, data) -> Workspace:
    """A workspace that all these tests share."""
    return new_workspace(tmp_path_factory.mktemp("analyses"), data)


@pytest.fixture(scope="session")
def train(place):
    """Trains a trial to its end; gives it as an analysis meets it."""

    def run(values: dict, arm: str, **more) -> Subject:
        trial = trials.made(values, place.data, arm=arm, **more)
        journal = trials.finish(trial, place.store, place.data)
        assert journal.status == Status.COMPLETED, journal.outcome
        return Subject(find(place.store, trial.id), place.store, place.data)

    return run


@pytest.fixture
def vector():
    """Loads a file of tests/golden/vectors."""

    def load(name: str) -> dict[str, np.ndarray]:
        return dict(np.load(VECTORS / f"{name}.npz"))

    return load


@pytest.fixture(scope="session")
def irlm(train) -> Subject:
    return train(IRLM, "irlm")


@pytest.fixture(scope="session")
def doc(train) -> Subject:
    return train(GATED_DOC, "$doc_ of $2")


@pytest.fixture(scope="session")
def ngram(train) -> Subject:
    return train(NGRAM, "kn3", runner=COUNTING)
