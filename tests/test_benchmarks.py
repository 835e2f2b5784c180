"""Whole studies are timed against other tools' only if both sides are one training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ablate.engine import drive
from ablate.tune import local
from benchmarks import cluster, same_training, studies, text
from benchmarks.cluster import NOTING

SETTING = {**studies.SETTING, "epochs": 1, "train_tokens": 6_000, "batch_size": 4, "window": 10}


@pytest.fixture
def alike(tmp_path: Path, monkeypatch):
    """Compare the sides on a small random text."""
    monkeypatch.setattr(text, "_ptb", lambda: None)
    monkeypatch.setattr(text, "NUM_WORDS", 300)
    monkeypatch.setattr(text, "LINES", {"train": 300, "valid": 30, "test": 30})
    corpus = text.corpus_name(tmp_path)
    setting = {**SETTING, "paths": studies.text_files(tmp_path, corpus)}
    return lambda: same_training.train_alike(setting, studies.ARMS, corpus, tmp_path)


@pytest.mark.slow
def test_both_sides_are_one_training_but_for_what_is_drawn(alike):
    alike()


def test_another_training_is_noticed(alike, monkeypatch):
    ours = same_training.values_of
    other = {"regularizer.weight_drop.rate": 0.5}
    monkeypatch.setattr(same_training, "values_of", lambda given: {**ours(given), **other})
    with pytest.raises(SystemExit, match="arm 4,0,0,0: losses"):
        alike()


def run_of(mean: float, spread: float, trials: int = 8) -> studies.Run:
    return studies.Run(1.0, 1.0, 0.0, mean, spread, trials)


@pytest.mark.parametrize(
    ("mean", "spread", "same"),
    [
        (6.80, 0.02, True),
        (6.94, 0.26, True),  # one of eight trials ended at 7.5, as some of either side do
        (6.94, 0.02, False),  # more than 2%, and all trials say so
        (6.85, 0.02, False),
        (float("nan"), 0.02, False),
    ],
)
def test_mean_losses_agree_as_far_as_their_spread_allows(mean, spread, same):
    assert studies.means_agree(run_of(mean, spread), run_of(6.80, 0.02)) is same


def test_the_cluster_benchmark_orders_workers_that_note_their_calls(monkeypatch):
    """It replaces a function of the engine, which may move."""
    orders = []
    trial = SimpleNamespace(to_plain=lambda: {"seed": 1})
    plan = SimpleNamespace(scale_name="s", scale=SimpleNamespace(gpus=0))
    monkeypatch.setattr(local, "run", lambda schedule, order: orders.append(order(trial)))
    monkeypatch.setattr(drive, "_order", drive._order)  # put back afterwards
    cluster.order_workers_that_note()
    workspace = SimpleNamespace(store=SimpleNamespace(uri="s"), data="d")
    schedule = SimpleNamespace(exhausted=False, plan=plan)
    drive.drive(schedule, workspace, drive.RunOptions(local=True))
    assert [(order["trial"], order["worker"]) for order in orders] == [({"seed": 1}, NOTING)]
