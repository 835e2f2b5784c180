"""Training on pairs of sentences: it resumes bit for bit, learns, and is judged by its writing."""

from __future__ import annotations

import importlib.util
from collections import Counter

import pytest
import torch

from ablate.config.identity import Parent, Role, Trial
from ablate.config.merge import merge
from ablate.config.resolve import resolve
from ablate.config.tasks import EVALUATION
from ablate.errors import CombinationError, MissingDependency
from ablate.lm.data.corpus import open_corpus
from ablate.lm.model.assemble import count_parameters
from ablate.lm.model.masks import Chance
from ablate.lm.training.training import Training
from ablate.store import journal as journals
from ablate.store import sentences, tokens
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from ablate.trial.task import Place
from tests.support import trials

TINY = {
    "task": "encoder_decoder",
    "corpus.train_pairs": 40,
    "corpus.eval_pairs": 6,
    "embedding.size": 8,
    "encoder.units": 8,
    "backbone": "lstm",
    "backbone.units": [10, 8],
    "head": "doc",
    "head.experts": [2, 2],
    "optimizer": "adam",
    "optimizer.learning_rate": 0.01,
    "training.epochs": 2,
    "training.batch_size": 8,
    "training.clip": 1.0,
    "regularizer.dropout.hidden": 0.2,
    "regularizer.dropout.attention": 0.2,
    "regularizer.weight_drop.rate": 0.2,
    "regularizer.embedding_dropout.rate": 0.1,
    "evaluator.generate.beam": 2,
    "evaluator.generate.longest_factor": 1.0,
}


def trial_of(data: str, changes=None, seed: int = 1, **more) -> Trial:
    return trials.made(merge(TINY, changes or {}), data, seed=seed, **more)


def finish(trial: Trial, store: Store, data: str) -> journals.Journal:
    journal = trials.finish(trial, store, data)
    assert journal.status == Status.COMPLETED, journal.outcome
    return journal


def test_an_interrupted_training_ends_with_the_same_bits(tmp_path, data):
    trial = trial_of(data)
    whole = finish(trial, Store(tmp_path / "whole"), data)
    store = Store(tmp_path / "cut")
    for _ in range(200):
        run = TrialRun(trial, store, data)
        if run.advance(0.0):  # one update
            break
        run.save()
    assert run.journal.outcome.digest == whole.outcome.digest
    assert run.journal.outcome.metrics == whole.outcome.metrics
    assert len(run.journal.attempts) > 5


def test_every_epoch_reads_every_pair_once_and_in_another_order(tmp_path, data):
    task = Training(trial_of(data), Place(Store(tmp_path), data))
    orders = []
    for epoch in range(2):
        task.reader.begin_epoch(epoch, task.model)
        orders.append(torch.cat(task.reader.batches).tolist())
    assert all(sorted(order) == list(range(40)) for order in orders)
    assert orders[0] != orders[1]
    again = Training(trial_of(data), Place(Store(tmp_path), data))
    assert torch.cat(again.reader.batches).tolist() == orders[0]


def test_parts_of_a_batch_add_up_to_its_gradient(tmp_path, data):
    values = {"regularizer": "none", "training.clip": None}
    gradients = []
    for accumulate in (1, 3):
        changes = {**values, "training.accumulate": accumulate}
        task = Training(trial_of(data, changes), Place(Store(tmp_path), data))
        task.model.double()
        task._backward(task.reader.update(0, task.model), Chance(task.streams, 0))
        gradients.append(
            {n: p.grad for n, p in task.model.named_parameters() if p.grad is not None}
        )
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, msg=name)


def test_it_keeps_what_it_wrote_and_says_how_that_was_scored(tmp_path, data):
    store = Store(tmp_path)
    journal = finish(trial_of(data, reads_test=True), store, data)
    for split in ("valid", "test"):
        assert len(sentences.read(store, journal.trial.id, split, 6)) == 6
    assert "version:" in journal.outcome.signatures["generate.bleu"]
    assert "rouge-score:" in journal.outcome.signatures["generate.rouge"]
    known = {"bleu", "bleu_tokenized", "rouge_1", "rouge_2", "rouge_l", "num_sentences"}
    assert {f"generate.test_{name}" for name in known} <= journal.outcome.metrics.keys()
    assert {metric.name for metric in journal.trial.config.metrics} >= {"nll", "generate.bleu"}


def test_several_models_write_together(tmp_path, data):
    store = Store(tmp_path)
    members = [finish(trial_of(data, seed=seed), store, data) for seed in (1, 2)]
    parents = tuple(Parent(Role.MEMBER, journal.trial.id) for journal in members)
    together = finish(trial_of(data, parents=parents, runner=EVALUATION), store, data)
    alone = [journal.outcome.metrics["valid_nll"] for journal in members]
    assert together.outcome.metrics["valid_nll"] < sum(alone) / 2  # by Jensen's inequality
    texts = sentences.read(store, together.trial.id, "valid", 6)
    assert Counter(map(type, texts)) == {str: 6}


def test_an_evaluator_of_texts_is_refused_at_once():
    with pytest.raises(CombinationError, match=r"'cache' does not read pairs .* standard"):
        resolve({**TINY, "evaluator.cache.window": 10})
    language = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd"}
    with pytest.raises(CombinationError, match=r"'generate' does not read a text"):
        resolve({**language, "evaluator.generate.beam": 2})


def test_its_tokens_are_those_of_the_targets(tmp_path, data):
    """Every token of the target has a log-probability, the first of a sentence too."""
    store, trial = Store(tmp_path), trial_of(data)
    journal = finish(trial, store, data)
    corpus = open_corpus(trial.config.corpus, data)
    log_probs = tokens.read(store, trial.id, "valid", len(corpus.stream("valid")))
    nll = -log_probs.mean()
    assert nll == pytest.approx(journal.outcome.metrics["valid_nll"], abs=1e-6)


@pytest.mark.parametrize("package", ["sacrebleu", "rouge_score"])
def test_a_missing_package_is_noticed_before_anything_trains(package, tmp_path, data, monkeypatch):
    """When the study is planned, and on another host when its trial starts."""
    found = importlib.util.find_spec
    lacks = {package: None}
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: lacks[n] if n in lacks else found(n))
    trial = trial_of(data)
    with pytest.raises(MissingDependency, match=f"needs the package {package}, which is not"):
        count_parameters(trial.config, 20, 20)
    run = TrialRun(trial, Store(tmp_path), data)
    run.advance(60)
    assert run.journal.epochs == []
    assert f"needs the package {package}" in run.journal.outcome.reason
