"""A task that runs a command and reads JSON lines from its output: no line of a script changes.

    task_command(
        "classifier",
        "python train.py --lr {lr} --seed {seed}",
        settings={"lr": 0.1},
        metrics=Metric("accuracy", better="higher"),
    )

A line `{"valid_accuracy": 0.9}` ends an epoch; one with a key `test_...` is the result. Other
output is ignored, and shown if the command fails. The command runs in the folder of the file that
registers it. It saves nothing for `ablate`, so an interrupted trial starts it again.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import shlex
import signal
import string
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ablate.config.fields import setting
from ablate.config.metrics import Metric
from ablate.config.tasks import task
from ablate.errors import ConfigError, TrialError, unknown
from ablate.trial.function import Run

GIVEN = ("seed", "device", "data")  # what a command may name besides its settings
SHOWN_LINES = 15  # of the output of a command that failed
PR_SET_PDEATHSIG = 1  # Linux: signal the command when the worker that started it dies


def task_command(
    name: str,
    command: str,
    *,
    settings: Mapping[str, Any],
    metrics: Metric | Sequence[Metric],
    version: int = 1,
) -> None:
    """Register a command as a task. `settings`: its settings with their defaults."""
    parts = shlex.split(command)
    _check_named(name, parts, settings)
    fields = [
        (key, type(default), setting(default, doc=f"for {{{key}}} of the command"))
        for key, default in settings.items()
    ]
    config = dataclasses.make_dataclass(f"{name}_settings", fields, frozen=True, kw_only=True)
    caller = sys._getframe(1)
    folder = Path(caller.f_code.co_filename).resolve().parent

    def run_command(run: Run) -> Generator[dict[str, Any], None, dict[str, Any]]:
        given = {"seed": run.seed, "device": run.device, "data": run.data}
        values = {**given, **dataclasses.asdict(run.config)}
        return (yield from _epochs([part.format(**values) for part in parts], folder))

    where = (caller.f_code.co_filename, caller.f_lineno)
    task(name, config=config, metrics=metrics, version=version, where=where)(run_command)


def _check_named(task_name: str, parts: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Refuse a command that names an unknown setting, or not the seed."""
    named = [field for part in parts for _, field, _, _ in string.Formatter().parse(part) if field]
    where, known = f"task '{task_name}'", (*settings, *GIVEN)
    for field in named:
        if field not in known:
            raise ConfigError(unknown("setting", field, known, where))
    if "seed" not in named:
        raise ConfigError(
            f"{where}: the command does not name {{seed}}, so all seeds would run the same. "
            "Instead: pass it on, as in 'train.py --seed {seed}' or 'env SEED={seed} train.py'."
        )


def _epochs(arguments: list[str], folder: Path) -> Generator[dict[str, Any], None, dict[str, Any]]:
    """Run the command; yield its epochs, and return its result."""
    result: dict[str, Any] = {}
    last: deque[str] = deque(maxlen=SHOWN_LINES)
    with _started(arguments, folder) as process, _killed_on_error(process):
        for line in process.stdout or ():
            last.append(line)
            numbers = _numbers(line)
            if any(key.startswith("test_") for key in numbers):
                result |= numbers
            elif numbers:
                yield numbers
    if process.returncode:
        shown = "".join(last).rstrip()
        raise TrialError(
            f"the command {_ending(process.returncode)}: {shlex.join(arguments)}\n{shown}"
        )
    return result


def _ending(status: int) -> str:
    return f"ended with status {status}" if status > 0 else f"was killed by {_signal(-status)}"


def _signal(number: int) -> str:
    known = {known.value: known.name for known in signal.Signals}
    return known.get(number, f"signal {number}")


def _started(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    program = sys.executable if arguments[0] in ("python", "python3") else arguments[0]
    try:
        return subprocess.Popen(
            [program, *arguments[1:]],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},  # epochs arrive when they end
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
    except OSError as error:
        raise TrialError(f"cannot run {shlex.join(arguments)}: {error.strerror}.") from error


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def _killed_on_error(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:  # also when the trial is stopped in the middle: GeneratorExit
        process.kill()
        raise


def _numbers(line: str) -> dict[str, Any]:
    """The JSON object on a line; {} if it is anything else."""
    if not line.lstrip().startswith("{"):
        return {}
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
