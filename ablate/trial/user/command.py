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
The command runs in the folder of the file that registers it. An interrupted trial starts it again;
it resumes if it names `{checkpoints}`, a folder in which it finds the last checkpoint that a line
of it has named: `{"valid_accuracy": 0.9, "checkpoint": "/the/folder/epoch_3.pt"}`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shlex
import string
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ablate.config.fields import setting
from ablate.config.metrics import Metric
from ablate.config.tasks import task
from ablate.errors import ConfigError, unknown
from ablate.trial.user.command_process import CommandProcess
from ablate.trial.user.function import Run
from ablate.trial.user.run_folder import RunFolder
from ablate.trial.user.script_numbers import checked

# What a command may name besides its settings.
GIVEN = ("seed", "device", "data", "folder", "checkpoints")
FLAG = re.compile(r"\{(?P<name>\w+):(?P<on>-[^{}/]+)(/(?P<off>-[^{}]+))?\}")
Epochs = Generator[dict[str, Any], None, dict[str, Any]]


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
            folder for the trial's files, may occur too, and so may `{checkpoints}`: a folder for
            checkpoints, in which a trial that resumes finds the last one that it stored. The text
            is split into words as a shell splits them, and no shell reads it. A setting that is
            true or false makes a flag: `{augment:--augment}` is `--augment` or nothing, and
            `{augment:--augment/--no-augment}` one of the two.
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

    def run_command(run: Run) -> Epochs:
        own = RunFolder()
        values = {**_given(run, named, own), **dataclasses.asdict(run.config)}
        arguments = _with_this_python(_all_filled(parts, values, f"{source}:{line}"))
        started = CommandProcess(arguments, folder, where=f"{source}:{line}")
        metric = metrics if isinstance(metrics, Metric) else metrics[0]
        if places is None:
            result = yield from started.epochs()
        else:
            result = yield from started.epochs_read(places, metric.key("valid"), run.folder)
        started.check(metric, ("valid", "test") if run.reads_test else ("valid",), places)
        return result

    function = _reporting(run_command) if "checkpoints" in named else run_command
    function.counts_as = parts  # and not the place of the file that registers it
    function.command = tuple(parts), folder  # in which closures look for its scripts
    where = (str(source), line)
    task(name, config=config, metrics=metrics, version=version, where=where)(function)


def _given(run: Run, named: Sequence[str], own: RunFolder) -> dict[str, Any]:
    """What the trial gives for each name of GIVEN; folders only where the command names them."""
    given = {"seed": run.seed, "device": run.device, "data": run.data}
    if "folder" in named:
        given["folder"] = run.folder
    if "checkpoints" in named:
        given["checkpoints"] = run.checkpoint.parent if run.checkpoint else own.path
    return given


def _reporting(run_command: Callable[[Run], Epochs]) -> Callable[[Run], dict[str, Any]]:
    """The command as a function that reports its epochs, each with the checkpoint that it names."""

    def report_command(run: Run) -> dict[str, Any]:
        with contextlib.closing(run_command(run)) as epochs:
            while True:
                try:
                    numbers = next(epochs)
                except StopIteration as end:
                    return end.value
                saved = numbers.pop("checkpoint", None)
                run.report(numbers, checkpoint=saved and _found(str(saved)))

    return report_command


def _found(saved: str) -> str | None:
    """The checkpoint that a line names; None if it is gone, as old ones may be."""
    if Path(saved).exists():
        return saved
    print(f"There is no checkpoint {saved} (any more), so none was stored after this epoch.")
    return None


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
    where = f"task '{task_name}'"
    if not isinstance(settings, Mapping):
        raise ConfigError(
            f"{where}: settings is {settings!r}. Expected: each setting with its default, as in "
            '{"lr": 0.1}.'
        )
    known = (*settings, *GIVEN)
    named = _all_names(parts, task_name)
    for name in named:
        if name not in known:
            raise ConfigError(unknown("setting", name, known, where))
    # A wrong format is refused here, and not by every trial.
    given = {"seed": 0, "device": "cpu", "data": ".", "folder": ".", "checkpoints": "."}
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


def _with_this_python(arguments: Sequence[str]) -> list[str]:
    """The arguments, with the Python that runs `ablate` where the command says `python`."""
    # `python` on the PATH may be another one, without the packages of this environment.
    program, *others = arguments
    return [sys.executable if program in ("python", "python3") else program, *others]
