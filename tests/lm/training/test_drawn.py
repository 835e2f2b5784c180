"""What users' modules draw from the global generators: weights are refused, masks repeat."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from ablate.config import registry
from ablate.config.fields import setting
from ablate.config.identity import Trial
from ablate.config.registry import register
from ablate.lm.model.slots import Backbone
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from tests.support import trials

TINY = {
    "corpus.train_tokens": 1200,
    "corpus.eval_tokens": 300,
    "embedding.size": 8,
    "backbone": "own",
    "head": "softmax",
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": 2,
    "training.batch_size": 4,
    "training.window": 20,
}


@dataclass(frozen=True, kw_only=True)
class OwnConfig:
    weights: str = setting("drawn", doc="where they come from")


class Own(Backbone):
    """PyTorch's own layers, its weights drawn over, forgotten, or never written."""

    def __init__(self, config: OwnConfig, shapes) -> None:
        super().__init__()
        self.config, self.widths = config, (8,)
        self.cell = nn.RNN(shapes.embedding, 8)
        self.norm = nn.LayerNorm(8)
        self.dropout = nn.Dropout(0.3)
        if config.weights == "unwritten":
            self.scale = nn.Parameter(torch.empty(8))
        if config.weights == "buffer":
            self.register_buffer("scale", torch.rand(8), persistent=False)
        if config.weights == "numpy":
            self.scale = nn.Parameter(torch.tensor(np.random.rand(8), dtype=torch.float32))

    def initial_state(self, rows):
        return (self.norm.weight.new_zeros(1, rows, 8),)

    def forward(self, inputs_TBE, ids_TB, state, masks):
        raw, after = self.cell(inputs_TBE, state[0])
        if self.training and self.config.weights == "other":
            raw = raw * (1 + random.random() + np.random.rand())
        masked = self.dropout(self.norm(raw))
        return (raw,), (masked,), (after,)

    def initialize(self, draw):
        if self.config.weights == "forgotten":
            return
        for name, weight in self.cell.named_parameters():
            if self.config.weights == "global":
                nn.init.orthogonal_(weight) if weight.dim() == 2 else nn.init.zeros_(weight)
            else:
                weight.data.uniform_(-0.1, 0.1, generator=draw(f"cell.{name}"))


@pytest.fixture(autouse=True)
def own() -> Iterator[None]:
    register("backbone", "own", config=OwnConfig)(Own)
    yield
    del registry._techniques["backbone", "own"]


def trial_of(data: str, weights: str, **changes) -> Trial:
    return trials.made({**TINY, "backbone.weights": weights, **changes}, data)


def ended(trial: Trial, store: Store, data: str, stop: int | None = None) -> journals.Journal:
    """Run the trial to its end; after `stop` windows it is saved, and resumed elsewhere."""
    run = TrialRun(trial, store, data)
    for number in range(1000):
        if run.advance(0):
            return run.journal
        if number == stop:
            run.save()
            disturb()
            run = TrialRun(trial, store, data)
    raise RuntimeError


def disturb() -> None:
    """Whatever else a process may have drawn."""
    for draw in (random.random, np.random.rand, lambda: torch.rand(3)):
        draw()


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ("forgotten", "backbone.cell.weight_ih_l0 (and 3 more)"),
        ("global", "backbone.cell.weight_ih_l0 (and 1 more)"),
        ("unwritten", "backbone.scale"),
        ("buffer", "backbone.scale"),
        ("numpy", "backbone.scale"),
    ],
)
def test_a_parameter_that_nobody_drew_is_refused_by_name(tmp_path, data, weights, named):
    outcome = ended(trial_of(data, weights), Store(tmp_path), data).outcome
    assert outcome.status == Status.FAILED
    expected = f"backbone 'own': {named} was not drawn from the trial's streams"
    assert outcome.reason.startswith(expected)
    name = named.split()[0].removeprefix("backbone.")
    assert f'self.{name}.data.uniform_(-0.1, 0.1, generator=draw("{name}"))' in outcome.reason


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["drawn", "other"])
@pytest.mark.parametrize("stop", [0, 5, 20])
def test_what_asks_a_global_generator_repeats_and_goes_on(tmp_path, data, weights, stop):
    trial = trial_of(data, weights)
    first = ended(trial, Store(tmp_path / "a"), data).outcome
    assert first.status == Status.COMPLETED, first
    disturb()
    assert ended(trial, Store(tmp_path / "b"), data, stop).outcome == first


def test_dropout_of_a_users_module_does_something(tmp_path, data):
    """Or the test above would say nothing."""
    trial = trial_of(data, "drawn")
    dropped = ended(trial, Store(tmp_path / "a"), data).outcome
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Dropout, "forward", lambda self, x: x)
        assert ended(trial, Store(tmp_path / "b"), data).outcome.digest != dropped.digest
