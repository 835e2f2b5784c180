"""Studies killed at random moments, stopped and resumed: nothing lost, nothing done twice.

`--kills N` sets how often a study under Ray is killed (`make test-kills`: thirty times). What an
undisturbed run finds without Ray is what every disturbed one must find, with Ray and without.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ablate.compare.judged import Judged
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.trial import checkpoint
from tests.conftest import KILLS_A_STUDY
from tests.support.tables import written

pytest.importorskip("ray")

STUDIES = ("slow.py", "real.py", "searched.py", "rates.toml", "often.py", "deadly.py")
MOST_WRITES = 60  # to the store, of the runs that are killed at one; of `make test-kills`, 24
PROMPT = 15.0  # seconds within which the workers of a killed driver are gone


@dataclass(frozen=True)
class Found:
    """A study's results, without the time that it took."""

    trials: dict[str, Any]  # by id: status, metrics, digest of the weights, epochs
    searches: Any
    table: str


def found(place: Any, key: str) -> Found:
    record = study_record.read(place.store, key)
    known = journals.read_all(place.store, record.trial_ids())
    assert sorted(known) == sorted(record.trial_ids())
    table = re.sub(
        r" *· *[\d.]+ ?\w+ of training in all", "", written(Judged(record, known), "markdown")
    )
    return Found({name: outcome(known[name]) for name in known}, record.searches, table)


def outcome(journal: journals.Journal) -> tuple:
    epochs = [(epoch.number, epoch.metrics["valid_nll"]) for epoch in journal.epochs]
    assert [number for number, _ in epochs] == list(range(1, len(epochs) + 1))
    end = journal.outcome
    return end and end.status, journal.metrics, end and end.digest, epochs


def check_records(place: Any, key: str) -> None:
    """Each trial has one run, the study has one, and all of them have ended."""
    place.ablate("sync").succeeded()
    record = study_record.read(place.store, key)
    with sqlite3.connect(place.workspace / "mlflow.db") as database:
        query = (
            "select value, status from tags join runs using (run_uuid) "
            "where key = ? and lifecycle_stage = 'active'"
        )
        runs = dict(Counter(database.execute(query, ("ablate.trial",))))
        studies = dict(Counter(database.execute(query, ("ablate.study_run",))))
    statuses = {"completed": "FINISHED", "pruned": "KILLED"}
    known = journals.read_all(place.store)
    assert set(known) == set(record.trial_ids())
    assert runs == {(name, statuses[known[name].status]): 1 for name in known}
    assert studies == {(key, "FINISHED"): 1}


def progress(place: Any) -> int:
    """The number of epochs in the journals."""
    known = journals.read_all(place.store)
    return sum(len(journal.epochs) for journal in known.values())


def done(place: Any) -> dict[str, bytes]:
    """The journals of the trials that have an outcome, to the byte."""
    known = journals.read_all(place.store)
    ended = [name for name, journal in known.items() if journal.outcome is not None]
    return {name: place.store.read(journals.key(name)) for name in ended}


def left_behind(token: str) -> dict[int, str]:
    """The processes that our command has started, which have its token.

    But for Ray's agents: they do nothing, and notice after a minute that their node is gone.
    """
    processes = {}
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit() and token.encode() in (place / "environ").read_bytes():
                processes[int(place.name)] = (place / "cmdline").read_text().replace("\0", " ")
        except OSError:  # it has just ended
            continue
    return {pid: line for pid, line in processes.items() if line and "Agent" not in line}


def wait_for(condition: Any, running: Any, seconds: float = 240.0) -> Any:
    """The condition's result once it is true; None if the command ends before."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        if running.wait(0.05) is not None:
            return None
    raise AssertionError(f"nothing happened for {seconds} s: {running.out}")


@dataclass
class Driver:
    """Runs a study repeatedly; every run except the last is disturbed."""

    place: Any
    arguments: tuple[str, ...]
    rng: random.Random
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    done: list[dict[str, bytes]] = field(default_factory=list)  # after each run

    def start(self) -> Any:
        return self.place.start("study", *self.arguments, env={"ABLATE_TEST": self.token})

    def disturbed(self, number: int, most_epochs: int = 3) -> Any:
        """The end of a run that gets a signal after some epochs; None if it was done before."""
        running, before = self.start(), progress(self.place)
        epochs = self.rng.randint(1, most_epochs)
        if wait_for(lambda: progress(self.place) >= before + epochs, running) is None:
            return None
        time.sleep(self.rng.uniform(0, 0.3))
        os.killpg(running.pid, number) if number == signal.SIGINT else running.kill(number)
        ended = running.ended()
        self.done.append(done(self.place))
        return ended

    def left_behind(self) -> list[str]:
        """The processes that still run after a while."""
        deadline = time.monotonic() + PROMPT
        while (there := left_behind(self.token)) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [line[:200] for line in there.values()]

    def nothing_done_again(self) -> bool:
        """Check that no trial with an outcome has changed."""
        last = done(self.place)
        return all(last[name] == data for known in self.done for name, data in known.items())


@pytest.fixture(scope="module")
def undisturbed(places) -> dict[str, Found]:
    """The results of each study, run without Ray and undisturbed."""
    place = places(*STUDIES)
    for study in ("slow.py", "real.py"):
        place.ablate("study", study, "--local").succeeded()
    return {key: found(place, key) for key in ("slow@s", "real@s")}


@dataclass(frozen=True)
class Story:
    """The runs of one study under Ray."""

    driver: Driver
    retried: journals.Journal  # of a trial whose worker was killed
    killed: list[Any]
    left_behind: list[str]
    stopped: Any
    when_stopped: dict[str, journals.Journal]
    last: Any


@pytest.fixture(scope="module")
def story(places, kills) -> Story:
    """Kill a worker, then the driver a few times, Ctrl-C; the last run is undisturbed."""
    place = places(*STUDIES)
    driver = Driver(place, ("real.py",), random.Random(kills))
    running = driver.start()
    retried = _kill_a_worker(place, running)
    running.kill()
    killed, behind = [running.ended()], driver.left_behind()
    for _ in range(min(kills, KILLS_A_STUDY) - 1):
        killed.append(driver.disturbed(signal.SIGKILL))
        behind += driver.left_behind()
    stopped = driver.disturbed(signal.SIGINT)
    when_stopped = journals.read_all(place.store)
    last = driver.start().ended()
    return Story(driver, retried, killed, behind, stopped, when_stopped, last)


def _kill_a_worker(place: Any, running: Any) -> journals.Journal:
    """The trial that it ran, once another worker has resumed it."""

    def well_started() -> journals.Journal | None:
        known = journals.read_all(place.store).values()
        return next((j for j in known if len(j.epochs) <= 8 and _saved_epochs(place, j) >= 1), None)

    def resumed() -> journals.Journal | None:
        journal = journals.read(place.store, chosen.trial.id)
        attempts = journal.attempts if journal else []
        return journal if len(attempts) > 1 and attempts[-1].from_epoch else None

    chosen = wait_for(well_started, running)
    os.kill(chosen.attempts[-1].pid, signal.SIGKILL)
    return wait_for(resumed, running)


def _saved_epochs(place: Any, journal: journals.Journal) -> int:
    """The number of epochs in the last checkpoint of a running trial."""
    found = checkpoint.read(place.store, checkpoint.last_key(journal.trial.id))
    return 0 if found is None else found[1]["num_epochs"]


def test_a_killed_study_ends_with_the_bits_of_an_undisturbed_one(story, undisturbed):
    assert [ended.status for ended in story.killed] == [-signal.SIGKILL] * len(story.killed)
    assert (story.last.status, story.last.err) == (0, "")
    assert found(story.driver.place, "real@s") == undisturbed["real@s"]


def test_a_killed_driver_leaves_no_worker_training(story):
    assert story.left_behind == []
    assert story.driver.left_behind() == []


def test_a_finished_trial_is_not_run_again(story):
    assert story.driver.nothing_done_again()
    check_records(story.driver.place, "real@s")


def test_a_stopped_study_says_how_to_resume(story):
    workspace = story.driver.place.workspace
    command = f"ablate study real.py --workspace {workspace}"
    said = f"stopped by SIGINT. Everything that was saved is kept; resume with: {command}\n"
    story.stopped.failed(130, said)
    assert "stopped, " in story.stopped.out


def test_a_stopped_trial_resumes_where_it_was(story):
    known = journals.read_all(story.driver.place.store)
    stopped = [journal for journal in story.when_stopped.values() if journal.outcome is None]
    if not stopped:
        pytest.skip("every trial had just ended when the study was stopped")
    for before in stopped:
        later = known[before.trial.id].attempts[len(before.attempts) :]
        assert later[0].from_epoch == len(before.epochs)


def test_a_killed_workers_trial_resumes_from_its_checkpoint(story):
    first, second = story.retried.attempts
    assert first.from_epoch == 0 and second.from_epoch >= 1
    assert first.pid != second.pid
    pattern = rf"is being retried: the worker process \(pid {first.pid} .*\) died: it was killed"
    assert re.search(pattern, story.killed[0].out)


@pytest.mark.more_kills
def test_more_kills(places, undisturbed, kills):
    rng, left = random.Random(-kills), kills - KILLS_A_STUDY
    while left > 0:
        driver = Driver(places(*STUDIES), ("real.py",), rng)
        for _ in range(min(left, KILLS_A_STUDY)):
            driver.disturbed(signal.SIGKILL, most_epochs=8)
            assert driver.left_behind() == []
        left -= KILLS_A_STUDY
        driver.start().ended().succeeded()
        assert found(driver.place, "real@s") == undisturbed["real@s"]
        assert driver.nothing_done_again()
        check_records(driver.place, "real@s")


def test_killed_at_any_write_to_the_store(places, undisturbed, kills):
    """Before it or after it: a study is killed every few writes until it is complete."""
    place, rng = places(*STUDIES), random.Random(kills)
    most, statuses = MOST_WRITES if kills <= KILLS_A_STUDY else 24, []
    while not statuses or statuses[-1] == -signal.SIGKILL:
        env = {"DIE_AT_WRITE": str(rng.randint(1, most))}
        ended = place.ablate("study", "slow.py", "--local", env=env)
        statuses.append(ended.status)
    ended.succeeded()
    assert len(statuses) > 2
    assert found(place, "slow@s") == undisturbed["slow@s"]
    check_records(place, "slow@s")


@pytest.mark.more_kills
def test_an_asynchronous_search_loses_nothing_and_doubles_nothing(places, kills):
    arguments = ("searched.py", "--scale", "asynchronous")
    driver = Driver(places(*STUDIES), arguments, random.Random(kills))
    driver.disturbed(signal.SIGKILL, most_epochs=20)
    driver.start().ended().succeeded()
    check_records(driver.place, "searched@asynchronous")
    _check_suggested(driver.place)
    record = study_record.read(driver.place.store, "searched@asynchronous")
    assert [len(search.trials) for search in record.searches] == [14, 14]
    for search in record.searches:
        confirmed = [trial for trial in record.trials if trial.arm == search.arm]
        assert search.chosen in search.trials and len(confirmed) == 2
    assert driver.nothing_done_again()


def _check_suggested(place: Any) -> None:
    """Every trial that a search suggested was suggested once and has a result."""
    import optuna

    from ablate.tune.search.arm import open_storage

    storage = open_storage(f"folder:{place.workspace / 'searches'}", "searched@asynchronous")
    studies = optuna.get_all_study_summaries(storage)
    assert len(studies) == 2
    for study in studies:
        trials = optuna.load_study(study_name=study.study_name, storage=storage).get_trials()
        assert all(trial.state.is_finished() for trial in trials)
        whole = [trial for trial in trials if "ablate.index" in trial.user_attrs]  # others were cut
        assert sorted(trial.user_attrs["ablate.index"] for trial in whole) == list(range(14))
        pruned = [t for t in trials if t.state == optuna.trial.TrialState.PRUNED]
        assert all(trial.intermediate_values for trial in pruned)


def test_stopped_without_ray(places, kills):
    driver = Driver(places(*STUDIES), ("slow.py", "--local"), random.Random(kills))
    driver.disturbed(signal.SIGTERM).failed(130, "stopped by SIGTERM.", "--local")
    known = journals.read_all(driver.place.store)
    stopped = {n: len(j.epochs) for n, j in known.items() if j.outcome is None}
    assert len(stopped) <= 1
    status = driver.place.ablate("status", "slow")
    assert "resume with: ablate study slow.py" in status.out
    driver.start().ended().succeeded()
    for name, num_epochs in stopped.items():
        attempts = journals.read(driver.place.store, name).attempts
        assert [attempt.from_epoch for attempt in attempts] == [0, num_epochs]
    assert driver.nothing_done_again()


def test_ctrl_c_before_the_first_trial(places):
    place = places(*STUDIES)
    for seconds in (0.0, 0.1):
        running = place.start("study", "slow.py", "--local")
        assert running.wait(seconds) is None
        running.kill(signal.SIGINT)
        ended = running.ended()
        assert ended.status == 130 and "Traceback" not in ended.err
