"""A trial that runs a function of the user's: whatever it trains, `ablate` sees its numbers.

    @task("digits", config=DigitsConfig, metrics=(Metric("accuracy", better="higher"),))
    def train(run):
        model, optimizer = ...
        for epoch in run.epochs(model, optimizer, total=run.config.epochs):
            ...
            yield {"valid_accuracy": ...}
        return {"test_accuracy": ...}

Each `yield` ends an epoch. `run.epochs` saves the state of the objects that it is given, and puts
it back when an interrupted trial resumes; without it, the trial starts from scratch. The global
generators are seeded at the start of every epoch, so that a resumed trial draws the same numbers.
A function that cannot yield, since a trainer has the loop, calls `run.report` (`reports.py`).
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ablate.config.data_source import DataConfig, source_of
from ablate.config.identity import Trial, digest, is_as_planned
from ablate.config.metrics import Metric, is_usable
from ablate.config.streams import Streams
from ablate.config.tensors import HAS_TORCH, Tensor, torch
from ablate.errors import TrialError, nearest
from ablate.store.attempt import Kept
from ablate.trial.checkpoint import weights_digest
from ablate.trial.task import Conclusion, Diverged, Place
from ablate.trial.user.best_epoch import BestEpoch, best_epoch
from ablate.trial.user.epoch_loop import check_yields_last
from ablate.trial.user.kept_outside import Watch
from ablate.trial.user.plain_state import (
    is_plain,
    join,
    load_state,
    members,
    read_state,
    shown,
    split,
)
from ablate.trial.user.reports import Reports, Restored, read_checkpoint
from ablate.trial.user.run_folder import RunFolder
from ablate.trial.user.user_code import line_of
from ablate.trial.user.weights import (
    check_copies,
    memory_of,
    modules_of,
    num_parameters,
    weights_of,
)

RESERVED = ("epoch", "seconds")  # what an epoch's record has besides what the function yields


@dataclass
class Run:
    """What a task's function is given.

    Attributes:
        config: The settings of this arm, checked: `run.config.learning_rate`.
        seed: The trial's seed. Arms are paired by it.
        streams: Named random generators: `run.streams.generator("shuffle", epoch)` for torch.
        device: `"cpu"` or `"cuda"`.
        precision: `"float32"` or `"bfloat16"`, as the scale says. The function carries it out.
        data: A folder of this host that all trials share, for downloads.
        reads_test: Whether this trial may look at the test split.
    """

    config: Any
    seed: int
    streams: Streams
    device: str
    precision: str
    data: Path
    reads_test: bool
    _folder: RunFolder = field(default_factory=RunFolder, init=False)
    _data_config: DataConfig | None = field(default=None, init=False)
    _saved: tuple[Any, ...] = field(default=(), init=False)  # objects given to `epochs`
    _epoch: int = field(default=0, init=False)  # of the loop over `epochs`
    _first: list[list[Any]] = field(default_factory=list, init=False)  # what dicts among them hold
    _begins: Callable[[], None] | None = field(default=None, init=False)  # called by the loop
    _resume: tuple[dict[str, Any], dict[str, Tensor]] | None = field(default=None, init=False)
    _metrics: Sequence[Metric] = field(default=(), init=False)  # of the task
    _best: BestEpoch | None = field(default=None, init=False)
    _reports: Reports | None = field(default=None, init=False)  # None in a function that yields
    _restored: Restored = field(default_factory=Restored, init=False)

    @cached_property
    def corpus(self) -> Any:
        """The task's corpus for this trial's seed, as the corpus's `DataSource` opens it."""
        if self._data_config is None:
            raise TrialError("the task has no corpus. Instead: @task(..., corpus=A_DATA_CONFIG).")
        return source_of(self._data_config, self.data).open(self.seed)

    @property
    def folder(self) -> Path:
        """Return the folder, which is made when it is first asked for.

        When the trial completes, its files become artifacts of its run in MLflow, too: at most 100
        files of 16 MB in all. A trial that resumes finds the folder empty.
        """
        return self._folder.path

    @property
    def checkpoint(self) -> Path | None:
        """The checkpoint to resume from: the file or folder that was reported, on this host.

        None if the trial starts from its beginning.
        """
        return self._restored.read()

    def report(self, numbers: Mapping[str, Any], checkpoint: str | Path | None = None) -> None:
        """End an epoch from inside a loop of your own, or from a callback of a trainer.

        The call returns when the trial continues. If a search has given the trial up, it does not
        return: the function ends there, as by `sys.exit`.

        Args:
            numbers: What a function that yields would yield.
            checkpoint: A file or folder that your trainer has just written, from which it can
                resume. A copy is stored with the trial; a trial that is cut finds it at
                `run.checkpoint`.
        """
        if self._reports is None or self._saved:
            raise TrialError(
                "run.report() was called in a function that yields, or in a loop over "
                "run.epochs(). Instead: yield the numbers there."
            )
        self._restored.check_read()
        self._reports.report(numbers, None if checkpoint is None else Path(checkpoint))

    def epochs(
        self, *saved: Any, total: int, best: bool | str = False, patience: int | None = None
    ) -> Iterator[int]:
        """Count epochs from 1 to `total`, and save the state of the objects after each.

        When an interrupted trial resumes, their state is restored, and counting continues after the
        last saved epoch. The `yield` must be the last statement of the loop.

        Args:
            saved: Everything that training changes: modules, optimizers, schedules, generators,
                arrays, and dicts of plain values.
            total: The number of epochs.
            best: Remember the best epoch on validation. After the loop, all objects except
                optimizers are as they were after it, and the trial's numbers are those that it
                yielded. True: by the task's first metric; a name: by that one of its metrics.
            patience: Stop when so many epochs in a row were no better than the best one, which is
                remembered even without `best`.
        """
        if self._saved:
            raise TrialError("run.epochs() was called twice. Call it once, with all objects.")
        for thing in saved:
            split(read_state(thing), None)  # what cannot be saved is refused before it is trained
        self._saved, self._first = saved, [members(thing) for thing in saved]
        self._best = best_epoch(best, patience, self._metrics)
        if self._resume is not None:
            self._restore(*self._resume)
        if self._begins is not None:
            self._begins()
        try:
            while self._epoch < total and not self._stopped:
                self._epoch += 1
                self.streams.seed_global("epoch", self._epoch)
                yield self._epoch
        finally:  # also when the function leaves its loop by `break`
            if self._best is not None:
                self._best.put_back(self._saved, self._first)
        self.streams.seed_global("conclude")

    @property
    def _stopped(self) -> bool:
        return self._best is not None and self._best.is_over(self._epoch)

    def _restore(self, plain: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        states = plain["states"]
        if self._best is not None and "best" in plain:
            self._best.restore(plain["best"], tensors)
        if len(states) != len(self._saved):
            raise TrialError(
                f"run.epochs() was given {len(self._saved)} objects; the checkpoint has the state "
                f"of {len(states)}. Was the function edited? Raise its version."
            )
        for thing, first, state in zip(self._saved, self._first, states, strict=True):
            joined = join(state, tensors, first)
            # A dict has been filled in place: the function may have other names for its members.
            if joined is not thing:
                load_state(thing, joined)
        self._resume = None

    def _state(self, tensors: dict[str, Tensor]) -> list[Any]:
        """The state of what `epochs` was given, its tensors by their names in `tensors`."""
        pairs = zip(self._saved, self._first, strict=True)
        return [split(read_state(thing), tensors, first) for thing, first in pairs]


class Function:
    """A `Task` that runs a function, one epoch for each of its yields."""

    def __init__(self, trial: Trial, place: Place) -> None:
        if HAS_TORCH:
            torch.set_num_threads(trial.threads)
        kind = trial.config.kind
        if kind.function is None:
            raise TrialError(f"the task '{kind.name}' has no function to run.")
        _check_files(trial)
        self.trial, self.metrics, self.function = trial, kind.metrics, kind.function
        self.where = ":".join(map(str, kind.where))
        self.run = Run(
            config=trial.config.sections[kind.name],
            seed=trial.seed,
            streams=Streams(trial.seed, trial.device),
            device=trial.device,
            precision=trial.precision,
            data=Path(place.data),
            reads_test=trial.reads_test,
        )
        self.run._data_config, self.run._metrics = trial.config.data, kind.metrics
        self.epoch, self.seconds, self.finished = 0, 0.0, False
        self.last: dict[str, float] = {}  # the metrics of the last epoch
        self.result: Mapping[str, float] | None = None
        self._running: Generator[Any, None, Any] | None = None
        self._watch = Watch(self.function)
        self.run._begins = self._watch.begin

    @property
    def kept_outside(self) -> Kept | None:
        """The variables that the loop keeps from epoch to epoch, and that are not saved."""
        return self._watch.found

    def advance(self, seconds: float) -> dict[str, Any] | None:
        """Run the function to its next yield, or to its end."""
        start = time.monotonic()
        # Also for what runs before the loop, and for functions that yield without `run.epochs`. The
        # generators of a function that reports are its trainer's, which saves and restores them.
        if self._running is None or not self._reports:
            self.run.streams.seed_global("epoch", self.epoch + 1)
        running = self._generator()  # outside: what it refuses has its line already
        try:
            yielded = next(running)
        except StopIteration as end:
            self.result = self._numbers(end.value or {}, self.where, "returned")
            self.finished = True
            return None
        except TrialError as error:
            file = self.trial.config.kind.where[0]
            line = line_of(error, Path(file))
            raise TrialError(f"{file}:{line}: {error}" if line else str(error)) from None
        self._check_dicts()
        if self.run._epoch:
            self._watch.look(self.run._saved)
        self.last = self._numbers(yielded, self._line(), "reported" if self._reports else "yielded")
        if self.run._best is not None and self.run._epoch:
            self._look(self.run._best)
        self.epoch += 1
        self.seconds += time.monotonic() - start
        return {"epoch": self.epoch, **self.last, "seconds": round(self.seconds, 3)}

    def _look(self, best: BestEpoch) -> None:
        try:
            best.look(self.run._epoch, self.last, self.run._saved, self.run._first)
        except TrialError as error:
            raise TrialError(f"{self._line()}: {error}") from None

    def _generator(self) -> Generator[Any, None, Any]:
        if self._running is None:
            check_yields_last(self.function)
            self._running = self._started()
            self._watch.follow(self._running)
        return self._running

    def _started(self) -> Generator[Any, None, Any]:
        if inspect.isgeneratorfunction(inspect.unwrap(self.function)):
            return self.function(self.run)
        self.run._reports = Reports()
        return self.run._reports.run(partial(self.function, self.run))

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The state of what `run.epochs` was given, or the files that were reported; without them,
        a trial starts from scratch."""
        if not self.run._saved:
            return self._reported_files()
        tensors: dict[str, Tensor] = {}
        try:
            states = self.run._state(tensors)
        except TrialError as error:
            raise TrialError(f"{self._line()}: {error}") from None
        plain = {"states": states, "loop": self.run._epoch, **self._progress()}
        if self.run._best is not None:
            plain["best"] = self.run._best.to_plain(tensors)
        return tensors, plain

    @property
    def _reports(self) -> Reports | None:
        """What the function reports through; None if it yields."""
        return None if self.run._reports is None or self.run._reports.yields else self.run._reports

    def _progress(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "seconds": self.seconds, "last": self.last}

    def _reported_files(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        reports = self._reports
        if reports is None or reports.checkpoint is None or not reports.is_waiting:
            return None
        return read_checkpoint(reports.checkpoint), self._progress()

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        """Give the function's next run the state of the last saved epoch."""
        self.epoch, self.seconds, self.last = plain["epoch"], plain["seconds"], plain["last"]
        if "states" not in plain:
            self.run._restored.restore(tensors)
            return
        self.run._epoch = plain["loop"]
        self.run._resume = plain, tensors

    def _check_dicts(self) -> None:
        """Refuse at once a value in a dict of `run.epochs` that no checkpoint can restore."""
        trained = None
        for thing, first in zip(self.run._saved, self.run._first, strict=True):
            if is_plain(thing):
                trained = memory_of(modules_of(self.run._saved)) if trained is None else trained
                try:
                    split(thing, None)
                    check_copies(thing, first, trained)
                except TrialError as error:
                    raise TrialError(f"{self._line()}: {error}") from None

    def conclude(self) -> Conclusion:
        """The metrics that the function returned, after those of its last or best epoch."""
        best = self.run._best
        last = best.numbers if best is not None and best.epoch is not None else self.last
        result = {**last, **(self.result or {})}
        if not self.trial.reads_test:
            # A search must not learn what test says, even if the function computes it.
            result = {name: value for name, value in result.items() if not name.startswith("test_")}
        self._check(result)
        weights = weights_of(self.run._saved)
        # Without weights, the numbers are all that can show that two runs agree.
        own = weights_digest(weights) if weights else digest(result)
        num, files = num_parameters(self.run._saved), self.run._folder.taken()
        return Conclusion(metrics=result, num_parameters=num, digest=own, files=files)

    def _check(self, result: Mapping[str, float]) -> None:
        splits = ("valid", "test") if self.trial.reads_test else ("valid",)
        missing = [m.key(s) for m in self.metrics[:1] for s in splits if m.key(s) not in result]
        if not missing:
            return
        never = "" if self.epoch else " never yielded, and"
        raise TrialError(
            f"{self.where}: the task's function{never} ended without "
            f"{unmet(self.metrics[0], missing[0], result)}"
        )

    def _numbers(self, given: Any, where: str, how: str) -> dict[str, float]:
        """Check what the function yielded or returned, and convert its values to floats."""
        if not isinstance(given, Mapping):
            raise TrialError(
                f"{where}: the task's function {how} {shown(given)}, which is not a mapping of "
                f"names to numbers. Expected: {_example(self.metrics[0])}."
            )
        numbers: dict[str, float] = {}
        for name, value in given.items():
            _check_name(name, where)
            try:
                numbers[name] = float(value.item() if hasattr(value, "item") else value)
            except OverflowError:
                numbers[name] = math.inf  # an integer that no float can be
            except (TypeError, ValueError, RuntimeError):
                raise TrialError(
                    f"{where}: the task {how} {name} = {shown(value)}, which is not a number."
                ) from None
            if not math.isfinite(numbers[name]):
                raise Diverged(f"{where}: {name} became {numbers[name]}")
        for metric in self.metrics:
            for split_name in ("valid", "test"):
                if metric.key(split_name) in numbers:
                    _check_metric(metric, numbers[metric.key(split_name)], where)
        return numbers

    def _line(self) -> str:
        """The file and line of the yield that the function has stopped at."""
        frame = getattr(self._running, "gi_frame", None)
        file = self.trial.config.kind.where[0]
        own = frame is not None and str(Path(frame.f_code.co_filename).resolve()) == file
        return f"{file}:{frame.f_lineno}" if own and frame else self.where


def _check_files(trial: Trial) -> None:
    """Refuse files that were edited after the trial got its id from their contents."""
    files = trial.config.files
    if files and not is_as_planned(trial):
        raise TrialError(
            f"{', '.join(files.values())} changed after this trial was planned, or the version of "
            f"the task '{trial.config.kind.name}' did. Run the study again: it plans new trials."
        )


def _check_name(name: Any, where: str) -> None:
    if not isinstance(name, str) or name in RESERVED or not name.strip() or not name.isprintable():
        raise TrialError(
            f"{where}: {shown(name)} cannot name a number of a task. Expected: a printable string "
            f"that is not empty, other than {' and '.join(RESERVED)}, which ablate writes itself."
        )


def _check_metric(metric: Metric, value: float, where: str) -> None:
    try:
        metric.loss(value)
    except TrialError as error:
        raise TrialError(f"{where}: {error}") from None
    if not is_usable(value):
        raise Diverged(f"{where}: {metric.name} became {value:g}, which is too large to compare")


def unmet(metric: Metric, key: str, given: Iterable[str]) -> str:
    """The end of a message on a result that lacks the metric's `key`; it lists the given names."""
    names, right = list(given), [metric.key(split) for split in ("valid", "test")]
    match = nearest(key, [name for name in names if name not in right])
    hint = f" '{match}' may be misspelt." if match else ""
    shown = ", ".join(names) or "nothing"
    return f"'{key}'. Given: {shown}.{hint} Expected: {_example(metric, key)}."


def _example(metric: Metric, key: str = "") -> str:
    return f'{{"{key or metric.key("valid")}": 0.9}}'
