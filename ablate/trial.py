"""One trial, in this process: what it learns is durable in the store before anyone is told.

    run = TrialRun(trial, store, data)
    while not run.advance(seconds=2).done:
        ...

A trial that was begun before goes on from its last checkpoint, to the same bits. What goes wrong
inside it becomes its outcome (diverged, failed) and never an exception of the caller's.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate import journal as journals
from ablate import kept
from ablate.config import resolve
from ablate.environment import environment
from ablate.errors import AblateError, StoreError, StudyError, TrialError
from ablate.identity import Trial, digest
from ablate.store import Store
from ablate.train import checkpoint
from ablate.train.task import Conclusion, Diverged, Place, Task
from ablate.user_code import executed, user_frames

SAVE_SECONDS = 5.0  # a checkpoint at most so often ...
SAVE_SHARE = 20  # ... and never more than a twentieth of the time


@dataclass(frozen=True)
class Progress:
    """How a slice ended: the metrics of an epoch, if one ended, and whether the trial is done."""

    done: bool
    epoch: dict[str, Any] | None = None


class TrialRun:
    """A trial being run: its task, its journal, its checkpoints."""

    def __init__(
        self, trial: Trial, store: Store, data: str, code: Mapping[str, str] | None = None
    ) -> None:
        """`code`: where the files of the trial's modules are here, if not at their own paths."""
        self.trial, self.store, self._code = trial, store, code or {}
        self.journal = journals.read(store, trial.id) or journals.Journal(trial)
        self._saved_at, self._save_cost = time.monotonic(), 0.0
        self._task: Task | None = None
        if self.journal.outcome is None:
            self._guarded(lambda: self._begin(data))

    def _begin(self, data: str) -> None:
        self.journal.attempts.append(self._attempt())
        load_modules(self.trial.modules, self._code)
        self.journal.config = resolve(self.trial.values).flat
        self.journal.write(self.store)  # the attempt, before anything large can kill it
        task = _runner(self.trial.runner)(self.trial, Place(self.store, data))
        found = checkpoint.read(self.store, checkpoint.last_key(self.trial.id))
        if found is not None or self.journal.epochs:
            self._take_up(task, found)
        self._task = task

    def _take_up(self, task: Task, found: Any) -> None:
        """Go on from the checkpoint that was found; what was learnt after it is learnt again."""
        done_epochs = 0
        if found is not None:
            tensors, plain = found
            task.restore(tensors, plain["task"])
            done_epochs = plain["num_epochs"]
        self.journal.epochs = self.journal.epochs[:done_epochs]
        self.journal.attempts[-1]["from_epoch"] = done_epochs
        self.journal.write(self.store)

    def _attempt(self) -> dict[str, Any]:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        here = {"pid": os.getpid(), **environment()}
        epochs = {"epochs_before": len(self.journal.epochs), "from_epoch": 0}
        return {"started": now, **epochs, **here}

    def advance(self, seconds: float) -> Progress:
        """Work for about so long, or to the end of an epoch, or to the end of the trial."""
        if self.journal.outcome is not None:
            return Progress(done=True)
        epoch = self._guarded(lambda: self._slice(seconds))
        return Progress(self.journal.outcome is not None, epoch)

    def _slice(self, seconds: float) -> dict[str, Any] | None:
        task = self._running
        epoch = None if task.finished else task.advance(seconds)
        if epoch is not None:
            self.journal.epochs.append(epoch)
            self._write_journal()
        if task.finished:
            self._conclude(task.conclude())
        elif self._save_is_due():
            self.save()
        return epoch

    def save(self) -> None:
        """Write a checkpoint now."""
        if self.journal.outcome is not None or self._task is None:
            return
        self._check_still_ours()
        begun = time.monotonic()
        tensors, plain = self._task.saved()
        wrapped = {"task": plain, "num_epochs": len(self.journal.epochs)}
        checkpoint.write(self.store, checkpoint.last_key(self.trial.id), tensors, wrapped)
        self._saved_at = time.monotonic()
        self._save_cost = self._saved_at - begun

    def _save_is_due(self) -> bool:
        interval = max(SAVE_SECONDS, SAVE_SHARE * self._save_cost)
        return time.monotonic() - self._saved_at > interval

    def _conclude(self, found: Conclusion) -> None:
        """Everything others may need goes to the store first, the outcome last."""
        for name, value in found.metrics.items():
            if not math.isfinite(value):
                raise Diverged(f"{name} became {value}")
        if self.trial.keep == "weights" and found.weights:
            checkpoint.write_weights(self.store, self.trial, found.weights)
        for split, log_probs in found.token_log_probs.items():
            kept.write(self.store, self.trial.id, split, log_probs)
        self._close(
            journals.COMPLETED,
            metrics=dict(found.metrics),
            num_parameters=found.num_parameters,
            digest=found.digest,
        )

    def _close(self, status: str, *, resumable: bool = False, **details: Any) -> None:
        """A failed trial that is tried again begins anew, unless it only wanted memory."""
        self.journal.outcome = {"status": status, "metrics": {}, **details}
        self._write_journal()
        if not resumable:
            self.store.delete(checkpoint.last_key(self.trial.id))
        self.store.sweep(f"trials/{self.trial.id}")
        self._task = None

    def _write_journal(self) -> None:
        self._check_still_ours()
        self.journal.write(self.store)

    def _check_still_ours(self) -> None:
        """A worker that was cut off, and given up, must not write over its successor's work."""
        if self.store.folder is not None or not self.journal.attempts:
            return  # on one machine a worker dies with its driver
        there = journals.read(self.store, self.trial.id)
        if there is not None and there.attempts and there.attempts[-1] != self.journal.attempts[-1]:
            raise StoreError(f"the trial {self.trial.id} goes on at another worker.")

    @property
    def _running(self) -> Task:
        if self._task is None:
            raise TrialError(f"trial {self.trial.id} is not running.")
        return self._task

    def _guarded(self, work: Any) -> Any:
        """Do `work`; a failure of the trial's own becomes its outcome."""
        try:
            return work()
        except StoreError:
            raise  # not the trial's fault: nothing is recorded, the same command goes on
        except Diverged as error:
            self._close(journals.DIVERGED, reason=str(error))
        except AblateError as error:
            self._close(journals.FAILED, reason=str(error))
        except Exception as error:
            self._close(journals.FAILED, **_failure(error, self.trial))
        return None


def load_modules(modules: tuple[str, ...], code: Mapping[str, str] | None = None) -> None:
    """Import the files in which a study registers techniques of its own, once each."""
    for path in modules:
        name = f"ablate_user.{Path(path).stem}_{digest(path)}"
        if name not in sys.modules:
            place = Path((code or {}).get(path, path))
            if not place.is_file():
                raise StudyError(f"{place}: the study's techniques are not there.")
            executed(place, name)


def check_gpus(scale: str, gpus: float) -> None:
    """Ray knows which GPUs there are; without it, torch does."""
    import torch

    if gpus and not torch.cuda.is_available():
        raise TrialError(
            f"scale '{scale}' gives each trial {gpus:g} GPU, and torch finds none on this "
            "machine. Allowed here: gpus=0, which makes other trials of them."
        )


def gpu_memory() -> Any:
    """What torch can say of a GPU's memory, its peak counted from now on."""
    import torch

    torch.cuda.reset_peak_memory_stats()
    return torch.cuda


def _runner(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _failure(error: Exception, trial: Trial) -> dict[str, Any]:
    if _out_of_memory(error):
        reason = "out of memory: a smaller batch_size or window, or fewer workers, needs less."
        return {"reason": reason, "error": str(error), "resumable": True}
    return {
        "reason": f"{type(error).__name__}: {error}",
        "frames": user_frames(error, trial.modules),
    }


def _out_of_memory(error: Exception) -> bool:
    import torch

    told = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return told or "not enough memory" in str(error) or "can't allocate memory" in str(error)
