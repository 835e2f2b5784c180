"""A task that runs a command and reads its numbers: no line of a script changes.

    task_command(
        "classifier",
        "python train.py --lr {lr} --seed {seed}",
        settings={"lr": 0.1},
        metrics=Metric("accuracy", better="higher"),
    )

A line `{"valid_accuracy": 0.9}` ends an epoch; one with a key `test_...` is the result. A script
that says its numbers otherwise is read as `script_numbers.py` says. Other output is printed, so it
is stored as the trial's; its last lines are shown if the command fails.
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
from ablate.trial.user.script_numbers import Epochs, Reads, checked

GIVEN = ("seed", "device", "data", "folder")  # what a command may name besides its settings
FLAG = re.compile(r"\{(?P<name>\w+):(?P<on>-[^{}/]+)(/(?P<off>-[^{}]+))?\}")
SHOWN_LINES = 15  # of the output of a command that failed
MOST_CHARACTERS = 200  # of its last line, in an error's first one
OTHERWISE = r"If it prints them otherwise: reads={{'{0}': r'...: (\S+)', ...}}."
PR_SET_PDEATHSIG = 1  # Linux: signal the command when the worker that started it dies


def task_command(
    name: str,
    command: str,
    *,
    settings: Mapping[str, Any],
    metrics: Metric | Sequence[Metric],
    reads: Mapping[str, str] | None = None,
    file: str = "",
    version: int = 1,
) -> None:
    """Register a command as a task, so that no line of a script changes.

    Args:
        name: What studies call the task, in snake_case.
        command: The command, with each setting and the seed in braces:
            `"python train.py --lr {lr} --seed {seed}"`. `{device}`, `{data}` and `{folder}`, a
            folder for the trial's files, may occur too. The text is split into words as a shell
            splits them, and no shell reads it. A setting that is true or false makes a flag:
            `{augment:--augment}` is `--augment` or nothing, and `{augment:--augment/--no-augment}`
            one of the two.
        settings: The settings of the command with their defaults: `{"lr": 0.1}`.
        metrics: What the command reports: one `Metric` or several. The first one decides, unless
            the study names another.
        reads: Where the numbers are, if the command does not print them as JSON lines. A pattern
            with one group for each, `{"valid_loss": r"val_loss: (\\S+)", ...}`, which is looked
            for in every line; with `file`, a column or key for each.
        file: The file with the numbers, below `{folder}`: CSV, JSON or JSON lines. It is read when
            the command has ended.
        version: Raise it when an edit of the script changes what is computed: trials of an earlier
            version are not reused.
    """
    parts = shlex.split(command)
    _check_named(name, parts, settings)
    places, named = checked(reads, file, metrics, f"task '{name}'"), _all_names(parts, name)
    if file and "folder" not in named:
        raise ConfigError(
            f"task '{name}': the command does not name {{folder}}, so trials that run at a time "
            f"would write one {file}. Instead: pass it on, as in '--output {{folder}}'."
        )
    config = _config(name, settings)
    # Errors show the caller's line, and the command runs in the folder of its file.
    caller = sys._getframe(1)
    source, line = Path(caller.f_code.co_filename).resolve(), caller.f_lineno
    folder = _folder(source)

    def run_command(run: Run) -> Generator[dict[str, Any], None, dict[str, Any]]:
        given = {"seed": run.seed, "device": run.device, "data": run.data}
        if "folder" in named:
            given["folder"] = run.folder
        values = {**given, **dataclasses.asdict(run.config)}
        arguments = _with_this_python(_all_filled(parts, values, f"{source}:{line}"))
        started = Command(arguments, folder, where=f"{source}:{line}")
        metric = metrics if isinstance(metrics, Metric) else metrics[0]
        if places is None:
            result = yield from started.epochs()
        else:
            result = yield from started.epochs_read(places, metric.key("valid"), run.folder)
        started.check(metric, ("valid", "test") if run.reads_test else ("valid",), places)
        return result

    run_command.counts_as = parts  # and not the place of the file that registers it
    run_command.command = tuple(parts), folder  # in which closures look for its scripts
    where = (str(source), line)
    task(name, config=config, metrics=metrics, version=version, where=where)(run_command)


def _config(name: str, settings: Mapping[str, Any]) -> type:
    """The class of a command's settings."""
    own = [
        (key, type(default), setting(default, doc=f"for {{{key}}} of the command"))
        for key, default in settings.items()
    ]
    return dataclasses.make_dataclass(f"{name}_settings", own, frozen=True, kw_only=True)


def _folder(file: Path) -> Path:
    """The folder of the file that registers a command; the current one for a notebook's cell."""
    return file.parent if file.is_file() else Path.cwd()


def _check_named(task_name: str, parts: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Refuse a command that names an unknown setting, or not the seed."""
    where, known = f"task '{task_name}'", (*settings, *GIVEN)
    named = _all_names(parts, task_name)
    for name in named:
        if name not in known:
            raise ConfigError(unknown("setting", name, known, where))
    # A wrong format is refused here, and not by every trial.
    given = {"seed": 0, "device": "cpu", "data": ".", "folder": "."}
    _all_filled(parts, {**given, **settings}, where)
    for name in settings:
        _check_setting(name, named, where)
    if "seed" not in named:
        raise ConfigError(
            f"{where}: the command does not name {{seed}}, so all seeds would run the same. "
            "Instead: pass it on, as in 'train.py --seed {seed}' or 'env SEED={seed} train.py'."
        )


def _all_names(parts: Sequence[str], task_name: str) -> list[str]:
    return [name for part in parts for name in _names(part, f"task '{task_name}'")]


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
    names: set[str] = field(default_factory=set)  # of the numbers that it reported

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
            for row in reads.in_file(folder) if reads.file else ():
                yield from gathered.add(self._noted(row))
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
            raise self._error(reads.lacking(missing[0], self.names))
        if missing:
            wanted = unmet(metric, missing[0], sorted(self.names))
            other = "" if self.names else f" {OTHERWISE.format(missing[0])}"
            raise self._error(f"the command printed no JSON line with {wanted}{other}")

    def _lines(self) -> Generator[str, None, None]:
        """Run it and give its lines; an error if it fails."""
        with self._started() as process, _killed_on_error(process):
            for line in process.stdout or ():
                self.last.append(line)
                yield line
        if process.returncode:
            raise self._error(f"the command {_ending(process.returncode)}{self._last_words()}")

    def _last_words(self) -> str:
        """The last line of its output, which says why it failed: others may have failed so too."""
        last = next((line.strip() for line in reversed(self.last) if line.strip()), "")
        return f": {last[:MOST_CHARACTERS]}" if last else ""

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
