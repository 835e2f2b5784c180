"""Numbers that a task reports from inside a loop, or a callback, that is not its own."""

# ruff: noqa: F811

import multiprocessing
import signal
import threading
import time
import warnings
from pathlib import Path

import pytest
import torch

from ablate.store.outcome import Status
from ablate.store.store import Store
from tests.trial.user.test_function import begin, run_trial, store  # noqa: F401


class Loop:
    """A trainer with a loop of its own, which calls back after every epoch and saves itself."""

    def __init__(self, folder, epochs=4):
        self.folder, self.epochs, self.done = Path(folder), epochs, 0
        self.weight = torch.randn(3)

    def fit(self, callback, resume_from=None):
        if resume_from is not None:
            state = torch.load(resume_from / "state.pt")
            self.weight, self.done = state["weight"], state["done"]
            torch.set_rng_state(state["random"])
        while self.done < self.epochs:
            self.weight = 0.9 * self.weight + torch.randn(3)
            self.done += 1
            state = {"weight": self.weight, "done": self.done, "random": torch.get_rng_state()}
            place = self.folder / f"epoch_{self.done}"
            place.mkdir(exist_ok=True)
            torch.save(state, place / "state.pt")
            callback(self, place)


def fit(run, tmp_path, tell=True):
    loop = Loop(tmp_path)
    reported = []

    def after_epoch(loop, place):
        reported.append(loop.done)
        numbers = {"valid_accuracy": loop.weight.norm().item()}
        run.report(numbers, checkpoint=place if tell else None)

    loop.fit(after_epoch, run.checkpoint)
    return {"test_accuracy": loop.weight.norm().item(), "num_epochs": len(reported)}


def test_each_report_is_an_epoch(store, tmp_path):
    journal = run_trial(lambda run: fit(run, tmp_path), store)
    assert journal.outcome.status == Status.COMPLETED
    assert [epoch.number for epoch in journal.epochs] == [1, 2, 3, 4]
    assert journal.outcome.metrics["num_epochs"] == 4


def test_a_trial_that_is_cut_resumes_from_the_checkpoint_that_it_reported(store, tmp_path):
    whole = run_trial(lambda run: fit(run, tmp_path), Store(str(tmp_path / "whole")))
    journal = run_trial(lambda run: fit(run, tmp_path), store, cut_after=3)
    assert [epoch.metrics for epoch in journal.epochs] == [epoch.metrics for epoch in whole.epochs]
    assert journal.outcome.metrics["test_accuracy"] == whole.outcome.metrics["test_accuracy"]
    assert journal.outcome.metrics["num_epochs"] == 1


def wait_and_report(run, started, ended):
    try:
        started.set()
        for _ in range(1000):
            run.report({"valid_accuracy": 0.5})
            time.sleep(0.001)
    finally:
        ended.set()


def test_a_trial_that_is_given_up_ends_its_function(store):
    """A search stops trials early: their threads may not train on."""
    started, ended = threading.Event(), threading.Event()
    run = begin(lambda run: wait_and_report(run, started, ended), store)
    run.advance(seconds=1)
    assert started.is_set() and not ended.is_set()
    del run
    assert ended.wait(10)


def test_ctrl_c_reaches_a_function_between_two_reports(store):
    ended = threading.Event()

    def train(run):
        try:
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    run = begin(train, store)
    with pytest.raises(KeyboardInterrupt):
        interrupt_soon()
        run.advance(seconds=1)
    del run
    assert ended.wait(10)


def interrupt_soon():
    main = threading.get_ident()
    threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)).start()


def test_an_exception_of_the_function_is_the_trial_s_own(store):
    def train(run):
        run.report({"valid_accuracy": 0.5})
        raise ValueError("a wrong shape")

    outcome = run_trial(train, store).outcome
    assert outcome.status == Status.FAILED
    assert outcome.reason == "ValueError: a wrong shape"
    assert "raise ValueError" in outcome.frames


def test_a_report_that_is_no_number_is_refused_by_its_name(store):
    outcome = run_trial(lambda run: run.report({"valid_accuracy": "high"}), store).outcome
    assert outcome.status == Status.FAILED
    assert "the task reported valid_accuracy = 'high', which is not a number" in outcome.reason


def test_a_report_that_is_nan_is_a_divergence(store):
    journal = run_trial(lambda run: run.report({"valid_accuracy": float("nan")}), store)
    assert journal.outcome.status == Status.DIVERGED


def test_a_function_that_yields_cannot_report(store):
    def train(run):
        run.report({"valid_accuracy": 0.5})
        yield {"valid_accuracy": 0.5}

    outcome = run_trial(train, store).outcome
    assert outcome.status == Status.FAILED
    assert "Instead: yield the numbers there." in outcome.reason


def test_a_loop_over_epochs_cannot_report(store):
    def train(run):
        for _ in run.epochs({"mean": 0.0}, total=2):
            run.report({"valid_accuracy": 0.5})

    assert "yield the numbers" in run_trial(train, store).outcome.reason


def test_a_checkpoint_that_is_not_there_is_named(store, tmp_path):
    def train(run):
        run.report({"valid_accuracy": 0.5}, checkpoint=tmp_path / "missing")

    outcome = run_trial(train, store).outcome
    assert outcome.status == Status.FAILED
    assert "missing'): there is no such file or folder." in outcome.reason


def test_a_function_that_ignores_its_checkpoint_counts_no_epoch_twice(store, tmp_path):
    def train(run):
        Loop(tmp_path).fit(lambda loop, place: run.report({"valid_accuracy": 0.5}, place))

    outcome = run_trial(train, store, cut_after=2).outcome
    assert outcome.status == Status.FAILED
    assert "has not read run.checkpoint" in outcome.reason


def test_without_a_checkpoint_a_cut_trial_starts_again(store, tmp_path):
    journal = run_trial(lambda run: fit(run, tmp_path, tell=False), store, cut_after=2)
    assert [epoch.number for epoch in journal.epochs] == [1, 2, 3, 4]
    assert journal.outcome.metrics["num_epochs"] == 4


def test_a_single_file_is_a_checkpoint_too(store, tmp_path):
    def train(run):
        done = 0 if run.checkpoint is None else int(run.checkpoint.read_text())
        for epoch in range(done + 1, 4):
            file = tmp_path / "epoch.txt"
            file.write_text(str(epoch))
            run.report({"valid_accuracy": epoch / 10}, checkpoint=file)
        return {"test_accuracy": 0.5, "resumed_at": done}

    journal = run_trial(train, store, cut_after=2)
    assert journal.outcome.metrics["resumed_at"] == 2
    assert [epoch.metrics["valid_accuracy"] for epoch in journal.epochs] == [0.1, 0.2, 0.3]


def test_another_process_may_not_report(store):
    def train(run):
        with warnings.catch_warnings(action="ignore"):  # Python 3.12 on forks beside threads
            process = multiprocessing.get_context("fork").Process(
                target=run.report, args=({"valid_accuracy": 0.5},)
            )
            process.start()
        process.join(60)
        return {"valid_accuracy": 0.5, "test_accuracy": 0.5, "status": process.exitcode}

    journal = run_trial(train, store)
    assert journal.outcome.metrics["status"] == 1 and not journal.epochs
