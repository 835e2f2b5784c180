"""The learning rates of whole trainings, whatever reads the text and however often it resumes."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ablate.config.identity import make_trial
from ablate.config.resolve import resolve
from ablate.lm.data.corpus import corpus_digest
from ablate.lm.training.training import Training
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from ablate.trial.task import Place

TINY = {
    "corpus.train_tokens": 800,
    "corpus.eval_tokens": 100,
    "embedding.size": 6,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 6,
    "head": "softmax",
    "optimizer": "adam",
    "optimizer.learning_rate": 0.5,
    "schedule": "warmup_stable_decay",
    "schedule.share": 1.0,
    "schedule.warmup": 5,
    "training.epochs": 3,
    "training.batch_size": 4,
    "training.window": 20,
}
PAIRS = {"task": "encoder_decoder", "corpus.train_pairs": 13, "corpus.eval_pairs": 4}
PAIRS |= {k: v for k, v in TINY.items() if "tokens" not in k and "window" not in k}


def trial_of(data, values):
    config = resolve(values)
    digest = corpus_digest(config.corpus, data)
    return make_trial(config, values=values, seed=1, corpus_digest=digest)


def training_of(data, values, tmp_path) -> Training:
    return Training(trial_of(data, values), Place(Store(tmp_path), data))


@pytest.mark.parametrize(
    "values",
    [
        {**TINY, "training.variable_window": True},
        {**TINY, "training.batching": "zaremba"},
        {**TINY, "training.batching": "circular", "training.updates_per_epoch": 7},
        PAIRS,
    ],
)
def test_the_updates_of_all_epochs_are_known_at_the_start(data, tmp_path: Path, values):
    task = training_of(data, values, tmp_path)
    planned, rates = list(task.rates.updates), []
    for epoch, number in enumerate(planned):
        task.reader.begin_epoch(epoch, task.model)
        assert task.reader.num_updates == number
        task.valid_history = [1.0] * epoch
        rates += [task._rate(update) for update in range(number)]
    left = len(rates) - 5
    expected = [0.5 * (n + 1) / 6 for n in range(5)] + [
        0.5 * (left - n) / left for n in range(left)
    ]
    assert rates == pytest.approx(expected)


@pytest.mark.slow
def test_a_resumed_schedule_gives_the_same_bits(data, tmp_path):
    falls = {k: v for k, v in TINY.items() if k != "schedule.share"} | {"schedule": "cosine"}
    trial, journals = trial_of(data, falls), []
    for place, stops in (("whole", ()), ("resumed", (3, 14, 21))):
        run = TrialRun(trial, Store(tmp_path / place), data)
        for number in itertools.count(1):
            if run.advance(0):
                break
            if number in stops:
                run.save()
                run = TrialRun(trial, Store(tmp_path / place), data)
        journals.append(run.journal)
    whole, resumed = journals
    assert whole.outcome == resumed.outcome
    rates = [epoch.metrics["learning_rate"] for epoch in resumed.epochs]
    assert rates == sorted(rates, reverse=True) and 0 < rates[-1] < 0.01
