"""Runs the table in a process of its own; where that dies or loses the device, another goes on.

After an assertion on a GPU, or a crash of its driver, no later call of the same process succeeds.
So this process never touches the device: it starts one that does, and reads its rows from the file.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu import table
from benchmarks.gpu.table import FAILED, NOT_RUN, Row

ROOT = Path(__file__).parents[2]

GRACE = 30.0  # seconds beyond its time, after which a process that hangs is killed
DIED = -1  # the exit status of a process that was killed for that


@dataclass
class Watched:
    """The rows of all processes so far."""

    words: Sequence[str]  # of the command line
    file: Path
    end: float  # of the time

    def run(self) -> int:
        """Start processes until every case has a row; return the exit status."""
        self.file.unlink(missing_ok=True)
        rows: list[Row] = []
        while True:
            status = self._process(after=len(rows))
            if not self.file.exists():
                return status or 1  # no device, or no case of a name: it says so
            told = json.loads(self.file.read_text())
            cases, began, rows = told["cases"], told["after"] == len(rows), table.rows_of(told)
            rest = cases[len(rows) :]
            if rest and not began:
                self._add(told, rows, [_row(case, FAILED, "the device was lost") for case in rest])
            elif rest and status == DIED:
                why = "out of time: its process hung"
                self._add(told, rows, [_row(case, NOT_RUN, why) for case in rest])
            elif rest and status != table.LOST:
                self._add(told, rows, [_row(rest[0], FAILED, f"its process {_ended(status)}")])
            if len(rows) == len(cases):
                return 1 if any(row.status == FAILED for row in rows) else 0

    def _process(self, after: int) -> int:
        left = self.end - time.perf_counter()
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        more = [f"--json={self.file}", f"--seconds={left}", f"--after={after}"]
        command = [sys.executable, "-m", "benchmarks.gpu", *self.words, *more]
        try:
            limit = max(left, 0) + GRACE
            return subprocess.run(
                command, env={**os.environ, "PYTHONPATH": path}, timeout=limit
            ).returncode
        except subprocess.TimeoutExpired:
            return DIED

    def _add(self, told: dict, rows: list[Row], more: Sequence[Row]) -> None:
        rows += more
        print(*map(table.text_of, more), sep="\n", flush=True)
        table.write(self.file, {name: told[name] for name in told if name != "rows"}, rows)


def watched(words: Sequence[str], json_file: str | None, end: float) -> int:
    """Run the table of a command line; `end` is on the clock `time.perf_counter`."""
    with tempfile.TemporaryDirectory(prefix="ablate-gpu-rows-") as folder:
        file = Path(json_file) if json_file else Path(folder) / "rows.json"
        return Watched(words, file.absolute(), end).run()


def _row(case: dict[str, str], status: str, why: str) -> Row:
    return Row(**case, status=status, notes=(why,))


def _ended(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    return f"was killed by signal {-status} ({signal.Signals(-status).name})"
