"""One trial in this process: its results are durable in the store before they are reported.

    run = TrialRun(trial, store, data)
    while not run.advance(seconds=2):
        ...

A trial that was started before resumes from its last checkpoint and reaches the same bits. Errors
inside it become its outcome (diverged, failed) and are never raised to the caller.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablate.config.identity import Keep, Trial
from ablate.config.streams import Streams
from ablate.config.tasks import find_runner
from ablate.config.tensors import HAS_TORCH, Tensor, torch
from ablate.errors import (
    AblateError,
    DamagedError,
    StoreError,
    StudyError,
    TakenOver,
    TrialError,
)
from ablate.store import journal as journals
from ablate.store import sentences, tokens, trial_files
from ablate.store.attempt import Attempt
from ablate.store.epoch import Epoch
from ablate.store.outcome import TEXT, Outcome, Status
from ablate.store.store import Store, damaged
from ablate.trial import checkpoint
from ablate.trial.output import Output
from ablate.trial.provenance import closure as closures
from ablate.trial.provenance import trust
from ablate.trial.provenance.environment import environment
from ablate.trial.provenance.opened import Opened
from ablate.trial.task import (
    Conclusion,
    Diverged,
    Place,
    Task,
    check_conclusion,
    check_epoch,
)
from ablate.trial.user import own_modules
from ablate.trial.user.beside import find_beside
from ablate.trial.user.user_code import PICKLE, executed, text_of, user_frames

log = logging.getLogger("ablate.trial")
SAVE_SECONDS = 5.0  # the shortest time between checkpoints ...
SAVE_SHARE = 20  # ... which take at most a twentieth of the time


class TrialRun:
    """A trial being run: its task, its journal, its checkpoints."""

    def __init__(
        self,
        trial: Trial,
        store: Store,
        data: str,
        here: Mapping[str, str] | None = None,
    ) -> None:
        """`here`: path of a trial's module or file -> its path on this host, if different."""
        self.trial, self.store, self._here = trial, store, here or {}
        self.journal = journals.read(store, trial.id) or journals.Journal(trial)
        self._saved_at, self._save_cost = time.monotonic(), 0.0
        self._inherited = list[str]()
        self._output = Output(store, trial.id)
        self._opened = Opened((), ())
        self._task: Task | None = None  # None once the trial has an outcome
        self.epoch: Epoch | None = None  # that the last slice ended
        self.reached = 0.0  # epochs done, with the share of the one under way
        if self.journal.outcome is None:
            # A failure to begin is an outcome too: a task's file may have an error.
            self._guarded(lambda: self._begin(Place(store, data, self._here)))

    def _begin(self, place: Place) -> None:
        self.journal.attempts.append(self._attempt())
        load_modules(self.trial.modules, self._here)
        trial = self._trial_here()
        self.journal.config = {**self.trial.config.flat, **trial.config.extras}
        neutral = tuple(trial.config.neutral)
        made_from = closures.closure(trial, closures.first_seen)
        self.journal.note(closure=made_from or None, neutral=neutral or None)
        self.journal.write(self.store)  # record the attempt before anything large can kill it
        self._opened = Opened(closures.folders(trial), _own_folders(place))
        self._seed_global("begin")
        with self._opened.listening():
            task = find_runner(self.trial.runner)(trial, place)
        saved = self._last_checkpoint()
        if saved is not None or self.journal.epochs:
            self._resume(task, saved)
        self._task = task

    def _trial_here(self) -> Trial:
        """The trial with the paths of its files on this host."""
        files, here = self.trial.config.files, self._here
        moved = {key: here[path] for key, path in files.items() if path in here}
        return replace(self.trial, values={**self.trial.values, **moved}) if moved else self.trial

    def _last_checkpoint(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The last checkpoint, or None if it is missing or damaged: training from the start ends
        with the same bits."""
        key = checkpoint.last_key(self.trial.id)
        try:
            saved = checkpoint.read(self.store, key)
            if saved is not None and not _fits(saved[1], self.journal):
                raise damaged(self.store, key, "it does not belong to the trial's journal")
            return saved
        except DamagedError as error:
            log.warning("%s Trial %s starts from its beginning.", error.what, self.trial.id)
            self.journal.note(discarded=error.what)
            return None

    def _resume(self, task: Task, saved: Any) -> None:
        """Resume from the checkpoint, if any; epochs after it are trained again."""
        done_epochs = 0
        if saved is not None:
            tensors, plain = saved
            task.restore(tensors, plain["task"])
            done_epochs = plain["num_epochs"]
            self._inherited = plain.get("computed_by", [journals.UNKNOWN])
        # Epochs after the checkpoint come again: none may be in the journal twice.
        self.journal.epochs = self.journal.epochs[:done_epochs]
        self.journal.note(from_epoch=done_epochs)
        self._write_journal()

    def _attempt(self) -> Attempt:
        return Attempt(
            started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            epochs_before=len(self.journal.epochs),
            pid=os.getpid(),
            computed_by=(),
            **environment(),
        )

    def advance(self, seconds: float) -> bool:
        """Work for about `seconds`, or to the end of an epoch or of the trial; return whether the
        trial is done."""
        self.epoch, task = None, self._task
        if task is not None:
            self.epoch = self._guarded(lambda: self._slice(task, seconds))
            # Tasks that end a slice only with an epoch have no share of one.
            self.reached = len(self.journal.epochs) + getattr(task, "epoch_share", 0.0)
        return self.journal.outcome is not None

    @property
    def task(self) -> Task | None:
        """The task under way; None once the trial has an outcome."""
        return self._task

    def _seed_global(self, purpose: str) -> None:
        Streams(self.trial.seed, self.trial.device).seed_global(purpose)

    def _slice(self, task: Task, seconds: float) -> Epoch | None:
        with self._opened.listening():
            reported = None if task.finished else task.advance(seconds)
        epoch = None
        if reported is not None:
            check_epoch(reported, self.trial.runner)
            epoch = Epoch.from_plain(reported)
            self.journal.epochs.append(epoch)
            self._write_journal()
        if task.finished:
            # Draws in `conclude` would otherwise depend on where this process resumed.
            self._seed_global("conclude")
            self._conclude(task.conclude())
        elif self._save_is_due():
            self.save()
        return epoch

    def save(self) -> None:
        """Write a checkpoint now."""
        if self._task is None:
            return
        self._check_still_ours()
        self._output.write()
        start = time.monotonic()
        # Before the checkpoint: work that a checkpoint keeps has its way of computing on record.
        if self._note_computed_by():
            self.journal.write(self.store)
        state = self._task.saved()
        if state is None:
            return  # the task cannot resume
        tensors, plain = state
        wrapped = {
            "task": plain,
            "num_epochs": len(self.journal.epochs),
            # The attempt that resumes inherits this work, and says how it was computed.
            "computed_by": list(self.journal.last_attempt.computed_by or ()),
        }
        checkpoint.write(self.store, checkpoint.last_key(self.trial.id), tensors, wrapped)
        self._saved_at = time.monotonic()
        self._save_cost = self._saved_at - start

    def _save_is_due(self) -> bool:
        interval = max(SAVE_SECONDS, SAVE_SHARE * self._save_cost)
        return time.monotonic() - self._saved_at > interval

    def _conclude(self, conclusion: Conclusion) -> None:
        """Write everything that others may need to the store first, the outcome last."""
        check_conclusion(conclusion, self.trial)
        for name, value in conclusion.metrics.items():
            if not math.isfinite(value):
                raise Diverged(f"{name} became {value}")
        if self.trial.keep == Keep.WEIGHTS and conclusion.weights:
            checkpoint.write_weights(self.store, self.trial, conclusion.weights)
        for split, log_probs in conclusion.token_log_probs.items():
            tokens.write(self.store, self.trial.id, split, log_probs)
        for split, written in conclusion.sentences.items():
            sentences.write(self.store, self.trial.id, split, written)
        if conclusion.files:
            trial_files.write(self.store, self.trial.id, conclusion.files)
        own = conclusion.token_log_probs.get("test")
        deviations = None if own is None else tokens.deviations(own)
        self._close(
            Outcome(
                status=Status.COMPLETED,
                metrics=dict(conclusion.metrics),
                num_parameters=conclusion.num_parameters,
                digest=conclusion.digest,
                signatures=dict(conclusion.signatures) or None,
                seconds=conclusion.seconds,
                deviations=deviations,
                deviations_of=TEXT if deviations else None,
            )
        )

    def _close(self, outcome: Outcome, *, resumable: bool = False) -> None:
        """Record the outcome. Without `resumable`, a retry of the trial starts from scratch."""
        self._check_still_ours()
        if outcome.status == Status.FAILED and not resumable:
            self.store.delete(checkpoint.last_key(self.trial.id))  # first: a retry must not find it
        self._note_opened()
        self.journal.outcome = outcome
        self._output.end(outcome.frames or outcome.reason or "")
        self._write_journal()
        if not resumable:  # only now: a trial that is killed before its outcome is written resumes
            self.store.delete(checkpoint.last_key(self.trial.id))
        self.store.sweep(f"trials/{self.trial.id}")
        self._task = None

    def _write_journal(self) -> None:
        self._check_still_ours()
        if lines := self._output.lines:
            self.journal.note(output=tuple(lines))
        self._note_computed_by()
        self.journal.write(self.store)

    def _note_opened(self) -> None:
        """Record which files the trial's own code has opened."""
        if self.journal.attempts:
            known = self.journal.last_attempt.closure or {}
            known = closures.with_opened(self.trial, known, self._opened)
            self.journal.note(closure=known or None)

    def _note_computed_by(self) -> bool:
        """Record how the trial was computed, including the attempts that it resumed; return whether
        that changed the record."""
        before = self.journal.last_attempt.computed_by
        ways = dict.fromkeys([*self._inherited, *getattr(self._task, "computed_by", ())])
        self.journal.note(computed_by=tuple(ways))
        if why := getattr(self._task, "not_compiled", None):
            self.journal.note(not_compiled=why)
        if operations := getattr(self._task, "operations", None):
            self.journal.note(operations=operations)
        if idle := getattr(self._task, "without_effect", None):
            self.journal.note(without_effect=tuple(idle))
        if kept := getattr(self._task, "kept_outside", None):
            self.journal.note(kept_outside=kept)
        return self.journal.last_attempt.computed_by != before

    def _check_still_ours(self) -> None:
        """Stop a worker that was cut off and replaced from overwriting its successor's work."""
        if self.store.folder is not None or not self.journal.attempts:
            return  # on one machine a worker dies with its driver
        stored = journals.read(self.store, self.trial.id)
        if stored is not None and stored.attempts:
            # A death that only the store knows of is this worker's: its driver has given it up.
            last, own = (_process(journal.last_attempt) for journal in (stored, self.journal))
            if last != own or stored.deaths != self.journal.deaths:
                raise TakenOver(f"trial {self.trial.id} has been taken over by another worker.")

    def _guarded(self, work: Any) -> Any:
        """Do `work`; a failure of the trial becomes its outcome."""
        try:
            with self._output.listening():
                return work()
        except StoreError:  # before AblateError, whose subclass it is
            raise  # not the trial's fault: nothing is recorded, and it can be resumed
        except Diverged as error:
            self._close(Outcome(status=Status.DIVERGED, reason=str(error)))
        except AblateError as error:
            self._close(Outcome(status=Status.FAILED, reason=str(error)))
        except KeyboardInterrupt:
            raise  # Ctrl-C is the driver's
        except BaseException as error:  # sys.exit() in a task's code is the task's failure too
            self._close(_failure(error, self.trial), resumable=_out_of_memory(error))
        return None


def _own_folders(place: Place) -> list[Path]:
    """The folders of the trial's place that hold ablate's own files, and no user's."""
    store = place.store.folder
    return [Path(place.data).absolute(), *([store.absolute()] if store else [])]


def _process(attempt: Attempt) -> tuple[Any, ...]:
    """Return which process makes an attempt; the rest is filled in while it runs."""
    return attempt.started, attempt.host, attempt.pid


def _fits(plain: Mapping[str, Any], journal: journals.Journal) -> bool:
    """Return whether a checkpoint is one of this trial, of an epoch that its journal has."""
    task, epochs = plain.get("task"), plain.get("num_epochs")
    return isinstance(task, dict) and isinstance(epochs, int) and epochs <= len(journal.epochs)


def load_own(files: Sequence[str]) -> None:
    """Import files that the user names; they are trusted from now on."""
    trust.remember(files)
    load_modules(files)


def load_recorded(trial: Trial) -> None:
    """Import the code of a trial that was read from a store, if it is trusted."""
    find_runner(trial.runner)
    load_modules(trial.modules)


def load_modules(modules: Sequence[str], code: Mapping[str, str] | None = None) -> None:
    """Import the files in which a study registers its own task or techniques, once each. Objects
    that were sent by value are made anew each time.

    `code`: path of a module -> its path here, if different. A file that is not trusted is an error.
    """
    for path in modules:
        name = own_modules.name_of(path)
        file = Path((code or {}).get(path, path))
        if file.suffix == PICKLE:
            from ablate.trial.user import by_value

            if not by_value.registered_again(path):
                source = trust.checked(_present(file))
                by_value.load(file, source, is_sent=str(file) != path)
        elif name not in sys.modules:
            source = trust.checked(_present(file))
            if trust.is_own_place(file):
                find_beside(file, source)
            own_modules.publish(name, file, source)
            executed(file, name, source)


def _present(file: Path) -> Path:
    if not file.is_file():
        raise StudyError(
            f"{file} does not exist, and the trials need the task or the techniques that it "
            "registers. Instead: put it back at this path."
        )
    return file


def check_gpus(scale: str, gpus: float) -> None:
    """Check, without Ray, that torch finds a GPU if trials need one."""
    found = torch.cuda.device_count() if HAS_TORCH and torch.cuda.is_available() else 0
    if gpus and not found:
        raise TrialError(
            f"scale '{scale}' gives each trial {gpus:g} GPU, and torch finds none on this "
            "machine. Instead: a machine with a GPU, or gpus=0, which makes them different trials."
        )
    if gpus > found:
        raise TrialError(
            f"scale '{scale}' gives each trial {gpus:g} GPUs, and torch finds {found} on this "
            f"machine. Instead: gpus={found}, or a machine with more."
        )


def _failure(error: BaseException, trial: Trial) -> Outcome:
    if _out_of_memory(error):
        reason = "out of memory: a smaller batch_size or window, or fewer workers, needs less."
        return Outcome(status=Status.FAILED, reason=reason, error=text_of(error))
    frames = user_frames(error, trial.modules)
    reason = f"{type(error).__name__}: {text_of(error)}"
    return Outcome(status=Status.FAILED, reason=reason, frames=frames)


def _out_of_memory(error: BaseException) -> bool:
    # On a processor torch raises a plain RuntimeError, which only its text tells apart.
    typed = isinstance(error, MemoryError | torch.OutOfMemoryError)
    text = text_of(error)
    return typed or "not enough memory" in text or "can't allocate memory" in text
