"""A batch of models: each seed trains as it does by itself."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ablate.config import registry
from ablate.model.masks import Masks
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from ablate.trial.seed_runs import SeedRuns
from ablate.trial.task import Place
from ablate.trial.training.together import Alone, Together
from ablate.trial.training.training import Training
from tests.contracts.test_combinations import values_of
from tests.support import trials

SMALL = {
    "corpus.name": "grammar",
    "corpus.train_tokens": 200,
    "corpus.eval_tokens": 100,
    "embedding.size": 8,
    "backbone.num_layers": 1,
    "backbone.units": 8,
    "head": "softmax",
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": 1,
    "training.batch_size": 2,
    "training.window": 4,
    "training.clip": 0.25,
    "regularizer.dropout.input": 0.2,
}
LSTM = {**SMALL, "backbone": "lstm"}
AWD = {
    **LSTM,
    "head": "mos",
    "head.experts": 2,
    "regularizer.weight_drop.rate": 0.3,
    "regularizer.l2.everything": 1e-3,
    "regularizer.variational_dropout.latent": 0.2,
    "regularizer.activation_regularization.alpha": 2.0,
}
TRANSFORMER = {
    **SMALL,
    "backbone": "transformer",
    "backbone.heads": 2,
    "backbone.dropout": 0.2,
    "optimizer": "adam",
    "optimizer.learning_rate": 0.003,
    "head.tied": True,
}
INAN = {
    **LSTM,
    "head.tied": True,
    "head.bias": False,
    "loss": "augmented",
    "regularizer.variational_dropout.recurrent": 0.2,
}
SEEDS = (1, 2, 3)


def trainings(values: dict[str, Any], folder, data: str) -> list[Training]:
    place = Place(Store(folder), data)
    return [Training(trials.made(values, data, seed=seed), place) for seed in SEEDS]


def in_double(training: Training) -> Training:
    training.model.double()
    training.reader.begin_epoch(0, training.model)
    return training


def runs(values: dict[str, Any], store: Store, data: str) -> list[TrialRun]:
    return [TrialRun(trials.made(values, data, seed=seed), store, data) for seed in SEEDS]


def finish(seeds: SeedRuns, seconds: float = 60) -> None:
    while seeds.runs:
        seeds.advance(seconds)


def farthest(ours: Training, theirs: Training) -> float:
    pairs = zip(ours.model.parameters(), theirs.model.parameters(), strict=True)
    return max((one - other).abs().max().item() for one, other in pairs)


@pytest.mark.parametrize(
    ("values", "double"),
    [(AWD, False), (AWD, True), (TRANSFORMER, True), (INAN, False), (INAN, True)],
    ids=["awd", "awd in double", "transformer in double", "augmented", "augmented in double"],
)
def test_fifty_updates_of_a_batch_are_those_of_each_seed_by_itself(tmp_path, data, values, double):
    values = {**values, "corpus.train_tokens": 420}
    alone, batch = (trainings(values, tmp_path, data) for _ in range(2))
    if double:
        alone, batch = ([in_double(each) for each in many] for many in (alone, batch))
    Together().advance(batch, math.inf)
    for ours, theirs in zip(batch, alone, strict=True):
        while theirs.done_updates < theirs.reader.num_updates:
            theirs._train(theirs.next_update())
        assert ours.done_updates == theirs.done_updates >= 50
        assert farthest(ours, theirs) < (1e-12 if double else 3e-6)  # ten times what was measured
        close = 1e-13 if double else 1e-7
        assert ours.nll_sum.item() == pytest.approx(theirs.nll_sum.item(), rel=close)
        assert ours.without_effect == theirs.without_effect
        assert ours.computed_by == ["torch: one batch of 3 seeds"]
    assert farthest(batch[0], batch[1]) > 0.01


@pytest.mark.parametrize("backbone", sorted({*registry.names("backbone")} - {"skipping_rnn"}))
def test_every_other_backbone_is_trained_in_a_batch(tmp_path, data, backbone):
    """Gradients, those of a penalty on each group of parameters too, are those of a seed alone."""
    chosen = {"backbone": backbone, "head": "softmax", "regularizer": "l2", "optimizer": "sgd"}
    values = values_of(chosen)
    batch = trainings(values, tmp_path, data)
    Together().advance(batch, 0)
    assert [each.done_updates for each in batch] == [1, 1, 1]


def test_a_seed_that_diverges_leaves_the_others_as_they_are(tmp_path, data):
    undisturbed, disturbed = (
        SeedRuns(runs({**LSTM, "training.clip": 0.0}, Store(tmp_path / name), data))
        for name in ("one", "other")
    )
    journals = [[run.journal for run in seeds.runs.values()] for seeds in (undisturbed, disturbed)]
    second = list(disturbed.runs.values())[1].task
    second._rate = lambda update: 3e38
    for seeds in (undisturbed, disturbed):
        finish(seeds, 0)  # a slice is one update
    assert [journal.status for journal in journals[1]] == [
        Status.COMPLETED,
        Status.DIVERGED,
        Status.COMPLETED,
    ]
    for ours, theirs in zip(journals[1][::2], journals[0][::2], strict=True):
        assert ours.outcome.metrics == pytest.approx(theirs.outcome.metrics, rel=1e-5)
        assert ours.last_attempt.computed_by[-1] == "torch: one batch of 2 seeds"


def test_a_batch_that_is_killed_resumes(tmp_path, data):
    undisturbed, store = SeedRuns(runs(AWD, Store(tmp_path / "one"), data)), Store(tmp_path / "b")
    expected = [run.journal for run in undisturbed.runs.values()]
    finish(undisturbed)
    killed = SeedRuns(runs(AWD, store, data))
    for _ in range(3):
        killed.advance(0)
    next(iter(killed.runs.values())).save()  # the others lose what they have learnt
    again = runs(AWD, store, data)
    assert [run.task.done_updates for run in again] == [3, 0, 0]
    finish(SeedRuns(again))
    for run, journal in zip(again, expected, strict=True):
        assert run.journal.outcome.metrics == pytest.approx(journal.outcome.metrics, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"training.variable_window": True}, "lengths of windows of its own"),
        ({"loss": "nce"}, "'nce' is drawn by a generator of its own"),
    ],
)
def test_what_cannot_be_a_batch_trains_by_itself_to_the_same_bits(tmp_path, data, changes, why):
    seeds = SeedRuns(runs({**LSTM, **changes}, Store(tmp_path / "together"), data))
    run = next(iter(seeds.runs.values()))
    while run.trial.id in seeds.runs:
        seeds.advance(60)
    assert why in str(seeds.alone)
    assert len(seeds.runs) == 2  # one after another
    alone = trials.finish(run.trial, Store(tmp_path / "alone"), data)
    assert run.journal.outcome == alone.outcome
    assert not any("batch" in way for way in run.journal.last_attempt.computed_by)


def test_a_part_that_computes_something_else_in_a_batch_is_found(tmp_path, data, monkeypatch):
    batch = trainings(TRANSFORMER, tmp_path, data)
    plain = Masks.__call__

    def of_the_first_seed(self, site, x_TBH):
        x_TBH = plain(self, site, x_TBH)
        return x_TBH * 1.1 if hasattr(self.chance, "own") else x_TBH

    monkeypatch.setattr(Masks, "__call__", of_the_first_seed)
    before = [parameter.clone() for parameter in batch[0].model.parameters()]
    with pytest.raises(Alone, match="has another gradient"):
        Together().advance(batch, 0)
    assert all(map(torch.equal, before, batch[0].model.parameters()))
    assert batch[0].done_updates == 0
