"""The process of a command: its lines as epochs, its failure as one error, and its end."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablate.config.metrics import Metric
from ablate.errors import TrialError
from ablate.trial.provenance.opened import of_children
from ablate.trial.user.function import unmet
from ablate.trial.user.script_numbers import Epochs, Reads, rows

SHOWN_LINES = 15  # of the output of a command that failed
MOST_CHARACTERS = 200  # of its last line, in an error's first one
OTHERWISE = r"If it prints them otherwise: reads={{'{0}': r'...: (\S+)', ...}}."
PATIENCE_SECONDS = 5  # for a command that ends its own processes before itself
WORD = re.compile(r"\w")
PR_SET_PDEATHSIG = 1  # Linux: signal the command when the worker that started it dies


@dataclass
class CommandProcess:
    """A command being run, and what it has printed."""

    arguments: list[str]
    folder: Path
    where: str  # file and line that registered it
    last: deque[str] = field(default_factory=lambda: deque(maxlen=SHOWN_LINES))
    names: set[str] = field(default_factory=set)  # of the numbers that it reported
    columns: set[str] = field(default_factory=set)  # of the file with its numbers

    def epochs(self) -> Generator[dict[str, Any], None, dict[str, Any]]:
        """Run it; yield the epochs that it prints as JSON lines, and return its result."""
        result: dict[str, Any] = {}
        with contextlib.closing(self._lines()) as lines:
            for line in lines:
                numbers = _numbers(line)
                self.names |= numbers.keys()
                if any(key.startswith("test_") for key in numbers):
                    result |= numbers  # a script may print each number on a line of its own
                elif numbers:
                    yield numbers
                else:
                    sys.stdout.write(line)
        return result

    def epochs_read(
        self, reads: Reads, deciding: str, folder: Path
    ) -> Generator[dict[str, Any], None, dict[str, Any]]:
        """Run it; yield the epochs that `reads` finds, in the folder if in a file."""
        gathered = Epochs(deciding)
        with contextlib.closing(self._lines()) as lines:
            for line in lines:
                sys.stdout.write(line)
                if not reads.file:
                    yield from gathered.add(self._noted(reads.in_line(line)))
        try:
            for row in rows(folder / reads.file) if reads.file else ():
                self.columns |= row.keys()
                yield from gathered.add(self._noted(reads.in_row(row)))
        except TrialError as error:
            raise self._error(str(error)) from None
        yield from gathered.end()
        return gathered.result

    def _noted(self, numbers: dict[str, Any]) -> dict[str, Any]:
        self.names |= numbers.keys()
        return numbers

    def check(self, metric: Metric, splits: Sequence[str], reads: Reads | None) -> None:
        """Refuse a result without the metric that decides."""
        missing = [key for key in map(metric.key, splits) if key not in self.names]
        if missing and reads is not None:
            raise self._error(reads.lacking(missing[0], self.columns or self.names))
        if missing:
            wanted = unmet(metric, missing[0], sorted(self.names))
            other = "" if self.names else f" {OTHERWISE.format(missing[0])}"
            raise self._error(f"the command printed no JSON line with {wanted}{other}")

    def _lines(self) -> Generator[str, None, None]:
        """Run it and give its lines; an error if it fails."""
        with self._started() as process, _ended_on_error(process):
            for line in process.stdout or ():
                self.last.append(line)
                yield line
        if process.returncode:
            raise self._error(f"the command {_ending(process.returncode)}{self._last_words()}")

    def _last_words(self) -> str:
        """The last line of its output, which says why it failed: others may have failed so too."""
        # Launchers of several processes rule off what they say.
        last = next((line.strip() for line in reversed(self.last) if WORD.search(line)), "")
        return f": {last[:MOST_CHARACTERS]}" if last else ""

    def _started(self) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(
                self.arguments,
                cwd=self.folder,
                # Epochs arrive when they end.
                env={**os.environ, **of_children(), "PYTHONUNBUFFERED": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",  # a script may print bytes that are not UTF-8
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )
        except OSError as error:
            raise self._error(f"the command cannot be run: {error.strerror}") from error

    def _error(self, what: str) -> TrialError:
        """An error whose first line says what is wrong; the command and its last lines follow."""
        lines = [f"{self.where}: {what}", f"$ {shlex.join(self.arguments)}", *self.last]
        return TrialError("\n".join(line.rstrip("\n") for line in lines))


def _ending(status: int) -> str:
    return f"ended with status {status}" if status > 0 else f"was killed by {_signal(-status)}"


def _signal(number: int) -> str:
    known = {known.value: known.name for known in signal.Signals}
    return known.get(number, f"signal {number}")


def _end_with_parent() -> None:
    # A worker that is killed cannot end its command, which would go on beside the next attempt. A
    # launcher like torchrun must hear of it: killed at once, it would leave its own processes.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def _ended_on_error(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:  # also when the trial is stopped in the middle: GeneratorExit
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_SECONDS)
        process.kill()
        raise


def _numbers(line: str) -> dict[str, Any]:
    """The JSON object on a line; {} if it is anything else."""
    if not line.lstrip().startswith("{"):
        return {}
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # a line nested too deeply is no result of ours
        return {}
    return found if isinstance(found, dict) else {}
