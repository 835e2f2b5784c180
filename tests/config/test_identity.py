"""A trial knows its config, its name and what runs it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ablate.config import identity
from ablate.config.identity import Trial, make_trial
from ablate.config.resolve import resolve
from ablate.config.tasks import COUNTING, TRAINING

NEURAL = {
    "corpus.name": "grammar",
    "backbone": "lstm",
    "backbone.units": 8,
    "head": "softmax",
    "optimizer": "sgd",
}
NGRAM = {"model": "ngram", "corpus.name": "grammar", "ngram.order": 2}


def trial_of(values, **more) -> Trial:
    return make_trial(resolve(values), values=values, seed=2, corpus_digest="c0", **more)


def test_its_values_are_resolved_once(monkeypatch):
    trial = Trial.from_plain(json.loads(json.dumps(trial_of(NEURAL).to_plain())))
    calls = []
    monkeypatch.setattr(identity, "resolve", lambda values: calls.append(1) or resolve(values))
    assert trial.config is trial.config
    assert trial.config.identity == resolve(NEURAL).identity
    assert calls == [1]


def test_its_config_is_neither_stored_nor_copied():
    trial = trial_of(NEURAL)
    assert "config" not in trial.to_plain()
    changed = replace(trial, values={**NEURAL, "backbone.units": 9})
    assert changed.config["backbone"].config.units != trial.config["backbone"].config.units


@pytest.mark.parametrize(
    ("values", "more", "runner"),
    [(NEURAL, {}, TRAINING), (NGRAM, {}, COUNTING), (NGRAM, {"runner": "stand_in"}, "stand_in")],
)
def test_its_model_says_what_runs_it(values, more, runner):
    assert trial_of(values, **more).runner == runner


def test_its_name_leaves_out_the_stage_that_every_trial_has():
    assert trial_of(NEURAL, arm="doc").name == "doc seed 2"
    assert trial_of(NEURAL, arm="doc", stage="finetune").name == "doc finetune seed 2"
    unnamed = trial_of(NEURAL)
    assert unnamed.name == unnamed.id
