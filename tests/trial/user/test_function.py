"""Functions of the user's as trials: what they may give, how they resume, what is refused."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import nn

from ablate.config import tasks
from ablate.config.fields import setting
from ablate.config.identity import make_trial
from ablate.config.metrics import Metric
from ablate.config.resolve import resolve, resolve_near
from ablate.config.tasks import task
from ablate.record.artifacts import config_toml
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from ablate.trial.travel import receive_files, send_files

ACCURACY = Metric("accuracy", better="higher")


@dataclass(frozen=True, kw_only=True)
class LineConfig:
    rate: float = setting(0.1, doc="learning rate", low=0)
    epochs: int = setting(4, doc="passes", low=1)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_WORKSPACE", str(tmp_path / "host"))
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    return Store(str(tmp_path / "store"))


def begin(function, store, *, seed=1, reads_test=True, metrics=ACCURACY):
    """Return a trial that runs the function."""
    task("line", config=LineConfig, metrics=metrics)(function)
    values = {"task": "line"}
    trial = make_trial(
        resolve(values), values=values, seed=seed, corpus_digest="", reads_test=reads_test
    )
    return TrialRun(trial, store, "data")


def run_trial(function, store, *, seed=1, reads_test=True, metrics=ACCURACY, cut_after=None):
    """Run the function as a trial; return its journal. `cut_after`: epochs before it is killed."""
    run = begin(function, store, seed=seed, reads_test=reads_test, metrics=metrics)
    while not run.advance(seconds=1):
        if cut_after is not None and len(run.journal.epochs) == cut_after:
            run.save()
            return run_trial(function, store, seed=seed, reads_test=reads_test, metrics=metrics)
    return run.journal


def fit_line(run):
    """Fit a line by Adam, with noise from the global generator and shuffling from another."""
    model = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=run.config.rate)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    inputs = torch.randn(32, 2, generator=run.streams.generator("inputs"))
    targets = inputs.sum(dim=1, keepdim=True)
    for _ in run.epochs(model, optimizer, schedule, total=run.config.epochs):
        rows = torch.randperm(32)
        loss = (model(inputs[rows] + 0.1 * torch.randn(32, 2)) - targets[rows]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        yield {"train_loss": loss, "valid_accuracy": 1 / (1 + loss.item())}
    return {"test_accuracy": 0.5}


def no_epochs_saved(run):
    for epoch in range(3):
        yield {"valid_accuracy": epoch / 4}
    return {"test_accuracy": 0.5}


def test_a_killed_function_ends_with_the_same_bits(store, tmp_path):
    whole = run_trial(fit_line, store)
    cut = run_trial(fit_line, Store(str(tmp_path / "other")), cut_after=2)
    assert whole.outcome.status == Status.COMPLETED, whole.outcome.frames
    assert cut.outcome == whole.outcome
    assert len(cut.attempts) == 2 and cut.attempts[1].from_epoch == 2
    assert cut.num_repeated == 0
    results = [[replace(epoch, seconds=0) for epoch in each.epochs] for each in (whole, cut)]
    assert results[0] == results[1]


def test_what_a_function_concludes(store):
    journal = run_trial(fit_line, store)
    outcome = journal.outcome
    assert outcome.metrics["test_accuracy"] == 0.5
    assert outcome.metrics["valid_accuracy"] == journal.epochs[-1].metrics["valid_accuracy"]
    assert outcome.num_parameters == 2 * 8 + 8 + 8 + 1
    assert [epoch.number for epoch in journal.epochs] == [1, 2, 3, 4]
    assert run_trial(fit_line, store, seed=2).outcome.digest != outcome.digest


def test_a_function_that_saves_nothing_starts_again(store):
    journal = run_trial(no_epochs_saved, store, cut_after=2)
    assert journal.outcome.status == Status.COMPLETED
    assert journal.attempts[1].from_epoch == 0
    assert journal.num_repeated == 2
    assert [epoch.metrics["valid_accuracy"] for epoch in journal.epochs] == [0, 0.25, 0.5]


def test_a_function_without_epochs(store):
    journal = run_trial(lambda run: {"valid_accuracy": 0.4, "test_accuracy": 0.5}, store)
    assert journal.outcome.metrics == {"valid_accuracy": 0.4, "test_accuracy": 0.5}
    assert journal.epochs == []


def test_a_trial_of_a_search_does_not_learn_what_test_says(store):
    journal = run_trial(fit_line, store, reads_test=False)
    assert "test_accuracy" not in journal.outcome.metrics


def wrong_yield(run):
    yield 0.5


def wrong_number(run):
    yield {"valid_accuracy": "high"}


def wrong_name(run):
    yield {"valid_acuracy": 0.5}
    return {"test_acuracy": 0.5}


def no_test(run):
    yield {"valid_accuracy": 0.5}


def nothing(run):
    if run is None:
        yield {}


def not_a_share(run):
    yield {"valid_accuracy": 1.5}


def raises(run):
    yield {"valid_accuracy": 0.5}
    raise ValueError("no such layer")


def code_after_the_yield(run):
    for _ in run.epochs(nn.Linear(1, 1), total=2):
        yield {"valid_accuracy": 0.5}
        print("a schedule's step")


def code_after_a_yield_in_a_block(run):
    for _ in run.epochs(nn.Linear(1, 1), total=2):
        with torch.no_grad():
            yield {"valid_accuracy": 0.5}
            print("a schedule's step")


def yields_in_blocks(run):
    for epoch in run.epochs(nn.Linear(1, 1), total=3):
        with torch.no_grad():
            try:
                if epoch:
                    yield {"valid_accuracy": 0.5}
            finally:
                pass
    return {"test_accuracy": 0.5}


def saves_a_list(run):
    for _ in run.epochs([1], total=2):
        yield {"valid_accuracy": 0.5}


def saves_an_object(run):
    for _ in run.epochs(object(), total=2):
        yield {"valid_accuracy": 0.5}


def twice(run):
    for _ in run.epochs(nn.Linear(1, 1), total=1):
        yield {"valid_accuracy": 0.5}
    for _ in run.epochs(nn.Linear(1, 1), total=1):
        yield {"valid_accuracy": 0.5}


SHARE = Metric("accuracy", better="higher", scale="logit")
HERE = r"test_function\.py:\d+: "


@pytest.mark.parametrize(
    "function, message",
    [
        (wrong_yield, HERE + "the task's function yielded 0.5, which is not a mapping"),
        (wrong_number, HERE + "the task yielded valid_accuracy = 'high'"),
        (wrong_name, HERE + "the task's function ended without 'valid_accuracy'. Given: valid_acu"),
        (wrong_name, r"'valid_acuracy' may be misspelt\. Expected: {.valid_accuracy.: 0\.9}\."),
        (no_test, r"Given: valid_accuracy\. Expected"),
        (no_test, HERE + "the task's function ended without 'test_accuracy'"),
        (nothing, HERE + "the task's function never yielded, and ended without 'valid_accuracy'"),
        (not_a_share, HERE + "accuracy = 1.5 is not a share between 0 and 1"),
        (code_after_the_yield, HERE + "this follows the yield of an epoch"),
        (code_after_a_yield_in_a_block, HERE + "this follows the yield of an epoch"),
        (saves_a_list, r"cannot save a list\."),
        (saves_an_object, r"cannot save an object\."),
        (twice, "called twice"),
    ],
)
def test_what_is_refused(store, function, message):
    outcome = run_trial(function, store, metrics=SHARE).outcome
    assert outcome.status == Status.FAILED
    assert re.search(message, outcome.reason), outcome.reason


def test_the_last_yield_of_a_loop_may_be_inside_a_block(store):
    journal = run_trial(yields_in_blocks, store)
    assert journal.outcome.status == Status.COMPLETED, journal.outcome
    assert len(journal.epochs) == 3


def test_an_exception_shows_the_users_line(store):
    outcome = run_trial(raises, store).outcome
    assert outcome.status == Status.FAILED
    assert outcome.reason == "ValueError: no such layer"
    assert "test_function.py" in outcome.frames and 'raise ValueError("no such' in outcome.frames


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    words: str = setting("words.txt", doc="one word a line", file=True)


def test_a_function_reads_its_file_where_it_is_on_this_host(store, tmp_path):
    def share(run):
        found = len(Path(run.config.words).read_text().split())
        return {"valid_accuracy": found / 10, "test_accuracy": found / 10}

    task("share", config=WordsConfig, metrics=ACCURACY)(share)
    (tmp_path / "words.txt").write_text("one two")
    config = resolve_near({"task": "share"}, tmp_path, "study.py")
    values = {"task": "share", **config.files}
    trial = make_trial(config, values=values, seed=1, corpus_digest="")

    parcel = send_files(config.files.values(), store)
    (tmp_path / "words.txt").unlink()  # as on another host
    run = TrialRun(trial, store, "data", receive_files(parcel, store))
    assert run.advance(1)
    assert run.journal.outcome.metrics["valid_accuracy"] == 0.2, run.journal.outcome
    assert run.journal.config["share.words"] == str(tmp_path / "words.txt")
    assert len(run.journal.config["share.words contents"]) == 16

    (tmp_path / "words.txt").write_text("one two three")
    edited = TrialRun(trial, Store(str(tmp_path / "again")), "data").journal.outcome
    assert edited.status == Status.FAILED
    assert "words.txt changed after this trial was planned" in edited.reason


def test_what_cannot_change_a_result_is_recorded_as_such(store):
    @dataclass(frozen=True, kw_only=True)
    class Config:
        workers: int = setting(1, doc="processes that load", identity=False)
        rate: float = setting(0.1, doc="learning rate")

    task("loads", config=Config, metrics=ACCURACY, version=2)(no_epochs_saved)
    values = {"task": "loads"}
    trial = make_trial(resolve(values), values=values, seed=1, corpus_digest="")
    journal = TrialRun(trial, store, "data").journal
    assert journal.last_attempt.neutral == ("loads.workers",)
    assert journal.config["task version"] == 2
    assert "# task version: 2" in config_toml(journal)


def test_a_number_that_is_none_diverges(store):
    def diverges(run):
        yield {"valid_accuracy": float("nan")}

    outcome = run_trial(diverges, store).outcome
    assert outcome.status == Status.DIVERGED
    assert (
        outcome.reason.endswith("valid_accuracy became nan") and "test_function" in outcome.reason
    )


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "\udcff", "two\nlines", 7, "epoch"])
def test_a_number_without_a_usable_name_is_refused(store, name):
    def unnamed(run):
        for _ in run.epochs(total=1):
            yield {"valid_accuracy": 0.5, "test_accuracy": 0.5, name: 1.0}

    outcome = run_trial(unnamed, store).outcome
    assert outcome is not None and outcome.status == "failed"
    assert f"{name!r} cannot name a number of a task" in outcome.reason


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Stop(BaseException):
    """Nobody's but the user's."""


@pytest.mark.parametrize(
    "error, reason",
    [
        (Mute(), "Mute: (its text cannot be shown: str() of it raised RuntimeError)"),
        (Stop("here"), "Stop: here"),
        (GeneratorExit("here"), "GeneratorExit: here"),
        (SystemExit(3), "SystemExit: 3"),
        (BaseExceptionGroup("two", [Stop(), ValueError()]), "BaseExceptionGroup: two (2 sub-ex"),
        (ValueError("caf\udce9"), "ValueError: caf\\udce9"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("epochs", [0, 1])
def test_whatever_a_function_raises_is_its_failure(store, error, reason, epochs):
    def function(run):
        for _ in range(epochs):
            yield {"valid_accuracy": 0.5}
        raise error

    run_trial(function, store)
    [trial_id] = store.names("trials")
    outcome = journals.read(store, trial_id).outcome
    assert outcome.status == Status.FAILED and outcome.reason.startswith(reason), outcome
    assert "raise error" in outcome.frames


def test_ctrl_c_ends_no_trial(store):
    def function(run):
        yield {"valid_accuracy": 0.5}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trial(function, store)
    [trial_id] = store.names("trials")
    assert journals.read(store, trial_id).outcome is None


@pytest.mark.parametrize(
    "value, became",
    [
        (1e308, "loss became 1e+308, which is too large to compare"),
        (-1e308, "loss became -1e+308, which is too large to compare"),
        (10**400, "valid_loss became inf"),
        (10**5000, "valid_loss became inf"),
    ],
    ids=("large", "negative", "integer", "longer"),
)
def test_a_number_too_large_to_compare_diverges(store, value, became):
    def function(run):
        yield {"train_loss": 1e308, "valid_loss": 1e99}
        yield {"valid_loss": value}

    journal = run_trial(function, store, metrics=Metric("loss"))
    assert journal.outcome.status == Status.DIVERGED, journal.outcome
    assert re.search(rf"test_function\.py:\d+: {re.escape(became)}$", journal.outcome.reason)
    assert len(journal.epochs) == 1


def test_a_value_that_cannot_be_shown_is_refused_all_the_same(store):
    def function(run):
        yield {"valid_accuracy": Unshown()}

    class Unshown:
        def __repr__(self):
            raise RuntimeError("no words")

    outcome = run_trial(function, store).outcome
    assert "the task yielded valid_accuracy = an Unshown, which is not a number" in outcome.reason
