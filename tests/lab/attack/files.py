"""Damage every kind of durable file, then read it or resume: the right result, or a clear error.

    attack(seed=1, tries=5)  # of each kind: every damage once

Each attempt restores a small workspace (finished, or cut in the middle of a trial), damages one
file (half of them without a new time, as a disk does), and runs one command in this process; a few
run as real processes. If the command succeeds, what it says and what is then in the store must be
what it is without the damage, to the bit. If it fails, it must end with one error that names the
file or the trial.

Not attacked: `mlflow.db`, which is SQLite's and MLflow's (tables do not read it).
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.attack.tally import Tally
from tests.lab.attack.workspace import (
    KEY,
    QUERY,
    Pristine,
    Said,
    ablate,
    build,
    results,
    runs_by_trial,
    without_times,
)
from tests.support.damage import as_new_process

HANG_SECONDS = 600  # a busy machine may take minutes for seconds of work
AS_PROCESS = 40  # every 40th attempt runs the command as a process of its own
KINDS = {  # kind -> the workspace, and where its files are
    "journal": ("finished", "store/trials/*/journal.json"),
    "journal of a cut study": ("searching", "store/trials/*/journal.json"),
    "checkpoint": ("training", "store/trials/*/last.safetensors"),
    "weights": ("finished", "store/trials/*/weights.safetensors"),
    "weights of a cut study": ("training", "store/trials/*/weights.safetensors"),
    "kept tokens": ("finished", "store/trials/*/tokens/*.arrow"),
    "readings": ("finished", "store/trials/*/readings.json"),
    "search log": ("finished", "searches/*.log"),
    "search log of a cut study": ("searching", "searches/*.log"),
    "study record": ("finished", "store/studies/*/study.json"),
    "analyses": ("finished", "store/studies/*/analyses.json"),
    "results": ("finished", "store/studies/*/results/**/*.*"),
    "table contents": ("finished", "store/tables/*.json"),
    "driver": ("finished", "store/studies/*/driver.json"),
    "corpus": ("finished", "data/encoded/*/*.*"),
    "mirror": ("finished", "mirror/**/*.*"),
}
PIPED = ("journal", "weights", "kept tokens", "study record", "search log", "corpus", "mirror")
COMMANDS: dict[str, Callable[[Pristine], Sequence[str]]] = {
    "study": lambda made: ("study", made.study, "--local"),
    "table": lambda made: ("table", KEY),
    "status": lambda made: ("status", KEY),
    "query": lambda made: ("query", QUERY),
    "rerun": lambda made: ("rerun", made.child),
    "sync": lambda made: ("sync",),
    "analyze": lambda made: ("analyze", "rank", made.trained),
    "tokens": lambda made: ("tokens", *made.finals),
    "report": lambda made: ("report", KEY),
    "provenance": lambda made: ("provenance", made.table),
}


def flip_bit(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def change_digit(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    digits = [match.start() for match in re.finditer(rb"\d", data)]
    if not digits:
        return flip_bit(data, rng, others)
    at = rng.choice(digits)
    new = rng.choice([digit for digit in b"0123456789" if digit != data[at]])
    return data[:at] + bytes([new]) + data[at + 1 :]


def zero_last_quarter(data: bytes, _: random.Random, __: list[bytes]) -> bytes:
    quarter = max(1, len(data) // 4)
    return data[:-quarter] + bytes(quarter)


def truncate(data: bytes, rng: random.Random, _: list[bytes]) -> bytes:
    return data[: rng.randrange(len(data))]


def another_file(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Another file of the same kind, or JSON of another shape."""
    shapes = [b"[]", b"{}", b"null", b"7", b'"text"', b'{"trial": []}', b"[" * 99_999]
    return rng.choice([*(other for other in others if other != data), *shapes])


def make_pipe(path: Path) -> None:
    """A pipe in the place of the file, which nobody writes to: whoever waits for it hangs."""
    path.unlink()
    os.mkfifo(path)


DAMAGES = (flip_bit, change_digit, zero_last_quarter, truncate, another_file)


class Hang(BaseException):
    """A command did not end in time. (A `TimeoutError` would count as an error of the system.)"""


@dataclass
class Attempt:
    """One damage to one file, and one command after it."""

    made: Pristine
    seed: int
    number: int
    kind: str = ""
    name: str = ""  # of the damaged file, in the workspace
    command: str = ""
    words: Sequence[str] = ()
    what: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        rng = random.Random(f"{self.seed}/{self.number}")
        self.kind = list(KINDS)[self.number % len(KINDS)]
        which, pattern = KINDS[self.kind]
        self.command = rng.choice(list(COMMANDS)) if which == "finished" else "study"
        self.words = COMMANDS[self.command](self.made)
        self.made.expected(self.words)
        self.made.restore(which)
        files = sorted(path for path in self.made.work.glob(pattern) if path.stat().st_size)
        path, damage = rng.choice(files), self._damage()
        others = [file.read_bytes() for file in files]
        status = path.stat()
        path.write_bytes(damage(path.read_bytes(), rng, others))
        is_pipe = self.kind in PIPED and rng.random() < 0.1
        if is_pipe:
            make_pipe(path)
        elif rng.random() < 0.5:  # as a disk damages it: what asks for the time sees no change
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        as_new_process()
        self.name = str(path.relative_to(self.made.work))
        how = make_pipe if is_pipe else damage
        self.what = (
            f"attack(seed={self.seed}) number {self.number}: {how.__name__} of {self.name}, "
            f"then {self.command}"
        )
        self._judge(_run(self.words, self.made, self.number))

    def _damage(self) -> Callable[[bytes, random.Random, list[bytes]], bytes]:
        """Each kind gets all damages in turn, in an order of its own."""
        deck = random.Random(f"{self.seed}/{self.kind}").sample(DAMAGES, len(DAMAGES))
        return deck[self.number // len(KINDS) % len(DAMAGES)]

    def _judge(self, said: Said | str) -> None:
        if isinstance(said, str):
            self.counts["hangs" if said == "hang" else "tracebacks"] += 1
            self.what += f"\n{said}"
        elif "Traceback (most recent call last)" in said.error:
            self.counts["tracebacks"] += 1
            self.what += f"\n{said.error}"
        elif said.status != 0:
            self._judge_error(said)
        else:
            self._judge_success(said)

    def _judge_error(self, said: Said) -> None:
        """The error is the last line, and says which file or whose trial it is about.

        `sync` does not stop at a trial's error: it delivers the others, and its result names it.
        """
        text = said.out if self.command == "sync" and said.status == 6 else said.error
        named = [Path(self.name).name, *re.findall(r"[0-9a-f]{16}", self.name)]
        clear = text is said.out or text.strip().split("\n")[-1].startswith("ablate: ")
        if not clear or not any(name in text for name in named):
            self.counts["wrong"] += 1
            self.what += f"\nstatus {said.status}: {said.error}{said.out[-500:]}"

    def _judge_success(self, said: Said) -> None:
        if self.command in ("study", "sync"):
            self._judge_store()
        elif without_times(said.out) != self.made.expected(self.words):
            self.counts["wrong"] += 1
            self.what += f"\n{said.out}{said.error}"

    def _judge_store(self) -> None:
        """Everything is there once, as without the damage."""
        try:
            now, expected = results(self.made.workspace.store), self.made.results
        except Exception as error:  # sync succeeds without what only tables read
            if self.command == "study":
                self.counts["lost"] += 1
                self.what += f"\n{error}"
            return
        lost = [name for name in expected if name not in now]
        self.counts["lost"] += bool(lost)
        self.counts["wrong"] += any(now[name] != expected[name] for name in now if name in expected)
        # A slow machine leaves records to be delivered later, and says so.
        if ablate("sync", "--workspace", str(self.made.work)).status != 0:
            return
        runs = runs_by_trial(self.made.work / "mlflow.db")
        self.counts["doubled"] += any(num > 1 for _, num in runs)
        self.counts["lost"] += self.command == "study" and len(runs) < len(self.made.runs)
        if sum(self.counts.values()):
            different = [name for name in expected if now.get(name) != expected[name]]
            self.what += f"\ndifferent: {[(name, now.get(name)) for name in different]}"


def _run(words: Sequence[str], made: Pristine, number: int) -> Said | str:
    """What the command said; "hang", or the traceback, if it did not end as a command should."""
    words = (*words, "--workspace", str(made.work))
    if number % AS_PROCESS == AS_PROCESS - 1:
        return _process(words)
    try:
        with _limited():
            return ablate(*words)
    except Hang:
        return "hang"
    except Exception:
        return traceback.format_exc()


def _process(words: Sequence[str]) -> Said | str:
    line = [sys.executable, "-m", "ablate", *words]
    try:
        ended = subprocess.run(line, capture_output=True, text=True, timeout=HANG_SECONDS)
    except subprocess.TimeoutExpired:
        return "hang"
    if ended.returncode < 0:
        return f"killed by {signal.Signals(-ended.returncode).name}\n{ended.stderr}"
    return Said(ended.returncode, ended.stdout, ended.stderr)


@contextmanager
def _limited() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(HANG_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attack(seed: int, tries: int, made: Pristine | None = None) -> list[Tally]:
    """Damage files of each kind `tries` times; count by kind what gave way."""
    if made is None:
        with tempfile.TemporaryDirectory(prefix="ablate-attack-") as folder:
            return attack(seed, tries, build(Path(folder)))
    tallies: dict[str, list[Attempt]] = {kind: [] for kind in KINDS}
    for number in range(tries * len(KINDS)):
        attempt = Attempt(made, seed, number)
        attempt.run()
        tallies[attempt.kind].append(attempt)
    return [_tally(kind, attempts) for kind, attempts in tallies.items() if attempts]


def _tally(kind: str, attempts: list[Attempt]) -> Tally:
    counts = sum((attempt.counts for attempt in attempts), Counter())
    failed = tuple(attempt.what for attempt in attempts if sum(attempt.counts.values()))
    return Tally(kind=f"files: {kind}", tried=len(attempts), examples=failed, **counts)
