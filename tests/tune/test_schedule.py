"""The schedule, driven in this process by trials that train nothing."""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import subprocess
import sys
import threading
import warnings
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import NopPruner
from optuna.samplers import GridSampler, RandomSampler, TPESampler
from optuna.trial import TrialState

from ablate.config.identity import Trial
from ablate.config.registry import register
from ablate.config.resolve import choice
from ablate.engine.board import Board
from ablate.errors import AblateError, RecordError, StudyError, TrialError
from ablate.record.quiet import silent_warnings
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.attempt import Attempt
from ablate.store.epoch import Epoch
from ablate.store.outcome import Outcome, Status, is_its_own
from ablate.store.store import Store
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study, check
from ablate.study.words import Arm, Scale, Search, Stage
from ablate.trial import checkpoint
from ablate.trial import run as trial_run
from ablate.trial.stand_in import StandIn
from ablate.tune import local
from ablate.tune import schedule as schedules
from ablate.tune.listener import Listener
from ablate.tune.schedule import Schedule
from ablate.tune.search import arm
from ablate.tune.search.arm import ArmSearch, _pruner, open_search
from ablate.tune.search.log import _Lines
from ablate.tune.search.opened import Searches
from ablate.tune.search.sampling import AT_RANDOM, sampler
from tests.support import small_studies
from tests.support.small_studies import RATE_AND_WINDOW, new_workspace, order_in

BASE = {**small_studies.BASE, "training.epochs": 3}
STAND_IN = "stand_in"


def study_of(runner: str = STAND_IN, **scale) -> Study:
    arms = [Arm("a"), Arm("b", {"training.clip": 1.0}), Arm("c", {"training.window": 33})]
    return Study(
        question="Does it run?",
        base=BASE,
        base_arm="a",
        design=table(*arms),
        scales={"s": Scale(seeds=2, **scale)},
        runner=runner,
        name="q",
    )


def scheduled(study: Study, workspace, listener=None) -> Schedule:
    check(study)
    plan = make_plan(study, "s", data=workspace.data)
    return Schedule(plan, workspace.store, open_search(workspace.searches), listener)


def run(study: Study, workspace) -> tuple[Schedule, list[str]]:
    started: list[Trial] = []
    schedule = scheduled(study, workspace)
    local.run(schedule, order_in(workspace, started))
    return schedule, [trial.id for trial in started]


def test_every_trial_runs_once_and_never_again(workspace):
    schedule, started = run(study_of(), workspace)
    assert len(started) == len(set(started)) == 6
    assert set(schedule.status.values()) == {Status.COMPLETED}
    assert run(study_of(), workspace)[1] == []


def test_seeds_come_before_arms_are_complete(workspace):
    """Every arm has its first seed before any has its second: an early table is balanced."""
    _, started = run(study_of(), workspace)
    stored = journals.read_all(workspace.store)
    assert [stored[trial].trial.seed for trial in started] == [1, 1, 1, 2, 2, 2]


def test_a_trial_done_in_one_study_is_reused_in_another(workspace):
    run(study_of(), workspace)
    other = replace(study_of(), name="another", question="And this?")
    schedule, started = run(other, workspace)
    assert started == []
    assert set(schedule.status.values()) == {Status.COMPLETED}


def test_stages_follow_and_an_ensemble_comes_last(workspace):
    study = study_of(stages=(Stage("finetune", {"optimizer.learning_rate": 0.5}),), ensemble=True)
    schedule = scheduled(study, workspace)
    trials = {trial.id: trial for trial in schedule.plan.trials}
    stages = [trial.stage for trial in trials.values()]
    assert (stages.count("train"), stages.count("finetune"), stages.count("ensemble")) == (6, 6, 3)
    seen = set()
    while (trial := schedule.next()) is not None:
        assert set(trial.parent_ids()) <= seen
        journals.close(workspace.store, trial, Status.COMPLETED)
        schedule.finished(trial.id)
        seen.add(trial.id)
    assert seen == set(trials)
    finals = {place.stage for place in schedule.plan.record.trials if place.final}
    assert finals == {"finetune"}


def test_what_builds_on_a_failed_trial_fails_by_name(workspace):
    study = study_of(stages=(Stage("finetune", {"optimizer.learning_rate": 0.5}),))
    schedule = scheduled(study, workspace)
    first = schedule.next()
    schedule.lost(first.id, "its worker died")
    while (trial := schedule.next()) is not None:
        journals.close(workspace.store, trial, Status.COMPLETED)
        schedule.finished(trial.id)
    child = next(t for t in schedule.plan.trials if first.id in t.parent_ids())
    journal = journals.read(workspace.store, child.id)
    assert journal.status == Status.FAILED
    assert first.id in journal.outcome.reason


def test_one_failed_seed_of_several_fails_their_ensemble_by_name(workspace):
    study = study_of(ensemble=True)
    schedule = scheduled(study, workspace)
    first = schedule.next()
    schedule.lost(first.id, "its worker died")
    while (trial := schedule.next()) is not None:
        journals.close(workspace.store, trial, Status.COMPLETED)
        schedule.finished(trial.id)
    assert schedule.complete
    ensembles = [trial for trial in schedule.plan.trials if trial.stage == "ensemble"]
    (failed,) = (trial for trial in ensembles if first.id in trial.parent_ids())
    outcome = journals.read(workspace.store, failed.id).outcome
    assert (outcome.status, outcome.orphan_of) == (Status.FAILED, first.id)
    assert not is_its_own(outcome.reason)  # its parent's fate decides
    assert {schedule.status[trial.id] for trial in ensembles if trial is not failed} == {
        Status.COMPLETED
    }


@pytest.mark.parametrize("journal", ["missing", "without an outcome"])
def test_a_worker_that_says_done_without_an_outcome_has_failed(workspace, journal):
    schedule = scheduled(study_of(), workspace)
    trial = schedule.next()
    if journal == "without an outcome":
        journals.Journal(trial, epochs=[Epoch(1)]).write(workspace.store)
    schedule.finished(trial.id)
    stored = journals.read(workspace.store, trial.id)
    assert schedule.status[trial.id] == stored.status == Status.FAILED
    assert stored.outcome.reason == "its journal is missing from the store"
    assert not is_its_own(stored.outcome.reason)
    assert schedule.ended[trial.id].outcome == stored.outcome


def test_a_failed_trial_is_tried_again_by_the_same_command(workspace):
    schedule = scheduled(study_of(), workspace)
    first = schedule.next()
    schedule.lost(first.id, "its worker died")
    schedule.stop_reason = "enough"
    assert first.id in run(study_of(), workspace)[1]


@pytest.mark.parametrize("killed_in", ["delete", "write_json"])
def test_a_failed_trial_never_resumes_without_a_word(workspace, monkeypatch, killed_in):
    """The worker is killed while it records the failure, before or after its checkpoint is gone."""
    monkeypatch.setattr(trial_run, "SAVE_SECONDS", 0)
    monkeypatch.setattr(trial_run, "SAVE_SHARE", 0)

    def fails_in_the_third(self: StandIn, seconds: float) -> Any:
        if self.epoch == 2:
            monkeypatch.setattr(Store, killed_in, lambda *args: raised(Killed()))
            raise ValueError("a bug")
        return advance(self, seconds)

    advance, working = StandIn.advance, getattr(Store, killed_in)
    monkeypatch.setattr(StandIn, "advance", fails_in_the_third)
    with pytest.raises(Killed):
        run(study_of(), workspace)
    monkeypatch.setattr(StandIn, "advance", advance)
    monkeypatch.setattr(Store, killed_in, working)
    schedule, started = run(study_of(), workspace)
    journal = journals.find(workspace.store, started[0])
    begun = [attempt.from_epoch for attempt in journal.attempts]
    assert begun == ([0, 2] if killed_in == "delete" else [0, 0]) and schedule.complete


def raised(error: BaseException) -> None:
    raise error


def start_first(schedule: Schedule, epochs: int, store) -> str:
    """Start the first trial, of which a worker has finished this many epochs; return its id."""
    trial = schedule.next()
    journal = journals.read(store, trial.id) or journals.Journal(trial)
    journal.epochs = [Epoch(number) for number in range(1, epochs + 1)]
    journal.write(store)
    return trial.id


@pytest.mark.parametrize(
    ("epochs", "resumes"),
    [
        ([0, 0, 0, 0], [True, True, True, False]),
        ([0, 0, 0, 1, 1, 1, 1], [True] * 6 + [False]),
        ([2, 1, 2, 0], [True, True, True, False]),  # an epoch that is repeated is not a new one
        ([0, 1, 2, 3, 4, 5], [True] * 6),
    ],
)
def test_deaths_are_counted_across_drivers(workspace, epochs, resumes):
    for number, again in zip(epochs, resumes, strict=True):
        schedule = scheduled(study_of(), workspace)  # another driver for every death
        trial_id = start_first(schedule, number, workspace.store)
        assert schedule.died(trial_id, f"killed at {number}") is again
    journal = journals.read(workspace.store, trial_id)
    assert (journal.status == Status.FAILED) is (not resumes[-1])
    if not resumes[-1]:
        schedule.lost(trial_id, "as Ray says it")
        reason = f"4 workers died without finishing another epoch; the last: killed at {number}"
        assert not is_its_own(reason)
        assert schedule.ended[trial_id].outcome.reason == reason
        assert scheduled(study_of(), workspace).next().id == trial_id  # tried again, from 0 deaths
        assert journals.read(workspace.store, trial_id).deaths == []


def test_a_driver_that_stops_or_is_killed_counts_no_death(workspace):
    for _ in range(journals.MOST_DEATHS):
        schedule = scheduled(study_of(), workspace)
        trial_id = start_first(schedule, 0, workspace.store)  # and the driver is killed
        schedule.stop_reason = "SIGTERM"
        assert schedule.died(trial_id, "SIGTERM, too")
    assert journals.read(workspace.store, trial_id).deaths == []


def test_a_worker_that_dies_after_the_outcome_loses_nothing(workspace):
    schedule = scheduled(study_of(), workspace)
    trial = schedule.next()
    journals.close(workspace.store, trial, Status.COMPLETED)
    assert not schedule.died(trial.id, "killed while idle")
    schedule.lost(trial.id, "killed while idle")
    assert schedule.ended[trial.id].status == Status.COMPLETED
    assert schedule.ended[trial.id].deaths == []


def test_without_ray_a_trial_that_lost_workers_resumes_and_keeps_the_count(workspace):
    schedule = scheduled(study_of(), workspace)
    trial_id = start_first(schedule, 0, workspace.store)
    assert schedule.died(trial_id, "killed")
    schedule = run(study_of(), workspace)[0]
    assert schedule.complete
    journal = journals.read(workspace.store, trial_id)
    assert (journal.status, len(journal.deaths)) == (Status.COMPLETED, 1)


class Notes(Listener):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def cut(workspace, epochs: int, saved: bool) -> None:
    """Leave the first trial as a killed driver does: with an attempt and these epochs."""
    trial_id = start_first(scheduled(study_of(), workspace), epochs, workspace.store)
    journal = journals.read(workspace.store, trial_id)
    journal.attempts = [Attempt(epochs_before=0, from_epoch=0)]
    journal.write(workspace.store)
    if saved:
        checkpoint.write(workspace.store, checkpoint.last_key(trial_id), {}, {})


@pytest.mark.parametrize(("epochs", "saved"), [(2, False), (2, True), (0, False)])
def test_a_cut_trial_that_had_saved_nothing_is_said_to_start_again(workspace, epochs, saved):
    cut(workspace, epochs, saved)
    notes = Notes()
    schedule = scheduled(study_of(), workspace, notes)
    first = schedule.next()
    said = ["a seed 1 starts again: it was cut after epoch 2, and had saved nothing"]
    assert notes.texts == (said if epochs and not saved else [])
    notes.texts.clear()
    schedule.retried(first.id, "its worker died")
    assert notes.texts == (said if epochs and not saved else [])


def test_hours_hold_across_restarts(workspace):
    study = study_of(hours=1)
    schedule, started = run(study, workspace)
    assert len(started) == 6 and schedule.complete
    schedule.ledger.seconds = 3600.0
    schedule.ledger.write()
    more = replace(study, scales={"s": replace(study.scales["s"], seeds=4)})
    schedule, started = run(more, workspace)
    assert started == [] and schedule.closed_reason == "the budget of 1 hours is spent"
    assert len(run(replace(more, scales={"s": Scale(seeds=4)}), workspace)[1]) == 6


def test_the_hours_spent_are_those_since_the_driver_started(workspace, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(schedules, "time", SimpleNamespace(monotonic=lambda: now[0]))
    schedule = scheduled(study_of(hours=1), workspace)
    schedule.ledger.seconds = 7.0  # of drivers before it
    for now[0] in (103.0, 103.0, 104.5):
        schedule.progress("whichever", None)
    assert schedule.ledger.seconds == 7.0 + 4.5


def test_when_time_is_up_nothing_was_interrupted(workspace):
    schedule = scheduled(study_of(hours=0.001), workspace)
    schedule.next()
    schedule.ledger.seconds = 4.0
    schedule.progress("whichever", None)
    assert schedule.stopping and schedule.exhausted and not schedule.complete
    assert schedule.stop_reason is None
    assert schedule.closed_reason == "the budget of 0.001 hours is spent"


class Totals(Listener):
    """The board of a screen, and the totals that it showed when trials ended."""

    def __init__(self, study: Study, workspace) -> None:
        self.board = Board(make_plan(study, "s", data=workspace.data).record, 0.0)
        self.totals: list[int] = []
        self.names: list[str] = []

    def planned(self, record) -> None:
        self.board.take_record(record)

    def finished(self, trial_id, journal) -> None:
        self.board.finished(trial_id, journal, 0.0)
        self.totals.append(self.board.total)
        self.names.append(journal.trial.name)


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.DIVERGED])
def test_a_complete_study_has_no_trial_left_on_the_board(workspace, tmp_path, status):
    """Its search ended, with or without a winner."""
    study = search_study(tmp_path, trials=2, sampler="random")
    study = replace(study, design=table(Arm("a")))
    schedule = scheduled(study, workspace, shown := Totals(study, workspace))
    outcome = Outcome(status=status, metrics={"valid_nll": 4.0})
    while (trial := schedule.next()) is not None:
        epochs = [Epoch(1, tokens=10)]
        journals.Journal(trial, epochs=epochs, outcome=outcome).write(workspace.store)
        schedule.finished(trial.id)
    num = 4 if status == Status.COMPLETED else 2
    assert schedule.complete and shown.board.total == len(shown.board.ended) == num
    again = Totals(study, workspace)
    assert scheduled(study, workspace, again).complete
    assert again.totals == [4] * num  # with those that will confirm its winner
    assert again.board.total == len(again.board.ended) == num


def test_trials_that_another_study_ran_have_the_labels_of_this_one(workspace):
    run(study_of(), workspace)
    arms = table(Arm("x"), Arm("y", {"training.clip": 1.0}), Arm("z", {"training.window": 33}))
    other = replace(study_of(), name="another", base_arm="x", design=arms)
    scheduled(other, workspace, shown := Totals(other, workspace))
    assert {name.split()[0] for name in shown.names} == {"x", "y", "z"}
    assert list(shown.board.arms) == ["x", "y", "z"] and shown.totals == [6] * 6


def test_an_orphan_that_another_study_has_completed_keeps_its_result(workspace):
    """A parent failed here; another study retried it, and ran what builds on it."""
    study = study_of(ensemble=True)
    schedule = scheduled(study, workspace)
    parent = schedule.next()
    journals.close(workspace.store, parent, Status.FAILED, "out of memory")
    schedule.finished(parent.id)
    (child,) = (trial for trial in schedule.plan.trials if parent.id in trial.parent_ids())
    complete_all(scheduled(replace(study, name="other"), workspace), workspace, lambda trial: 4.0)
    complete_all(schedule, workspace, lambda trial: 4.0)
    journal = journals.read(workspace.store, child.id)
    assert journal is not None and journal.status == Status.COMPLETED
    assert schedule.status[child.id] == Status.COMPLETED


RUNS_ONE = """
import sys
from ablate.store.claims import Claims
from ablate.store.store import Store

claims = Claims(Store(sys.argv[1]))
assert claims.claim(sys.argv[2])
print("claimed", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("ends", [True, False])
def test_a_trial_that_another_driver_runs_is_waited_for(workspace, ends):
    """That driver ends it, or is killed, and this one runs it."""
    notes = Notes()
    schedule = scheduled(study_of(), workspace, notes)
    first = schedule.plan.trials[0]
    words = [sys.executable, "-c", RUNS_ONE, workspace.store.uri, first.id]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"claimed\n"
        started = complete_all(schedule, workspace, lambda trial: 4.0)
        assert len(started) == 5 and first not in started
        assert schedule.next() is None and not schedule.exhausted
        assert notes.texts == ["a seed 1 is being run for another study, and is waited for"]
        if ends:
            outcome = Outcome(status=Status.COMPLETED, metrics={"valid_nll": 4.0})
            journals.Journal(first, outcome=outcome).write(workspace.store)
        other.kill()
    left = complete_all(schedule, workspace, lambda trial: 4.0)
    assert left == ([] if ends else [first]) and schedule.complete
    assert schedule.status[first.id] == Status.COMPLETED


def search_study(tmp_path, arms=None, **words) -> Study:
    (tmp_path / "search_spaces").mkdir(exist_ok=True)
    file = tmp_path / "search_spaces" / "rates.toml"
    file.write_text(RATE_AND_WINDOW)
    search = Search(space=str(file), **{"trials": 6, **words})
    return study_of(search=search, arms=arms)


def complete_all(schedule: Schedule, workspace, loss) -> list[Trial]:
    """Complete every trial with the loss that this function gives; return them in their order."""
    started = []
    while (trial := schedule.next()) is not None:
        outcome = Outcome(status=Status.COMPLETED, metrics={"valid_nll": loss(trial)})
        journals.Journal(trial, epochs=[Epoch(1)], outcome=outcome).write(workspace.store)
        schedule.finished(trial.id)
        started.append(trial)
    return started


def rate_of(trial: Trial) -> float:
    return trial.values["optimizer.learning_rate"]


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_search_never_takes_results_of_other_trials_for_its_own(workspace, tmp_path, synchronous):
    """In another precision the lowest rate is best instead of the highest, and then again not."""
    study = search_study(tmp_path, arms=["a"], synchronous=synchronous, sampler="random")
    half = replace(study, scales={"s": replace(study.scales["s"], precision="bfloat16")})
    first = complete_all(scheduled(study, workspace), workspace, lambda trial: -rate_of(trial))
    other = scheduled(half, workspace)
    second = complete_all(other, workspace, rate_of)
    searched = [[rate_of(t) for t in trials if t.stage == "search"] for trials in (first, second)]
    assert searched[0] == searched[1]  # the sampler is seeded as before
    assert {rate_of(t) for t in first if t.stage == "train"} == {max(searched[0])}
    assert {rate_of(t) for t in second if t.stage == "train"} == {min(searched[0])}
    assert other.plan.record.searches[0].key == f"{other.searches.opened[0].planned.key}/2"
    again = scheduled(study, workspace)
    assert again.next() is None and again.complete
    assert again.plan.record.searches[0].key == again.searches.opened[0].planned.key


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_search_tries_a_failed_trial_again_and_keeps_a_diverged_one(
    workspace, tmp_path, synchronous
):
    """The next command trains only what failed. It is the best, so its values are confirmed."""
    words = {"trials": 3, "synchronous": synchronous, "sampler": "random"}
    study = replace(search_study(tmp_path, **words), design=table(Arm("a")))
    schedule = scheduled(study, workspace)
    failed, diverged = schedule.next(), schedule.next()
    schedule.lost(failed.id, "a mount was away")
    journals.close(workspace.store, diverged, Status.DIVERGED)
    schedule.finished(diverged.id)
    assert len(complete_all(schedule, workspace, lambda trial: 4.0)) == 3 and schedule.complete
    again = scheduled(study, workspace)
    started = complete_all(again, workspace, lambda trial: 3.0)
    assert [t.stage for t in started] == ["search", "train", "train"] and again.complete
    assert started[0].id == failed.id and {rate_of(t) for t in started} == {rate_of(failed)}
    assert scheduled(study, workspace).next() is None


def test_a_trial_that_two_searches_share_is_tried_once_by_a_command(workspace, tmp_path):
    further = Arm("further", then=(Stage("more", {"training.epochs": 1}),))
    words = {"trials": 2, "synchronous": True, "sampler": "random"}
    study = replace(search_study(tmp_path, **words), design=table(Arm("a"), further))
    schedule = scheduled(study, workspace)
    failed = schedule.next()
    schedule.lost(failed.id, "a mount was away")
    assert failed.id not in [t.id for t in complete_all(schedule, workspace, lambda trial: 4.0)]


@pytest.mark.parametrize(
    ("field", "words", "message"),
    [
        ("share", {"rows": {"Shaer": 0.1}}, "Did you mean 'Share'"),
        ("share", {"rows": {"Share": 7}}, "Share = 7"),
        ("shaer", {}, "shaer"),
        ("share", {"changes": {"evaluator.cache.shaer": 1}}, "shaer"),
    ],
)
def test_a_search_of_evaluations_is_checked_before_anything_trains(
    data, tmp_path, field, words, message
):
    space = tmp_path / "share.toml"
    row = f'["Share"]\nfield="evaluator.cache.{field}"\nrange=[0.0, 0.5]\n'
    space.write_text(f'paper="none"\ntables=["T"]\n{row}')
    how = Search(space=str(space), trials=2, **words)
    stage = Stage("judge", {"evaluator.cache.window": 5}, kind="evaluate", search=how)
    with pytest.raises(AblateError, match=message):
        make_plan(replace(study_of(stages=(stage,)), design=table(Arm("a"))), "s", data=data)


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_search_of_evaluations_ends_when_its_finite_space_is_exhausted(
    workspace, tmp_path, synchronous
):
    """Equal values are one trial there, since a model's seed is the same."""
    space = tmp_path / "window.toml"
    window = 'paper="none"\ntables=["T"]\n["Window"]\nfield="evaluator.cache.window"\n'
    space.write_text(f"{window}choices=[5, 10]\n")
    words = {"synchronous": synchronous, "batch": 3}
    how = Search(space=str(space), trials=4, sampler="random", **words)
    stage = Stage("judge", {"evaluator.cache.share": 0.1}, kind="evaluate", search=how)
    study = replace(study_of(stages=(stage,)), design=table(Arm("a")))
    schedule = scheduled(study, workspace)
    started = complete_all(schedule, workspace, lambda trial: 4.0)
    assert Counter(t.stage for t in started) == {"train": 2, "judge search": 4, "judge": 2}
    assert schedule.complete
    assert scheduled(study, workspace).next() is None


@pytest.mark.parametrize(("value", "holds"), [(20, True), (10, False)])
def test_a_condition_on_a_field_that_has_its_default(workspace, tmp_path, value, holds):
    """The study was refused after Ray had started, and `ablate plan` had accepted it."""
    study = search_study(tmp_path)
    condition = f'choices = [10, 20]\nwhen = "training.batch_size = {value}"'
    (file,) = tmp_path.glob("search_spaces/*.toml")
    file.write_text(RATE_AND_WINDOW.replace("choices = [10, 20]", condition))
    schedule = scheduled(study, workspace)
    complete_all(schedule, workspace, lambda trial: 4.0)
    sampled = [trial for trial in schedule.searches.trials.values() if trial.arm != "c"]
    assert {"training.window" in trial.values for trial in sampled} == {holds}


def table_of(workspace) -> list:
    record = study_record.read(workspace.store, "q")
    return [(s.arm, s.trials, s.chosen) for s in record.searches], record.trials


def test_each_arm_is_tuned_at_the_same_budget_then_confirmed_on_fresh_seeds(workspace, tmp_path):
    schedule, started = run(search_study(tmp_path), workspace)
    assert len(started) == 3 * 6 + 3 * 2
    stored = journals.read_all(workspace.store)
    searched = [j.trial for j in stored.values() if j.trial.stage == "search"]
    confirmed = [j.trial for j in stored.values() if j.trial.stage == "train"]
    assert {t.seed for t in searched}.isdisjoint({t.seed for t in confirmed})
    assert not any(trial.reads_test for trial in searched)
    assert all(trial.reads_test for trial in confirmed)
    for search in schedule.plan.record.searches:
        losses = {t: stored[t].outcome.metrics["valid_nll"] for t in search.trials}
        assert losses[search.chosen] == min(losses.values())


@pytest.mark.slow
def test_a_synchronous_search_repeats_exactly_whatever_was_killed(tmp_path, data):
    """Killed at its thirteenth trial, which TPE has learned for."""
    killed_after, tables = 12, []
    for name in ("undisturbed", "killed"):
        workspace = new_workspace(tmp_path / name, data)
        study = search_study(tmp_path, arms=["a"], trials=13, synchronous=True, batch=3)
        if name == "killed":
            schedule = scheduled(study, workspace)
            for _ in range(killed_after):  # a driver that dies while a trial runs
                trial = schedule.next()
                if trial is None:
                    break
                _finish(trial, schedule, workspace)
            schedule.next()
        run(study, workspace)
        tables.append(table_of(workspace))
    assert tables[0] == tables[1]


class Killed(BaseException):
    """As if the process had been killed here."""


def samplers_used(monkeypatch) -> list[tuple[int, bool]]:
    """The index of each suggestion and whether its sampler draws at random, as they are made."""
    used: list[tuple[int, bool]] = []
    ask = ArmSearch._ask_one

    def ask_one(search):
        index, suggest = len(search.trials), search.study.ask

        def noticed():
            used.append((index, isinstance(search.study.sampler, RandomSampler)))
            return suggest()

        monkeypatch.setattr(search.study, "ask", noticed)
        trial = ask(search)
        monkeypatch.setattr(search.study, "ask", suggest)
        return trial

    monkeypatch.setattr(ArmSearch, "_ask_one", ask_one)
    return used


def test_tpe_learns_of_all_settings_together_and_of_what_still_runs():
    """Conditions need `group`, and several workers `constant_liar`."""
    made: Any = sampler(choice("sampler", "tpe", {}, ""), 7, {})
    assert isinstance(made, TPESampler)
    assert (made._multivariate, made._group, made._constant_liar) == (True, True, True)
    assert isinstance(sampler(AT_RANDOM, 7, {}), RandomSampler)


def test_a_sampler_stays_silent_while_another_thread_stops_silencing(monkeypatch):
    """`catch_warnings` ends by putting back what it found, whatever another thread has set since.
    Records are delivered meanwhile, with MLflow silenced."""
    silenced, inside, ended = threading.Event(), threading.Event(), threading.Event()

    def deliver() -> None:
        with silent_warnings():
            silenced.set()
            inside.wait(0.5)
        ended.set()

    def tpe(**arguments: Any) -> None:
        inside.set()
        ended.wait(5)
        warnings.warn("group is experimental", ExperimentalWarning, stacklevel=1)

    monkeypatch.setattr("optuna.samplers.TPESampler", tpe)
    thread = threading.Thread(target=deliver)
    thread.start()
    silenced.wait()
    with pytest.raises(StudyError, match=r"'tpe' returned None. Expected: one of optuna.samplers"):
        sampler(choice("sampler", "tpe", {}, ""), 7, {})
    thread.join()


def test_tpe_suggests_as_long_as_it_does_not_repeat_itself(workspace, tmp_path, monkeypatch):
    used = samplers_used(monkeypatch)
    run(search_study(tmp_path, arms=["a"], trials=12), workspace)
    assert len(used) >= 12 and not any(at_random for _, at_random in used)


def test_after_four_repeats_it_draws_at_random_and_accepts_the_twenty_first(
    workspace, tmp_path, monkeypatch
):
    """The space has two points, so that the third trial must repeat one."""
    used = samplers_used(monkeypatch)
    study = search_study(tmp_path, arms=["a"], trials=3, synchronous=True, batch=1)
    two = RATE_AND_WINDOW.replace('range = [1e-3, 10.0]\nscale = "log"', "choices = [0.1]")
    (tmp_path / "search_spaces" / "rates.toml").write_text(two)
    run(replace(study, design=table(Arm("a"))), workspace)
    assert [at_random for index, at_random in used if index == 2] == [False] * 4 + [True] * 17


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_finite_space_is_asked_for_everything_before_anything_twice(workspace, tmp_path, sampler):
    study = search_study(tmp_path, arms=["a"], trials=7, synchronous=True, sampler=sampler)
    finite = RATE_AND_WINDOW.replace(
        'range = [1e-3, 10.0]\nscale = "log"', "choices = [0.1, 1.0, 3.0]"
    )
    (tmp_path / "search_spaces" / "rates.toml").write_text(finite)
    run(study, workspace)
    stored = journals.read_all(workspace.store).values()
    searched = [journal.trial.values for journal in stored if journal.trial.stage == "search"]
    suggested = Counter((v["optimizer.learning_rate"], v["training.window"]) for v in searched)
    assert len(suggested) == 6 and sum(suggested.values()) == 7


@pytest.mark.slow
def test_a_search_killed_while_it_asks_repeats_exactly(tmp_path, data, monkeypatch):
    """The rest of a batch is requested before the search gets a result, as without the crash."""
    ask, tables = ArmSearch._ask_one, []
    for name in ("undisturbed", "killed"):
        workspace = new_workspace(tmp_path / name, data)
        study = search_study(tmp_path, arms=["a"], trials=15, synchronous=True, batch=3)
        if name == "killed":
            suggested = []

            def dies(search, suggested=suggested):
                suggested.append(ask(search))
                if len(suggested) == 14:
                    raise Killed
                return suggested[-1]

            monkeypatch.setattr(ArmSearch, "_ask_one", dies)
            with pytest.raises(Killed):
                run(study, workspace)
            monkeypatch.setattr(ArmSearch, "_ask_one", ask)
        run(study, workspace)
        tables.append(table_of(workspace))
    assert tables[0] == tables[1]


def _finish(trial, schedule, workspace) -> None:
    from ablate.tune.worker import Worker

    worker = Worker(order_in(workspace)(trial))
    while not worker.advance()["done"]:
        pass
    schedule.finished(trial.id)


def test_early_stopping_is_told_as_pruned_with_its_values(workspace, tmp_path):
    import optuna

    study = search_study(tmp_path, arms=["a"], trials=12, early_stopping="asha")
    schedule, _ = run(study, workspace)
    pruned = [t for t, status in schedule.status.items() if status == Status.PRUNED]
    assert pruned
    for search in schedule.searches.opened.values():
        for frozen in search.study.get_trials(deepcopy=False):
            if frozen.state == optuna.trial.TrialState.PRUNED:
                assert frozen.intermediate_values
    assert not set(pruned) & {place.id for place in schedule.plan.record.trials if place.final}


def epochs_by_rate(schedule: Schedule, workspace) -> dict[float, int]:
    """Of every trial of the only search, how many epochs it has."""
    (search,) = schedule.searches.opened.values()
    known = journals.read_all(workspace.store, search.trials)
    return {rate_of(search.trials[trial]): len(j.epochs) for trial, j in known.items()}


@pytest.mark.slow
def test_a_search_without_early_stopping_runs_what_another_search_stopped(workspace, tmp_path):
    words: dict[str, Any] = {"arms": ["a"], "trials": 8, "sampler": "random"}
    stopping = search_study(tmp_path, early_stopping="asha", **words)
    stopped, _ = run(replace(stopping, name="stopping"), workspace)
    schedule, _ = run(search_study(tmp_path, **words), workspace)
    before, after = (epochs_by_rate(s, workspace) for s in (stopped, schedule))
    assert before.keys() == after.keys() and set(after.values()) == {BASE["training.epochs"]}
    assert Status.PRUNED in stopped.status.values()
    assert set(schedule.status.values()) == {Status.COMPLETED}


@pytest.mark.slow
def test_a_trial_that_was_to_stop_early_does_so_after_a_kill(tmp_path, data, monkeypatch):
    """The driver is killed between the decision and the outcome, once for every trial."""
    cut, seen, found = Schedule._cut, set(), []

    def die_once(self: Schedule, trial_id: str, status: Status, reason: str | None = None) -> None:
        if trial_id not in seen:
            seen.add(trial_id)
            raise Killed
        cut(self, trial_id, status, reason)

    study = search_study(tmp_path, arms=["a"], trials=8, sampler="random", early_stopping="asha")
    for name in ("undisturbed", "killed"):
        workspace, schedule = new_workspace(tmp_path / name, data), None
        while schedule is None or not schedule.complete:
            with contextlib.suppress(Killed):
                schedule, _ = run(study, workspace)
        found.append(epochs_by_rate(schedule, workspace))
        monkeypatch.setattr(Schedule, "_cut", die_once)
    assert len(seen) > 1 and found[0] == found[1]


def test_a_synchronous_search_that_stops_early_is_refused(tmp_path):
    with pytest.raises(StudyError, match="synchronous"):
        check(search_study(tmp_path, synchronous=True, early_stopping="asha"))


def test_arms_that_search_for_the_same_share_its_trials_and_both_are_confirmed(workspace, tmp_path):
    """Arms that differ only in a later stage: neither waits for the other's results."""
    space = tmp_path / "space.toml"
    space.write_text(RATE_AND_WINDOW)
    search = Search(space=str(space), trials=3, synchronous=True, batch=3)
    further = Arm("further", then=(Stage("more", {"training.epochs": 1}),))
    study = replace(study_of(search=search), design=table(Arm("a"), further))
    schedule, started = run(study, workspace)
    assert schedule.complete
    assert (
        len(started) == len(set(started)) == 3 + 2 + 2
    )  # searched, a's seeds, and what continues from them
    chosen = [record.chosen for record in schedule.plan.record.searches]
    assert chosen[0] is not None and chosen[0] == chosen[1]


def test_a_search_of_how_to_evaluate_a_model_that_failed_is_abandoned(workspace, tmp_path):
    """It suggests nothing and has no winner; the other seed's model is searched."""
    space = tmp_path / "share.toml"
    space.write_text("""
paper = "none"
tables = ["T"]

["Share"]
field = "evaluator.cache.share"
range = [0.0, 0.5]
""")
    how = Search(space=str(space), trials=2, synchronous=True, batch=2)
    stage = Stage("judge", {"evaluator.cache.window": 5}, kind="evaluate", search=how)
    study = replace(study_of(stages=(stage,)), design=table(Arm("a")))
    schedule = scheduled(study, workspace)
    first = schedule.next()
    schedule.lost(first.id, "its worker died")
    while (trial := schedule.next()) is not None:
        journal = journals.Journal(trial, epochs=[Epoch(1, {"valid_nll": 4.0})])
        outcome = Outcome(status=Status.COMPLETED, metrics={"valid_nll": 4.0})
        replace(journal, outcome=outcome).write(workspace.store)
        schedule.finished(trial.id)
    assert schedule.complete
    searched = {s.planned.parents[0].id: s for s in schedule.searches.opened.values()}
    assert len(searched) == 2
    for model, search in searched.items():
        assert len(search.trials) == (0 if model == first.id else 2)
        assert (search.winner() is None) == (model == first.id)
    assert not any(first.id in trial.parent_ids() for trial in schedule.plan.trials)


class TestRunners:
    """What a custom task must return, and the error if it does not."""

    @staticmethod
    def without(monkeypatch, method: str, name: str) -> None:
        """The stand-in, forgetting one of its numbers."""
        original = getattr(StandIn, method)

        def forgetful(task, *arguments):
            result = original(task, *arguments)
            if isinstance(result, dict):
                return {key: value for key, value in result.items() if key != name}
            metrics = {key: value for key, value in result.metrics.items() if key != name}
            return replace(result, metrics=metrics)

        monkeypatch.setattr(StandIn, method, forgetful)

    def reasons(self, study: Study, workspace) -> set[str]:
        run(study, workspace)
        result = journals.read_all(workspace.store).values()
        assert {journal.status for journal in result} == {Status.FAILED}
        return {journal.outcome.reason for journal in result}

    def test_an_epoch_has_its_number(self, workspace, monkeypatch):
        self.without(monkeypatch, "advance", "epoch")
        (reason,) = self.reasons(study_of(), workspace)
        assert f"runner {STAND_IN}: advance() ended an epoch without its number" in reason
        assert "Given: train_nll, valid_nll, valid_ppl" in reason and "'epoch'" in reason

    def test_an_epoch_is_a_dict(self, workspace, monkeypatch):
        monkeypatch.setattr(StandIn, "advance", lambda task, seconds: 3.5)
        (reason,) = self.reasons(study_of(), workspace)
        assert f"runner {STAND_IN}: " in reason and "Given: 3.5. Expected: None, or a" in reason

    @pytest.mark.parametrize("searched", [False, True])
    def test_a_conclusion_has_what_tables_and_searches_read(
        self, workspace, tmp_path, monkeypatch, searched
    ):
        self.without(monkeypatch, "conclude", "valid_nll")
        study = search_study(tmp_path, trials=2) if searched else study_of()
        (reason,) = self.reasons(study, workspace)
        assert f"runner {STAND_IN}: conclude() gave no metric 'valid_nll'" in reason

    def test_what_stops_early_is_said_after_every_epoch(self, workspace, tmp_path, monkeypatch):
        self.without(monkeypatch, "advance", "valid_nll")
        study = search_study(tmp_path, trials=2, early_stopping="asha")
        (reason,) = self.reasons(study, workspace)
        assert f"runner {STAND_IN}: an epoch ended without 'valid_nll'" in reason

    def test_a_trial_that_completed_without_it_before_is_named(
        self, workspace, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("ablate.trial.run.check_conclusion", lambda found, runner: None)
        self.without(monkeypatch, "conclude", "valid_nll")
        message = f"of the runner {STAND_IN} completed without 'valid_nll'"
        study = search_study(tmp_path, trials=2)
        with pytest.raises(TrialError, match=message) as raised:
            run(study, workspace)
        monkeypatch.undo()  # "Return it from `conclude`, ..."
        folder = re.search(r"and delete (trials/[0-9a-f]{16})\.", str(raised.value))[1]
        shutil.rmtree(workspace.store.folder / folder)
        schedule, _ = run(study, workspace)
        assert schedule.complete and set(schedule.status.values()) == {Status.COMPLETED}


def test_a_search_whose_sampler_has_no_more_values_ends(workspace, tmp_path, forgotten):
    """A grid of two points, of the eight trials that the search may have; also if it is resumed."""

    @register("sampler", "ends")
    def ends(config, seed, space):
        return GridSampler({"Rate": [space["Rate"].low, space["Rate"].high]}, seed=0)

    study = search_study(tmp_path, arms=["a"], trials=8, sampler="ends")
    (tmp_path / "search_spaces" / "rates.toml").write_text(small_studies.RATE)
    schedule, started = run(study, workspace)
    tried = [trial.values["optimizer.learning_rate"] for trial in schedule.searches.trials.values()]
    assert schedule.complete and sorted(tried) == [1e-3, 10.0] and len(started) == 4
    assert run(study, workspace)[1] == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda config, seed, space: 3, r"sampler 'odd' returned 3\. Expected: one of optuna"),
        (lambda config, seed, space: space["Rats"], r"sampler 'odd' raised .*KeyError: 'Rats'"),
        (lambda config, seed, space: Broken(), r"sampler 'odd' raised .*ZeroDivisionError"),
    ],
)
def test_a_sampler_that_is_wrong_is_named(workspace, tmp_path, forgotten, make, said):
    register("sampler", "odd")(make)
    with pytest.raises(AblateError, match=re.compile(said, re.DOTALL)):
        run(search_study(tmp_path, arms=["a"], sampler="odd"), workspace)


class Broken(RandomSampler):
    def sample_independent(self, *args: Any) -> Any:
        return 1 / 0


def test_options_make_another_search_and_defaults_do_not(workspace, tmp_path, forgotten):
    def key(**words: Any) -> str:
        plan = make_plan(search_study(tmp_path, arms=["a"], **words), "s", data=workspace.data)
        return plan.searches[0].key

    register("sampler", "own")(lambda config, seed, space: None)
    first = key(sampler="own")
    register("sampler", "own", version=2)(lambda config, seed, space: None)
    assert key() == key(options={"multivariate": True, "n_startup_trials": 10})
    keys = [key(), key(options={"multivariate": False}), key(options={"n_startup_trials": 3})]
    assert len({*keys, first, key(sampler="own"), key(sampler="random")}) == 6


def test_a_worker_may_be_replaced_before_a_journal_is_there_or_after_the_trial_has_ended(workspace):
    notes = Notes()
    schedule = scheduled(study_of(), workspace, notes)
    first = schedule.next()
    assert journals.read(workspace.store, first.id) is None
    schedule.retried(first.id, "its worker died")
    schedule.lost(first.id, "it died for good")
    assert journals.read(workspace.store, first.id).outcome is not None
    schedule.retried(first.id, "a message that came late")
    schedule.lost(first.id, "another one")
    assert journals.read(workspace.store, first.id).outcome.reason == "it died for good"
    assert notes.texts == []


@pytest.mark.parametrize(("search", "built_on"), [(None, True), (False, True), (True, False)])
def test_a_model_is_needed_until_the_search_of_how_to_judge_it_is_over(search, built_on):
    opened = {} if search is None else {0: SimpleNamespace(over=search)}
    judged = SimpleNamespace(parents=[SimpleNamespace(id="model")])
    plan: Any = SimpleNamespace(searches=[judged])
    searches: Any = SimpleNamespace(opened=opened)
    assert Searches.will_build_on(searches, "model", plan) is built_on
    assert Searches.will_build_on(searches, "another", plan) is False


def test_how_a_search_stops_early(tmp_path, data, monkeypatch):
    def pruner_of(early_stopping, **changes) -> Any:
        words = {"early_stopping": early_stopping, "changes": changes}
        plan = make_plan(search_study(tmp_path, **words), "s", data=data)
        return _pruner(plan.searches[0], plan)

    asha = pruner_of("asha")
    assert (asha._min_resource, asha._reduction_factor) == (1, 3)
    hyperband = pruner_of("hyperband")
    assert (hyperband._min_resource, hyperband._max_resource) == (1, 3)
    assert pruner_of("hyperband", **{"training.epochs": 9})._max_resource == 9
    assert isinstance(pruner_of(None), NopPruner)
    unknown: Any = SimpleNamespace(config=SimpleNamespace(num_epochs=None))
    monkeypatch.setattr(arm, "plan_search_trial", lambda *of: unknown)
    planned: Any = SimpleNamespace(words=Search(space="x", trials=4, early_stopping="hyperband"))
    with pytest.raises(StudyError, match="how many epochs a trial has"):
        _pruner(planned, None)  # type: ignore[arg-type]


def test_what_runs_or_is_done_already_is_passed_over(workspace, monkeypatch):
    schedule = scheduled(study_of(), workspace)
    running, done, third = (schedule.next() for _ in range(3))
    journals.close(workspace.store, done, Status.COMPLETED, "")
    del schedule._running[done.id], schedule._running[third.id]
    ready = [running, done, third]
    monkeypatch.setattr(schedule, "_next_ready", lambda like=None: ready.pop(0))
    assert schedule.next() is third and ready == []


def test_a_trial_that_runs_or_has_failed_is_not_admitted_again(workspace):
    schedule = scheduled(study_of(), workspace)
    running, failed = schedule.next(), schedule.next()
    journals.close(workspace.store, failed, Status.FAILED, "the disk is full")
    schedule.finished(failed.id)
    schedule._admit((running, failed))
    left = {trial.id for trial in iter(schedule.next, None)}
    assert len(left) == 4 and not left & {running.id, failed.id}


def opened_search(workspace, tmp_path, **words) -> tuple[ArmSearch, Trial]:
    """A search whose first trial runs."""
    schedule = scheduled(search_study(tmp_path, **words), workspace)
    first = schedule.next()
    (search,) = (s for s in schedule.searches.opened.values() if first.id in s.trials)
    return search, first


def test_a_trial_that_the_search_does_not_ask_about_is_never_stopped(workspace, tmp_path):
    search, first = opened_search(workspace, tmp_path, early_stopping="asha")
    assert search.report("somebody else's", Epoch(1, {"valid_nll": 1e9}))
    assert search.report(first.id, Epoch(1, {"valid_nll": 4.0}))
    assert search._open[first.id].study.get_trials()[0].intermediate_values == {1: 4.0}


def test_without_early_stopping_no_epoch_is_reported(workspace, tmp_path):
    search, first = opened_search(workspace, tmp_path)
    assert search.report(first.id, Epoch(1, {"valid_nll": 4.0}))
    assert search._open[first.id].study.get_trials()[0].intermediate_values == {}


def test_a_search_that_is_opened_again_knows_its_results_and_where_trials_stopped(
    workspace, tmp_path
):
    search, first = opened_search(workspace, tmp_path, early_stopping="asha")
    outcome = Outcome(status=Status.COMPLETED, metrics={"valid_nll": 4.0})
    epochs = [Epoch(1, {"valid_nll": 5.0}, tokens=30)]
    search.tell(journals.Journal(first, epochs=epochs, outcome=outcome))
    second = search.ask()
    assert search.report(second.id, Epoch(1, {"valid_nll": 9.0})) in (True, False)
    assert search.report(second.id, Epoch(2, {"valid_nll": 9.0})) in (True, False)
    search.tell(journals.Journal(second, epochs=epochs, outcome=Outcome(status=Status.PRUNED)))
    again, _ = opened_search(workspace, tmp_path, early_stopping="asha")
    assert again._values == {first.id: 4.0} == search._values
    assert again._stopped == {second.id: 2} and again.ended == [first.id, second.id]
    assert [again.report(second.id, Epoch(number)) for number in (1, 2, 3)] == [
        True,
        False,
        False,
    ]


def test_a_kill_while_a_complete_study_opens_leaves_its_record_whole(
    workspace, tmp_path, monkeypatch
):
    study = search_study(tmp_path, arms=["a"], synchronous=True)
    complete_all(scheduled(study, workspace), workspace, rate_of)
    key = scheduled(study, workspace).plan.record.key
    before = study_record.read(workspace.store, key)

    def write_then_die(store: Any, record: Any) -> None:
        write(store, record)
        raise Killed

    write = study_record.write
    monkeypatch.setattr(study_record, "write", write_then_die)
    with pytest.raises(Killed):
        scheduled(study, workspace)
    assert before.trials and study_record.read(workspace.store, key) == before


def test_a_suggestion_that_no_trial_was_made_of_is_given_up_once(workspace, tmp_path):
    """The driver was killed in between. The search's other trials keep their state."""
    search, first = opened_search(workspace, tmp_path)
    search.study.ask()
    for _ in range(2):
        again, same = opened_search(workspace, tmp_path)
        states = [trial.state for trial in again.study.get_trials()]
        assert states[:2] == [TrialState.RUNNING, TrialState.FAIL] and same.id == first.id


@pytest.mark.slow
@pytest.mark.parametrize("synchronous", [False, True])
def test_a_search_killed_at_any_line_of_its_log_loses_and_doubles_nothing(
    tmp_path, data, monkeypatch, synchronous
):
    """A synchronous one, asked for the same again, gives the same."""
    study = search_study(tmp_path, arms=["a"], trials=4, synchronous=synchronous, batch=2)
    append, written, searched = _Lines.append_logs, [], []

    def append_then_die(self: _Lines, logs: list) -> None:
        append(self, logs)
        written.append(logs)
        if len(written) == killed_at:
            raise Killed

    monkeypatch.setattr(_Lines, "append_logs", append_then_die)
    for killed_at in itertools.count():  # at 0 never
        workspace = new_workspace(tmp_path / str(killed_at), data)
        written.clear()
        with contextlib.suppress(Killed):
            complete_all(scheduled(study, workspace), workspace, rate_of)
        if 0 < killed_at != len(written):
            break
        schedule = scheduled(study, workspace)
        complete_all(schedule, workspace, rate_of)
        (search,) = schedule.searches.opened.values()
        searched.append(list(search.trials))
        assert schedule.complete and len(search.trials) == 4 and search.over
    assert killed_at > 4 and (not synchronous or searched == searched[:1] * killed_at)


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_search_of_which_the_study_knows_more_trials_was_cut_short(
    workspace, tmp_path, synchronous
):
    """A synchronous one suggests the same again."""
    words: dict[str, Any] = {"batch": 1, "synchronous": True} if synchronous else {}
    search, _ = opened_search(workspace, tmp_path, **words)
    search.check_whole(1)
    if synchronous:
        return search.check_whole(2)
    with pytest.raises(RecordError, match="only 1 of 2 trials of a are left"):
        search.check_whole(2)
    return None


def test_a_batch_that_was_begun_is_filled_and_no_more_than_the_trials_there_are(
    workspace, tmp_path
):
    words = {"arms": ["a"], "trials": 5, "batch": 3, "synchronous": True}
    opened_search(workspace, tmp_path, **words)
    again, _ = opened_search(workspace, tmp_path, **words)
    assert len(again.trials) == 3
    for trial_id in [*again.trials]:
        outcome = Outcome(status=Status.COMPLETED, metrics={"valid_nll": 4.0})
        again.tell(journals.Journal(again.trials[trial_id], outcome=outcome))
    while len(again.trials) == 3:
        again.ask()
    last, _ = opened_search(workspace, tmp_path, **words)
    assert len(last.trials) == 5


@pytest.mark.parametrize(
    ("keep", "runner", "lacks"),
    [("weights", None, True), ("nothing", None, False), ("weights", "stand_in", False)],
)
def test_only_a_trial_that_keeps_weights_can_lack_them(keep, runner, lacks):
    """A runner that a study names keeps what it likes."""
    plan = SimpleNamespace(study=SimpleNamespace(runner=runner))
    known = {"built_on": True, "missing": False}
    schedule: Any = SimpleNamespace(plan=plan, _is_built_on=known.get, _has_weights={})
    schedule._has_weights["built_on"] = False
    trial: Any = SimpleNamespace(id="built_on", keep=keep)
    assert Schedule._lacks_weights(schedule, trial) is lacks
    assert Schedule._lacks_weights(schedule, SimpleNamespace(id="missing", keep=keep)) is False  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "abandoned", "running", "over"),
    [
        (5, False, {}, True),
        (4, True, {}, True),
        (5, False, {"t": None}, False),
        (4, False, {}, False),
        (4, True, {"t": None}, False),
    ],
)
def test_a_search_is_over_when_nothing_is_to_come_and_nothing_runs(asked, abandoned, running, over):
    planned = SimpleNamespace(words=SimpleNamespace(trials=5))
    search: Any = SimpleNamespace(
        planned=planned, _asked=asked, _abandoned=abandoned, _open=running
    )
    search._spent = ArmSearch._spent.fget(search)  # type: ignore[attr-defined]
    assert ArmSearch.over.fget(search) is over  # type: ignore[attr-defined]
