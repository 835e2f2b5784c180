"""A task that runs a command and reads JSON lines from its output: no line of a script changes.

    task_command(
        "classifier",
        "python train.py --lr {lr} --seed {seed}",
        settings={"lr": 0.1},
        metrics=Metric("accuracy", better="higher"),
    )

A line `{"valid_accuracy": 0.9}` ends an epoch; one with a key `test_...` is the result. Other
output is printed, so it is stored as the trial's; its last lines are shown if the command fails.
The command runs in the folder of the file that registers it. It saves nothing for `ablate`, so an
interrupted trial starts it again.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import re
import shlex
import signal
import string
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablate.config.fields import setting
from ablate.config.metrics import Metric
from ablate.config.tasks import task
from ablate.errors import ConfigError, TrialError, unknown
from ablate.trial.user.function import Run, unmet

GIVEN = ("seed", "device", "data")  # what a command may name besides its settings
FLAG = re.compile(r"\{(?P<name>\w+):(?P<on>-[^{}/]+)(/(?P<off>-[^{}]+))?\}")
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
    """Register a command that prints JSON lines as a task, so that no line of a script changes.

    Args:
        name: What studies call the task, in snake_case.
        command: The command, with each setting and the seed in braces:
            `"python train.py --lr {lr} --seed {seed}"`. `{device}` and `{data}` may occur too. The
            text is split into words as a shell splits them, and no shell reads it. A setting that
            is true or false makes a flag: `{augment:--augment}` is `--augment` or nothing, and
            `{augment:--augment/--no-augment}` one of the two.
        settings: The settings of the command with their defaults: `{"lr": 0.1}`.
        metrics: What the command prints: one `Metric` or several. The first one decides, unless the
            study names another.
        version: Raise it when an edit of the script changes what is computed: trials of an earlier
            version are not reused.
    """
    parts = shlex.split(command)
    _check_named(name, parts, settings)
    own = [
        (key, type(default), setting(default, doc=f"for {{{key}}} of the command"))
        for key, default in settings.items()
    ]
    config = dataclasses.make_dataclass(f"{name}_settings", own, frozen=True, kw_only=True)
    # Errors show the caller's line, and the command runs in the folder of its file.
    caller = sys._getframe(1)
    file, line = Path(caller.f_code.co_filename).resolve(), caller.f_lineno
    folder = _folder(file)

    def run_command(run: Run) -> Generator[dict[str, Any], None, dict[str, Any]]:
        given = {"seed": run.seed, "device": run.device, "data": run.data}
        values = {**given, **dataclasses.asdict(run.config)}
        arguments = _with_this_python(_all_filled(parts, values, f"{file}:{line}"))
        started = Command(arguments, folder, where=f"{file}:{line}")
        result = yield from started.epochs()
        metric = metrics if isinstance(metrics, Metric) else metrics[0]
        started.check(metric, ("valid", "test") if run.reads_test else ("valid",))
        return result

    run_command.counts_as = parts  # and not the place of the file that registers it
    where = (str(file), line)
    task(name, config=config, metrics=metrics, version=version, where=where)(run_command)


def _folder(file: Path) -> Path:
    """The folder of the file that registers a command; the current one for a notebook's cell."""
    return file.parent if file.is_file() else Path.cwd()


def _check_named(task_name: str, parts: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Refuse a command that names an unknown setting, or not the seed."""
    where, known = f"task '{task_name}'", (*settings, *GIVEN)
    named = [name for part in parts for name in _names(part, where)]
    for name in named:
        if name not in known:
            raise ConfigError(unknown("setting", name, known, where))
    # A wrong format is refused here, and not by every trial.
    _all_filled(parts, {"seed": 0, "device": "cpu", "data": ".", **settings}, where)
    for name in settings:
        _check_setting(name, named, where)
    if "seed" not in named:
        raise ConfigError(
            f"{where}: the command does not name {{seed}}, so all seeds would run the same. "
            "Instead: pass it on, as in 'train.py --seed {seed}' or 'env SEED={seed} train.py'."
        )


def _names(part: str, where: str) -> list[str]:
    """The settings that a word of the command names."""
    try:
        return [name for _, name, _, _ in string.Formatter().parse(part) if name is not None]
    except ValueError as error:
        raise _not_filled(part, error, where) from None


def _all_filled(parts: Sequence[str], values: Mapping[str, Any], where: str) -> list[str]:
    """The words of the command with the values of its settings."""
    return [word for part in parts for word in _words(part, values, where)]


def _words(part: str, values: Mapping[str, Any], where: str) -> list[str]:
    """What a word of the command becomes: for `{augment:--augment}`, a flag or nothing."""
    flag = FLAG.fullmatch(part)
    if flag is None or not isinstance(value := values[flag["name"]], bool):
        return [_filled(part, values, where)]
    word = flag["on"] if value else flag["off"]
    return [word] if word else []


def _filled(part: str, values: Mapping[str, Any], where: str) -> str:
    """A word of the command with the values of its settings."""
    try:
        return part.format(**values)
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise _not_filled(part, error, where) from None


def _not_filled(part: str, error: Exception, where: str) -> ConfigError:
    return ConfigError(
        f"{where}: {part!r} of the command cannot be filled in: {error}. Expected: {{NAME}} for a "
        "setting, with a format at most, as in {rate:.3f}, {NAME:--FLAG} for one that is true or "
        "false, and {{ or }} for a brace."
    )


def _check_setting(name: str, named: Sequence[str], where: str) -> None:
    """Refuse a setting that would replace what `ablate` gives, or that changes nothing."""
    if name in GIVEN:
        raise ConfigError(
            f"{where}: a setting cannot be called '{name}': {{{name}}} is the trial's own. "
            f"Instead: leave it out of the settings; {{{name}}} is filled in."
        )
    if name not in named:
        raise ConfigError(
            f"{where}: the command does not name {{{name}}}, so arms that differ in it would run "
            f"the same. Instead: pass it on, as in '--{name} {{{name}}}', or leave it out of the "
            "settings."
        )


@dataclass
class Command:
    """A command being run, and what it has printed."""

    arguments: list[str]
    folder: Path
    where: str  # file and line that registered it
    last: deque[str] = field(default_factory=lambda: deque(maxlen=SHOWN_LINES))
    names: set[str] = field(default_factory=set)  # of the numbers that it printed

    def epochs(self) -> Generator[dict[str, Any], None, dict[str, Any]]:
        """Run it; yield its epochs, and return its result."""
        result: dict[str, Any] = {}
        with self._started() as process, _killed_on_error(process):
            for line in process.stdout or ():
                self.last.append(line)
                numbers = _numbers(line)
                self.names |= numbers.keys()
                if any(key.startswith("test_") for key in numbers):
                    result |= numbers  # a script may print each number on a line of its own
                elif numbers:
                    yield numbers
                else:
                    sys.stdout.write(line)
        if process.returncode:
            raise self._error(f"the command {_ending(process.returncode)}")
        return result

    def check(self, metric: Metric, splits: Sequence[str]) -> None:
        """Refuse a result without the metric that decides."""
        missing = [key for key in map(metric.key, splits) if key not in self.names]
        if missing:
            wanted = unmet(metric, missing[0], sorted(self.names))
            raise self._error(f"the command printed no JSON line with {wanted}")

    def _started(self) -> subprocess.Popen[str]:
        try:
            return subprocess.Popen(
                self.arguments,
                cwd=self.folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},  # epochs arrive when they end
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


def _with_this_python(arguments: Sequence[str]) -> list[str]:
    """The arguments, with the Python that runs `ablate` where the command says `python`."""
    # `python` on the PATH may be another one, without the packages of this environment.
    program, *others = arguments
    return [sys.executable if program in ("python", "python3") else program, *others]


def _ending(status: int) -> str:
    return f"ended with status {status}" if status > 0 else f"was killed by {_signal(-status)}"


def _signal(number: int) -> str:
    known = {known.value: known.name for known in signal.Signals}
    return known.get(number, f"signal {number}")


def _end_with_parent() -> None:
    # A worker that is killed cannot end its command, which would go on beside the next attempt.
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
    except (ValueError, RecursionError):  # a line nested too deeply is no result of ours
        return {}
    return found if isinstance(found, dict) else {}
