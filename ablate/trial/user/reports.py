"""Numbers that a task reports from inside a training loop that is not its own.

    def train(run):
        trainer = Trainer(..., callbacks=[Report(run)])  # its callback calls run.report({...})
        trainer.train(resume_from_checkpoint=run.checkpoint)
        return {"test_accuracy": ...}

A callback cannot yield. So a function that is no generator runs in a thread of its own, which
waits at each `run.report` until the trial continues. Whoever drives the trial gets one epoch at a
time, as from a function that yields.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from ablate.config.tensors import Tensor, from_bytes
from ablate.errors import TrialError
from ablate.trial.user.run_folder import RunFolder

FILE = "file:"  # before the name of a checkpoint's file, in the trial's own checkpoint
WAIT_SECONDS = 5.0  # for the thread of an interrupted function, which may be deep in a library


class Stopped(SystemExit):
    """Raised in a function whose trial has ended: no `except Exception` of a library catches it."""


@dataclass
class Reports:
    """Hands numbers from the function's thread to the trial, one at a time.

    Attributes:
        checkpoint: The file or folder of the last report, or None.
        is_waiting: Whether the function waits in `report`, so that nothing changes its files.
        yields: Whether the function turned out to return a generator, as a decorator may.
    """

    checkpoint: Path | None = None
    is_waiting: bool = False
    yields: bool = False
    _numbers: SimpleQueue[tuple[str, Any]] = field(default_factory=SimpleQueue)
    _turns: SimpleQueue[bool] = field(default_factory=SimpleQueue)
    _process: int = field(default_factory=os.getpid)

    def report(self, numbers: Mapping[str, Any], checkpoint: Path | None) -> None:
        """Hand over an epoch's numbers, and wait until the trial continues."""
        if os.getpid() != self._process:
            raise TrialError(
                "run.report() was called in a process that the task has started. Instead: report "
                "in the process that the task's function runs in."
            )
        if checkpoint is not None and not checkpoint.exists():
            raise TrialError(
                f"run.report(checkpoint={str(checkpoint)!r}): there is no such file or folder."
            )
        self.checkpoint = checkpoint
        self._numbers.put(("reported", numbers))
        if not self._turns.get():
            raise Stopped

    def run(self, function: Callable[[], Any]) -> Generator[Any, None, Any]:
        """Yield the numbers of each report, and return the result of the function."""
        thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        thread.start()
        try:
            while (event := self._numbers.get())[0] == "reported":
                self.is_waiting = True
                yield event[1]
                self.is_waiting = False
                self._turns.put(True)
        except BaseException:  # the trial ends here, or Ctrl-C
            self._stop(thread)
            raise
        thread.join()
        how, value = event
        if how == "raised":
            raise value
        self.yields = isinstance(value, Generator)
        return (yield from value) if isinstance(value, Generator) else value

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self._numbers.put(("returned", function()))
        except Stopped:
            pass
        except BaseException as error:
            self._numbers.put(("raised", error))

    def _stop(self, thread: threading.Thread) -> None:
        self._turns.put(False)
        if not self.is_waiting and thread.ident is not None:  # it may not report for hours
            stopped = ctypes.py_object(Stopped)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), stopped)
        thread.join(WAIT_SECONDS)


def read_checkpoint(place: Path) -> dict[str, Tensor]:
    """Return the bytes of a checkpoint's files by their names; of a file, its own alone."""
    files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
    names = [FILE + file.relative_to(place.parent).as_posix() for file in files]
    return {name: from_bytes(file.read_bytes()) for name, file in zip(names, files, strict=True)}


def write_checkpoint(tensors: Mapping[str, Tensor], folder: Path) -> Path | None:
    """Write a checkpoint's files under a folder; return the path that was reported, moved there."""
    top = None
    for name, tensor in _files(tensors):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(np.asarray(tensor).data)
        top = folder / Path(name).parts[0]
    return top


def _files(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    return ((n.removeprefix(FILE), t) for n, t in tensors.items() if n.startswith(FILE))


@dataclass
class Restored:
    """The checkpoint that a resumed trial starts from.

    Attributes:
        path: Where its files are on this host, or None if the trial starts from its beginning.
        is_read: Whether the function has asked for it.
    """

    path: Path | None = None
    is_read: bool = False
    _folder: RunFolder = field(default_factory=RunFolder)

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Lay out the files."""
        self.path = write_checkpoint(tensors, self._folder.path)

    def read(self) -> Path | None:
        """Return the path, and note that the function knows of it."""
        self.is_read = True
        return self.path

    def check_read(self) -> None:
        """Refuse reports of a function that would count epochs twice."""
        if self.path is not None and not self.is_read:
            raise TrialError(
                "the trial resumes from a checkpoint that it reported, and its function has not "
                "read run.checkpoint: its epochs would be counted twice. Instead: load the "
                "checkpoint at run.checkpoint if that is not None, or report none."
            )
