"""An evaluation pauses between its pieces, is saved and resumed, with the same bits at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ablate.config.identity import Parent, Trial, make_trial
from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.lm.components.evaluator.monte_carlo import MonteCarlo
from ablate.lm.components.evaluator.standard import Standard
from ablate.lm.data.corpus import corpus_digest
from ablate.lm.training import evaluation
from ablate.lm.training.evaluation import Evaluation
from ablate.lm.training.pieces import Paused, SavedPieces
from ablate.lm.training.training import Training
from ablate.store import journal as journals
from ablate.store.store import Store
from ablate.trial import checkpoint
from ablate.trial.run import TrialRun
from ablate.trial.task import Place
from tests.lm.training.test_judging import SMALL

SAMPLES = 3
VALUES = {
    **SMALL,
    "evaluator": "standard",
    "evaluator.monte_carlo.samples": SAMPLES,
    "evaluator.dynamic.gradient_batch_size": 5,
    "evaluator.interpolated.of": "dynamic",
    "evaluator.interpolated.order": 2,
}


@dataclass
class Judged:
    """A trial that judges a trained model, and its place."""

    trial: Trial
    place: Place
    drawn: list[float] = field(default_factory=list)

    def run(self) -> TrialRun:
        return TrialRun(self.trial, self.place.store, self.place.data)


@pytest.fixture
def judged(tmp_path, data, monkeypatch):
    """It draws from the global generator too, as an evaluator of a user's might."""
    place, metrics = Place(Store(str(tmp_path)), data), Standard.metrics
    digest = corpus_digest(resolve(VALUES).corpus, data)
    trained = make_trial(resolve(VALUES), values=VALUES, seed=1, corpus_digest=digest)
    checkpoint.write_weights(place.store, trained, Training(trained, place).conclude().weights)
    parents = (Parent("member", trained.id),)
    trial = make_trial(
        resolve(VALUES),
        values=VALUES,
        seed=1,
        corpus_digest=digest,
        parents=parents,
        runner="evaluation",
    )
    judged = Judged(trial, place)

    def with_a_draw(self, reading, name, split):
        judged.drawn.append(torch.rand(()).item())
        return {**metrics(self, reading, name, split), "drawn": judged.drawn[-1]}

    monkeypatch.setattr(Standard, "metrics", with_a_draw)
    return judged


def same(first, second) -> None:
    assert first.metrics == second.metrics
    assert first.digest == second.digest
    assert first.token_log_probs.keys() == second.token_log_probs.keys() == {"valid", "test"}
    for split, log_probs in first.token_log_probs.items():
        np.testing.assert_array_equal(log_probs, second.token_log_probs[split])


def in_slices(task: Evaluation) -> int:
    """Work until the end, in the shortest slices there are."""
    slices = 0
    while not task.finished:
        task.advance(-1)
        slices += 1
    return slices


def test_in_slices_it_finds_what_it_finds_at_once(judged):
    sliced = Evaluation(judged.trial, judged.place)
    num_pieces = 2 * (4 + SAMPLES) + 2 * 4  # log-probabilities and samples; and metrics
    assert in_slices(sliced) == num_pieces + 1
    same(sliced.conclude(), Evaluation(judged.trial, judged.place).conclude())
    assert len(set(judged.drawn)) == 2, "of valid and test"


def test_saved_and_resumed_after_every_piece_it_ends_with_the_same_bits(judged):
    whole = Evaluation(judged.trial, judged.place).conclude()
    task, key = Evaluation(judged.trial, judged.place), "saved"
    while not task.finished:
        checkpoint.write(judged.place.store, key, *task.saved())
        saved = checkpoint.read(judged.place.store, key)
        assert saved is not None
        task = Evaluation(judged.trial, judged.place)
        task.restore(*saved)
        task.advance(-1)
    same(task.conclude(), whole)


def test_a_killed_trial_takes_no_sample_twice(judged, monkeypatch):
    taken, one_model = [], MonteCarlo._one_model

    def counted(self, reading, index, split):
        folded = reading.pieces.folded

        def counting(key, num_steps, step):
            def counted_step(number, value):
                taken.append((key, number))
                return step(number, value)

            return folded(key, num_steps, counted_step)

        with monkeypatch.context() as patch:
            patch.setattr(reading.pieces, "folded", counting)
            return one_model(self, reading, index, split)

    monkeypatch.setattr(MonteCarlo, "_one_model", counted)
    whole = Evaluation(judged.trial, judged.place).conclude()
    expected, taken[:] = list(taken), []
    running = judged.run()
    while len(taken) < SAMPLES - 1:
        assert not running.advance(-1)
    running.save()
    running = judged.run()  # the other is gone
    assert journals.read(judged.place.store, judged.trial.id).outcome is None
    while not running.advance(-1):
        pass
    assert taken == expected and len(expected) == 2 * SAMPLES
    outcome = journals.read(judged.place.store, judged.trial.id).outcome
    assert outcome.metrics == whole.metrics and outcome.digest == whole.digest
    assert checkpoint.read(judged.place.store, checkpoint.last_key(judged.trial.id)) is None


def test_it_says_how_long_it_took_in_all_its_attempts(judged, monkeypatch):
    ticks = count()
    monkeypatch.setattr(evaluation, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    assert Evaluation(judged.trial, judged.place).conclude().seconds == 1
    slices, running = 1, judged.run()
    while not running.advance(-1):
        slices += 1
        if slices == 5:
            running.save()
            running = judged.run()
    assert slices > 10
    assert journals.read(judged.place.store, judged.trial.id).outcome.seconds == slices


def test_it_pauses_after_a_piece_and_only_when_the_time_is_up():
    pieces = SavedPieces(Streams(1))
    pieces.pause_after(60)
    assert pieces.folded("quick", 2, lambda number, value: number) == 1
    pieces.pause_after(-1)
    with pytest.raises(Paused):
        pieces.folded("slow", 2, lambda number, value: number)
    assert pieces.so_far["slow"] == (1, 0)
    pieces.pause_after(60)
    assert pieces.folded("slow", 2, lambda number, value: 10 * number) == 10
