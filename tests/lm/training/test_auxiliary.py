"""What a regularizer trains for itself stays with the weights, and out of every evaluation."""

from __future__ import annotations

import pytest
import torch

from ablate.config.identity import Parent
from ablate.config.merge import merge
from ablate.lm.training.training import Training
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.checkpoint import read_weights, within
from ablate.trial.task import Place
from tests.support import trials

TINY = {
    "corpus.name": "grammar",
    "corpus.train_tokens": 600,
    "corpus.eval_tokens": 200,
    "embedding.size": 8,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 8,
    "head": "softmax",
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": 1,
    "training.batch_size": 4,
    "training.window": 20,
    "evaluator": "dynamic",  # whose steps depend on the number of parameters
    "evaluator.dynamic.gradient_batch_size": 20,
    "evaluator.dynamic.decay": 0.2,
}
PAST = {"regularizer.past_decode.weight": 0.1}
STAYS = {"training.epochs": 0}


@pytest.fixture
def trial_of(data):
    def make(changes, **more):
        return trials.made(merge(TINY, changes), data, **more)

    return make


@pytest.fixture
def finish(tmp_path, data):
    def run(trial):
        journal = trials.finish(trial, Store(tmp_path), data)
        assert journal.status == Status.COMPLETED, journal.outcome
        return journal.outcome

    return run


def after(trial):
    return {"parents": (Parent("start", trial.id),)}


@pytest.mark.parametrize(("first", "then"), [(PAST, {}), ({}, PAST), (PAST, PAST)])
def test_a_model_is_judged_the_same_with_and_without_it(trial_of, finish, first, then):
    """A stage that trains nothing, whose regularizers are others than those of the first."""
    parent = trial_of(first)
    trained = finish(parent)
    judged = finish(trial_of({**then, **STAYS}, **after(parent)))
    assert judged.metrics == trained.metrics
    assert judged.num_parameters == trained.num_parameters


def test_the_next_stage_goes_on_with_it(trial_of, finish, tmp_path, data):
    parent = trial_of(PAST)
    finish(parent)
    task = Training(trial_of(PAST, **after(parent)), Place(Store(tmp_path), data))
    saved = within("auxiliary", read_weights(Store(tmp_path), parent.id))
    own = task.model.auxiliary.state_dict()
    assert own.keys() == saved.keys() and saved
    assert all(torch.equal(own[name], saved[name]) for name in saved)
    fresh = Training(trial_of(PAST), Place(Store(tmp_path), data)).model.auxiliary.state_dict()
    assert not torch.equal(fresh["past_decode.latent.weight"], own["past_decode.latent.weight"])
