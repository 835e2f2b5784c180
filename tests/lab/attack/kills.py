"""A storm of kills over the processes of a running study, by role; the study is resumed each time.

    python -m tests.lab.attack.kills [SEED [TRIES [ROLE...]]]

Two searches that keep all workers busy are confirmed under Ray. A process of one role gets a signal
after some epochs: SIGKILL, SIGTERM, SIGHUP, or SIGSTOP with SIGCONT a few seconds later. What ended
is started again, under a clock that is an hour ahead, an hour behind, or right. In the end there
must be, bit for bit, the table, the searches and the epochs of a run that nobody disturbed, and one
run of each trial in MLflow.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ablate.compare.judged import Judged
from ablate.record import attended
from ablate.record.places import ui_command, ui_environment
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.journal import Journal
from ablate.store.store import Store
from tests.lab.attack.tally import Tally
from tests.support import lab, places
from tests.support.tables import written

STUDIES = Path(__file__).parent / "studies"
CLOCK = places.TESTS / "lab" / "faults" / "clock"
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGSTOP)
CLOCKS = (0, 3600, -3600)  # seconds
KILLS_A_STUDY = 6
SECONDS_A_KILL = 0.02  # how much longer an epoch takes for each kill of its study
STOPPED_SECONDS = 3.0
HANG_SECONDS = 180.0  # without an epoch, a trial's end or the command's: also on a busy machine
RESUMES = 8  # starts, after the last kill, until the study must be complete
SCALES = ("exact", "pruned")
ENDS = {"completed": "FINISHED", "pruned": "KILLED"}  # how trials end here, and their runs


@dataclass
class Counts:
    """What gave way, and how to repeat it."""

    tried: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    tracebacks: int = 0
    hangs: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, what: str, number: int, example: str) -> None:
        if number:
            setattr(self, what, getattr(self, what) + number)
            self.examples.append(f"{what}: {example}")


class Place:
    """A workspace, and the study's command in it."""

    def __init__(self, folder: Path, scale: str, data: Path | None = None) -> None:
        self.folder, self.scale, self.key = folder, scale, f"stormy@{scale}"
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True)
        if data is not None:
            (self.workspace / "data").symlink_to(data)
        shutil.copytree(STUDIES, folder, dirs_exist_ok=True)
        self.store = Store(str(self.workspace / "store"))
        self.log = folder / "log"
        self.mlflow: list[str] = []

    def start(self, *words: str, **more: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, "OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
        env |= {"RAY_worker_niceness": "0", "RAY_TMPDIR": str(self.folder), **more}
        env["PYTHONPATH"] = os.pathsep.join(map(str, (self.folder, CLOCK, places.ROOT)))
        command = [sys.executable, "-m", "ablate", *words, "--workspace", str(self.workspace)]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*command, *self.mlflow],
                cwd=self.folder,
                env=env,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_heeds_sighup,
            )

    def study(self, *words: str, **more: str) -> subprocess.Popen[bytes]:
        return self.start("study", "stormy.py", "--scale", self.scale, *words, **more)

    @property
    def known(self) -> dict[str, Journal]:
        return journals.read_all(self.store)

    def progress(self) -> int:
        """The number of epochs and ends in the journals; it may shrink when a trial resumes."""
        return sum(len(journal.epochs) + bool(journal.outcome) for journal in self.known.values())

    def finished(self) -> dict[str, bytes | None]:
        """The journals of the trials that have an outcome, to the byte."""
        ended = [name for name, journal in self.known.items() if journal.outcome is not None]
        return {name: self.store.read(journals.key(name)) for name in ended}


def _heeds_sighup() -> None:
    """Under nohup, SIGHUP is ignored, and children inherit that."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@dataclass(frozen=True)
class Found:
    """A study's results, without what depends on when and where they were computed."""

    trials: dict[str, Any]
    searches: Any
    table: str


def found(place: Place) -> Found:
    known, record = place.known, study_record.read(place.store, place.key)
    table = written(Judged(record, known), "markdown")
    table = re.sub(r" *· *[\d.]+ ?\w+ of training in all", "", table)
    return Found({n: _results(j) for n, j in known.items()}, record.searches, table)


def _results(journal: Journal) -> tuple[Any, ...]:
    end = journal.outcome
    curve = [(epoch.number, epoch.metrics["valid_nll"]) for epoch in journal.epochs]
    return end and str(end.status), journal.metrics, end and end.digest, curve


@cache
def undisturbed() -> tuple[Found, Path]:
    """What a run without Ray finds that nobody disturbs; its corpus, encoded, for the others."""
    place = Place(Path(tempfile.mkdtemp(prefix="kills-", dir=_short())), "exact")
    _register(place.folder)
    process = place.study("--local")
    if process.wait(600):
        raise RuntimeError(f"the undisturbed run failed: {place.log.read_text()}")
    return found(place), place.workspace / "data"


def _short() -> str:
    """A folder with a short path, below which Ray makes its sockets."""
    return "/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir()


def _register(folder: Path) -> None:
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)


class Storm:
    """One study, the processes of one role, and what became of it."""

    def __init__(self, place: Place, role: str, rng: random.Random, counts: Counts) -> None:
        self.place, self.role, self.rng, self.counts = place, role, rng, counts
        self.server: subprocess.Popen[bytes] | None = None
        self.before: dict[str, bytes | None] = {}
        self.story: list[str] = []
        self.driver: subprocess.Popen[bytes] | None = None
        self.seconds = "0"

    def run(self, signals: list[signal.Signals]) -> int:
        """Send these signals, one after another; return how many there was time for."""
        self.seconds = str(0.05 + SECONDS_A_KILL * len(signals))
        sent = 0
        for number in signals:
            if not self._strike(number):
                break
            sent += 1
        self.counts.tried += sent
        self._finish()
        return sent

    def _strike(self, number: signal.Signals) -> bool:
        """Send a signal after some epochs; False if the study was complete before."""
        epochs = self.rng.randint(1, 6)
        for _ in range(RESUMES):
            driver, start = self._running(), self.place.progress()
            if self._until(lambda start=start: self.place.progress() >= start + epochs, driver):
                break
            if driver.poll() == 0:
                return False
        else:
            return False
        time.sleep(self.rng.uniform(0, 0.3))
        pids = self._targets(driver)
        if not pids:
            return driver.poll() is None and self._strike(number)
        self.story.append(f"{number.name} to {self.role} after {self.place.progress()}")
        self._send(pids, number)
        if number == signal.SIGSTOP:
            time.sleep(STOPPED_SECONDS)
            self._send(pids, signal.SIGCONT)
        elif self.role == "MLflow":
            self._start_server()
        elif self.role == "driver":
            self._wait(driver)
        return True

    def _running(self) -> subprocess.Popen[bytes]:
        """The study's command, started if it has ended."""
        if self.driver is None or self.driver.poll() is not None:
            if self.driver is not None and "ended" not in self.story[-1]:
                said = self._said().strip().splitlines()[-1][:200]
                self.story.append(f"ended with {self.driver.poll()} ({said})")
            if self.role == "MLflow" and self.server is None:
                self._start_server()
            clock = str(self.rng.choice(CLOCKS))
            self.story.append(f"start, clock {clock}")
            more = {"FAULTS_CLOCK": clock, "FAULTS_CLOCK_IN": "default_worker.py,-m ablate"}
            words = ("--workers", "2")
            self.driver = self.place.study(*words, KILLS_SECONDS=self.seconds, **more)
        return self.driver

    def _targets(self, driver: subprocess.Popen[bytes]) -> list[int]:
        if self.role == "driver":
            return [driver.pid] if driver.poll() is None else []
        if self.role == "MLflow":
            return [] if self.server is None else [self.server.pid]
        mark = {"worker": "WarmWorker", "raylet": "raylet/raylet", "GCS": "gcs_server"}[self.role]
        pids = [pid for pid in lab.descendants(driver.pid) if mark in lab.cmdline(pid)[:300]]
        return pids and [self.rng.choice(sorted(pids))]

    def _send(self, pids: list[int], number: int) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if self.role == "MLflow" else os.kill)(pid, number)

    def _until(self, condition: Callable[[], bool], driver: subprocess.Popen[bytes]) -> bool:
        """Wait for it; False if the driver ends first, or hangs."""
        last, since = -1, time.monotonic()
        while driver.poll() is None:
            if condition():
                return True
            now = self.place.progress()
            if now != last:
                last, since = now, time.monotonic()
            if time.monotonic() - since > HANG_SECONDS:
                self._hangs(driver)
                return False
            time.sleep(0.05)
        return False

    def _wait(self, driver: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a driver, and check that it undid nothing."""
        self._until(lambda: False, driver)
        self.story.append(f"ended with {driver.returncode}")
        now = self.place.finished()
        lost = sum(now.get(name) != data for name, data in self.before.items())
        self.counts.add("lost", lost, f"finished trials changed: {self._story()}")
        self.before = now

    def _hangs(self, driver: subprocess.Popen[bytes]) -> None:
        self.counts.add("hangs", 1, f"{self._story()}: {self._said()[-500:]}")
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()

    def _finish(self) -> None:
        """Run the study to its end, undisturbed, and compare."""
        for _ in range(RESUMES):
            driver = self._running()
            self._wait(driver)
            if driver.returncode == 0:
                break
        else:
            self.counts.add("lost", 1, f"never complete: {self._story()}: {self._said()[-500:]}")
            return
        said = self._said()
        self.counts.add("tracebacks", said.count("Traceback"), f"{self._story()}: {said[-2000:]}")
        self._compare()
        self._compare_records()

    def _compare(self) -> None:
        known = self.place.known
        ends = [(j.trial.id, j.outcome) for j in known.values()]
        odd = [end for end in ends if end[1] is None or str(end[1].status) not in ENDS]
        self.counts.add("lost", len(odd), f"{odd[:2]}: {self._story()}")
        twice = sum(len(j.epochs) > len({e.number for e in j.epochs}) for j in known.values())
        self.counts.add("doubled", twice, f"epochs: {self._story()}")
        if self.place.scale == "exact":
            expected, got = undisturbed()[0], found(self.place)
            missing = expected.trials.keys() - got.trials.keys()
            self.counts.add("lost", len(missing), f"trials {missing}: {self._story()}")
            self.counts.add("wrong", int(got != expected), f"table or trials: {self._story()}")
            return
        record = study_record.read(self.place.store, self.place.key)
        few = sum(8 - len(set(search.trials)) for search in record.searches)
        self.counts.add("lost", few, f"suggestions: {self._story()}")
        wrong = sum(not _as_computed(journal) for journal in known.values())
        self.counts.add("wrong", wrong, f"epochs: {self._story()}")

    def _compare_records(self) -> None:
        """Each trial has one run, which has ended, with a point per epoch."""
        for _ in range(4):  # a server may be starting
            self._server_is_up()
            if self.place.start("sync").wait(300) == 0:
                break
        known, runs = self.place.known, self._runs()
        wanted = {
            (name, ENDS.get(str(journal.status), "?"), len(journal.epochs))
            for name, journal in known.items()
        }
        lost, doubled = wanted - set(runs), sum(runs.values()) - len({name for name, *_ in runs})
        self.counts.add("lost", len(lost), f"records {sorted(lost)[:3]}: {self._story()}")
        self.counts.add("doubled", doubled, f"records: {self._story()}")

    def _runs(self) -> Counter[tuple[str, str, int]]:
        """Trial, status and number of points of each active run."""
        query = (
            "select value, status, (select count(*) from metrics where run_uuid = runs.run_uuid "
            "and key = 'valid_nll') from tags join runs using (run_uuid) "
            "where key = 'ablate.trial' and lifecycle_stage = 'active'"
        )
        with contextlib.closing(sqlite3.connect(self.place.workspace / "mlflow.db")) as database:
            return Counter(map(tuple, database.execute(query)))

    def _story(self) -> str:
        return f"{self.place.scale}, {'; '.join(self.story)}"

    def _said(self) -> str:
        return self.place.log.read_text(errors="replace")

    # MLflow's server, over the database of the workspace

    def _start_server(self) -> None:
        if self.server is not None:
            attended.stop(self.server)
            port = self.place.mlflow[1].rpartition(":")[2]
        else:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = str(free.getsockname()[1])
        self.place.mlflow = ["--mlflow", f"http://127.0.0.1:{port}"]
        uri, artifacts = f"sqlite:///{self.place.workspace}/mlflow.db", self.place.workspace / "art"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        quiet |= {"preexec_fn": _heeds_sighup}
        env = {**os.environ, **ui_environment(uri)}
        self.server = attended.start(ui_command(uri, artifacts, int(port)), env=env, **quiet)

    def _server_is_up(self) -> None:
        if self.server is not None:
            lab.wait_for(lambda: lab.answers(f"{self.place.mlflow[1]}/health"), "MLflow")

    def close(self) -> None:
        if self.driver is not None and self.driver.poll() is None:
            self.driver.kill()
            self.driver.wait()
        if self.server is not None:
            attended.stop(self.server)


def _as_computed(journal: Journal) -> bool:
    """Return whether each epoch is what the task computes, and a completed trial has all."""
    sys.path.insert(0, str(STUDIES))
    try:
        from stormy_runner import Sloping  # pyright: ignore[reportMissingImports]
    finally:
        sys.path.remove(str(STUDIES))
    task = Sloping(journal.trial, None)
    curve = [epoch.metrics["valid_nll"] for epoch in journal.epochs]
    whole = len(curve) == task.epochs or str(journal.status) == "pruned"
    return whole and curve == [task._nll(epoch + 1) for epoch in range(len(curve))]


ROLES = ("driver", "worker", "raylet", "GCS", "MLflow")


def attack(seed: int, tries: int) -> list[Tally]:
    """Send `tries` signals in all: as many to each role, as many of each kind."""
    shares = [tries // len(ROLES) + (n < tries % len(ROLES)) for n in range(len(ROLES))]
    return [storms(role, seed, share) for role, share in zip(ROLES, shares, strict=True) if share]


def storms(role: str, seed: int, tries: int) -> Tally:
    """Studies under kills of one role, until there have been that many."""
    rng, counts, number = random.Random(f"{seed} {role}"), Counts(), 0
    deck: Iterator[signal.Signals] = iter(())
    left = tries
    while left:
        signals = []
        for _ in range(min(left, KILLS_A_STUDY)):
            signal_ = next(deck, None)
            if signal_ is None:
                deck = iter(rng.sample(SIGNALS, len(SIGNALS)))
                signal_ = next(deck)
            signals.append(signal_)
        left -= _one_storm(role, rng, counts, signals, SCALES[number % len(SCALES)])
        number += 1
    again = f"python -m tests.lab.attack.kills {seed} {tries} {role}"
    examples = tuple(f"{again}: {example}" for example in counts.examples)
    return Tally(f"kill {role}", **{**vars(counts), "examples": examples})


def _one_storm(
    role: str, rng: random.Random, counts: Counts, signals: list[signal.Signals], scale: str
) -> int:
    data = undisturbed()[1]
    with tempfile.TemporaryDirectory(
        prefix="kills-", dir=_short(), ignore_cleanup_errors=True
    ) as folder:
        storm = Storm(Place(Path(folder), scale, data), role, rng, counts)
        try:
            sent = storm.run(signals)
        finally:
            storm.close()
        print(f"{role}: {storm._story()}; so far {counts}", file=sys.stderr, flush=True)
    return max(sent, 1)


def main(seed: str = "17", tries: str = "60", *roles: str) -> None:
    for role in roles:
        print(storms(role, int(seed), int(tries)), flush=True)
    for tally in () if roles else attack(int(seed), int(tries)):
        print(tally, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
