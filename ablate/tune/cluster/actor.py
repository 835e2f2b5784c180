"""The Ray actor: a process that is reused from trial to trial, with a worker for each."""

from __future__ import annotations

import ctypes
import importlib
import signal
import sys
import traceback
from typing import Any

from ray.tune import Trainable

from ablate.errors import AblateError, StoreError, TakenOver
from ablate.redaction import redacted

WORKER = "ablate.tune.worker:Worker"


class WarmWorker(Trainable):
    """A Ray actor, reused from trial to trial; each trial has its own worker."""

    def setup(self, config: dict[str, Any]) -> None:
        _die_with_parent()
        # Ray's handler raises SystemExit inside the trial, which would fail it.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._order: dict[str, Any] = new_config["order"]
        self._worker: Any = None
        self._taken_over = False  # in the last slice
        self.config = {}  # otherwise Tune would send the order back with every result
        return True

    def step(self) -> dict[str, Any]:
        """Run one slice. The list keeps Tune from flattening and averaging its contents."""
        return {"slice": [self._advance()]}

    def preserve(self) -> str | None:
        """Save the running trial; return the error as text, if any."""
        try:
            if self._worker is not None:
                self._worker.save()
        except TakenOver:
            return None  # the other worker saves what it learns
        except Exception as error:
            return _as_text(error)
        return None

    def _advance(self) -> dict[str, Any]:
        try:
            if self._worker is None:
                self._worker = _load(self._order.get("worker", WORKER))(self._order)
            progress = dict(self._worker.advance())
            self._taken_over = False
            return progress
        except Exception as error:  # the worker handles errors of user code: this is ours
            self._worker = None
            if isinstance(error, TakenOver) and not self._taken_over:
                # The driver asks for another slice only if this is the trial's actor. A worker that
                # was given up has then written once more, on a host that Ray drains for example.
                self._taken_over = True
                return {"done": False, "epoch": None}  # the next slice resumes the trial
            kind = "no_store" if isinstance(error, StoreError) else "failure"
            return {kind: _as_text(error)}


def _die_with_parent() -> None:
    """Die at once with the raylet, so that no worker keeps writing after its driver was killed."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _load(path: str) -> Any:
    """The class at `module:name`."""
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


def _as_text(error: Exception) -> str:
    """An error as text: the message of an `AblateError`, the whole traceback of any other."""
    if isinstance(error, AblateError):
        return str(error)
    return redacted("".join(traceback.format_exception(error)).rstrip())
