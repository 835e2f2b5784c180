"""What a trial's evaluators are given, and under which names their findings are recorded."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.config.identity import Parent, make_trial
from ablate.config.resolve import resolve
from ablate.lm.data.corpus import corpus_digest
from ablate.lm.training.evaluation import Evaluation
from ablate.lm.training.training import Training
from ablate.store.store import Store
from ablate.trial import checkpoint
from ablate.trial.task import Place

SMALL = {
    "corpus.name": "grammar",
    "corpus.train_tokens": 1000,
    "corpus.eval_tokens": 200,
    "embedding.size": 8,
    "backbone": "lstm",
    "backbone.units": 8,
    "head": "softmax",
    "optimizer": "sgd",
    "training.epochs": 0,
    "regularizer.variational_dropout.output": 0.5,
}


@pytest.fixture
def concluded(tmp_path, data):
    """What a trial that trains nothing concludes, or an evaluation of such trials."""
    place = Place(Store(str(tmp_path)), data)

    def conclude(values, members=0):
        values = {**SMALL, **values}
        config = resolve(values)
        digest = corpus_digest(config.corpus, data)
        if not members:
            return Training(
                make_trial(config, values=values, seed=1, corpus_digest=digest), place
            ).conclude()
        parents = []
        for seed in range(members):
            trial = make_trial(config, values=values, seed=seed, corpus_digest=digest)
            checkpoint.write_weights(place.store, trial, Training(trial, place).conclude().weights)
            parents.append(Parent("member", trial.id))
        judging = make_trial(
            config, values=values, seed=1, corpus_digest=digest, parents=tuple(parents)
        )
        return Evaluation(judging, place).conclude()

    return conclude


@pytest.mark.parametrize("members", [0, 2])
def test_masks_are_those_of_the_models_own_training(concluded, members):
    found = concluded(
        {"evaluator": "standard", "evaluator.monte_carlo.samples": 2}, members
    ).metrics
    assert abs(found["monte_carlo.test_nll"] - found["test_nll"]) > 1e-6
    none = {"regularizer.variational_dropout.output": 0.0}
    found = concluded(
        {**none, "evaluator": "standard", "evaluator.monte_carlo.samples": 2}, members
    )
    assert found.metrics["monte_carlo.test_nll"] == pytest.approx(
        found.metrics["test_nll"], abs=1e-6
    )


def test_the_trials_numbers_come_from_one_that_judges_every_token(concluded):
    """Chosen alone, completion has the plain evaluation go before it."""
    found = concluded({"evaluator.completion.num_questions": 5})
    plain = concluded({})
    assert found.metrics["test_nll"] == plain.metrics["test_nll"]
    assert found.metrics["completion.test_num_questions"] == 5
    assert 0 <= found.metrics["completion.valid_accuracy"] <= 1
    np.testing.assert_array_equal(found.token_log_probs["test"], plain.token_log_probs["test"])


def test_an_evaluator_may_build_on_the_plain_one_without_its_being_chosen(concluded):
    found = concluded({"evaluator.interpolated.order": 2})
    assert found.metrics["valid_nll"] < concluded({}).metrics["valid_nll"]
    assert found.metrics["test_nll"] == pytest.approx(-found.token_log_probs["test"].mean())
    weights = [found.metrics[f"test_weight_{part}"] for part in ("model", "ngram", "cache")]
    assert math.isclose(sum(weights), 1)


def test_a_model_that_was_not_trained_is_not_judged_in_training_mode(tmp_path, data):
    config = resolve(SMALL)
    digest = corpus_digest(config.corpus, data)
    trial = make_trial(config, values=SMALL, seed=1, corpus_digest=digest)
    task = Training(trial, Place(Store(str(tmp_path)), data))
    task.conclude()
    assert not task.model.training
