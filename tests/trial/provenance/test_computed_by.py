"""A trial's record says what computed it: kernels, or torch instead of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from ablate.commands import rerun
from ablate.config.identity import Trial
from ablate.config.tasks import COUNTING
from ablate.lm.model.native import library
from ablate.store import journal as journals
from ablate.store.attempt import Attempt
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial import checkpoint
from ablate.trial.run import TrialRun
from tests.support import trials

pytestmark = pytest.mark.usefixtures("without_pages", "without_mlflow")

VALUES = {
    "corpus.name": "grammar",
    "corpus.train_tokens": 2000,
    "corpus.eval_tokens": 300,
    "embedding.size": 8,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 8,
    "head": "mos",
    "head.experts": 2,
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": 2,
    "training.batch_size": 4,
    "training.window": 20,
}
NGRAM = {"model": "ngram", "ngram.order": 2, **{k: VALUES[k] for k in VALUES if "corpus" in k}}
OFF = "torch: ABLATE_NATIVE=off"


def trial_of(data: str, values=VALUES, **more) -> Trial:
    return trials.made(values, data, **more)


def run(trial: Trial, store: Store, data: str) -> journals.Journal:
    journal = trials.finish(trial, store, data)
    assert journal.status == Status.COMPLETED, journal.outcome
    return journals.read(store, trial.id)


def begun_without_kernels(monkeypatch, trial: Trial, store: Store, data: str) -> None:
    """One window without kernels, and a checkpoint in the middle of the first epoch."""
    monkeypatch.setenv(library.SWITCH, "off")
    run = TrialRun(trial, store, data)
    run.advance(0)
    assert run.epoch is None
    run.save()
    monkeypatch.delenv(library.SWITCH)


@pytest.mark.slow
@pytest.mark.kernels
def test_the_first_trial_of_a_process_says_what_computed_it(workspace, tmp_path):
    config = tmp_path / "one.toml"
    config.write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in _nested(VALUES)))
    command = [sys.executable, "-m", "ablate", "trial", str(config)]
    command += ["--workspace", str(workspace.folder)]
    env = {k: v for k, v in os.environ.items() if k != library.SWITCH}
    subprocess.run(command, check=True, capture_output=True, timeout=120, env=env)
    (journal,) = journals.read_all(workspace.store).values()
    assert journal.attempts[0].computed_by == (f"kernels: {library.load_library()[1]}",)
    assert "kernels" not in journal.attempts[0].versions


def _nested(values):
    """With a technique's name as `slot.name`, as TOML needs it next to the slot's fields."""
    slots = {name.partition(".")[0] for name in values if "." in name}
    return [(f"{k}.name" if k in slots else k, v) for k, v in values.items()]


@pytest.mark.slow
def test_without_kernels_it_says_why(monkeypatch, tmp_path, data):
    monkeypatch.setenv(library.SWITCH, "off")
    journal = run(trial_of(data), Store(tmp_path / "off"), data)
    assert journal.attempts[0].computed_by == (OFF,)
    assert journal.computed_by == {journals.TORCH}
    monkeypatch.delenv(library.SWITCH)
    monkeypatch.setattr(library, "load_library", lambda: (None, "no C++ compiler is found"))
    journal = run(trial_of(data), Store(tmp_path / "none"), data)
    assert journal.attempts[0].computed_by == ("torch: no C++ compiler is found",)


@pytest.mark.kernels
def test_a_trial_resumed_under_another_setting_shows_both(monkeypatch, tmp_path, data):
    trial, store = trial_of(data), Store(tmp_path)
    begun_without_kernels(monkeypatch, trial, store, data)
    first, second = run(trial, store, data).attempts
    assert first.computed_by == (OFF,)
    assert second.computed_by == (OFF, f"kernels: {library.load_library()[1]}")
    assert journals.read(store, trial.id).computed_by == {journals.TORCH, journals.KERNELS}


@pytest.mark.kernels
def test_work_that_was_lost_is_not_what_computed_it(monkeypatch, tmp_path, data):
    trial, store = trial_of(data), Store(tmp_path)
    begun_without_kernels(monkeypatch, trial, store, data)
    store.delete(checkpoint.last_key(trial.id))
    first, second = run(trial, store, data).attempts
    assert first.computed_by == (OFF,)
    assert second.computed_by == (f"kernels: {library.load_library()[1]}",)


@pytest.mark.kernels
def test_a_checkpoint_that_does_not_say_leaves_it_unknown(tmp_path, data):
    trial, store = trial_of(data), Store(tmp_path)
    trial_run = TrialRun(trial, store, data)
    trial_run.advance(0)
    trial_run.save()
    tensors, plain = checkpoint.read(store, checkpoint.last_key(trial.id))
    del plain["computed_by"]
    checkpoint.write(store, checkpoint.last_key(trial.id), tensors, plain)
    assert run(trial, store, data).computed_by == {journals.UNKNOWN, journals.KERNELS}


@pytest.mark.parametrize(("dtype", "device"), [(torch.float64, "cpu"), (torch.float32, "meta")])
def test_what_kernels_cannot_compute_says_nothing(monkeypatch, dtype, device):
    """Double precision, and whatever is not in main memory, as on a GPU."""
    before = library.uses()
    assert not library.usable(torch.zeros(1, dtype=dtype, device=device))
    monkeypatch.setenv(library.SWITCH, "off")
    assert not library.usable(torch.zeros(1, dtype=dtype, device=device))
    assert library.computed_by(before) == []


@pytest.mark.parametrize(
    ("way", "remedy"),
    [
        (OFF, "ABLATE_NATIVE=off"),
    ],
)
def test_a_rerun_names_the_switch_of_its_record(data, way, remedy):
    journal = journals.Journal(trial_of(data), attempts=[Attempt(computed_by=(way,))])
    assert f": {remedy} ablate trial rerun" in rerun._remedy(journal)


def test_an_ngram_model_has_nothing_for_kernels(tmp_path, data):
    journal = run(trial_of(data, NGRAM, runner=COUNTING), Store(tmp_path), data)
    assert journal.attempts[0].computed_by == ()
    assert journal.computed_by == frozenset()


@pytest.mark.slow
@pytest.mark.kernels
def test_rerun_says_whether_the_kernels_differ(monkeypatch, workspace, capsys):
    trial = trial_of(workspace.data)
    run(trial, workspace.store, workspace.data)
    journal = journals.read(workspace.store, trial.id)
    assert rerun.rerun_trial(trial.id, workspace) == 0
    capsys.readouterr()

    monkeypatch.setenv(library.SWITCH, "off")
    assert rerun.rerun_trial(trial.id, workspace) == 1
    output = capsys.readouterr().out
    assert f"recorded with kernels: {library.load_library()[1]}; now with {OFF}." in output
    assert "more than a perplexity point" in output
    assert "To repeat it as it was recorded: unset ABLATE_NATIVE=off" in output

    journal.note(computed_by=(OFF,))
    journal.outcome = replace(journal.outcome, digest="another")
    journal.write(workspace.store)
    assert rerun.rerun_trial(trial.id, workspace) == 1
    assert f"kernels: the same as in the record ({OFF})" in capsys.readouterr().out

    journal.note(computed_by=None)
    journal.write(workspace.store)
    assert rerun.rerun_trial(trial.id, workspace) == 1
    output = capsys.readouterr().out
    assert "whether kernels or torch computed the record is unknown" in output
