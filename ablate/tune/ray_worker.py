"""The Ray actor: one worker in a process of its own, kept warm from trial to trial."""

from __future__ import annotations

import ctypes
import importlib
import signal
import sys
import traceback
from typing import Any

from ray.tune import Trainable

from ablate.errors import AblateError, StoreError

WORKER = "ablate.tune.worker:Worker"


class WarmWorker(Trainable):
    """The actor: one worker in a process of its own, kept from trial to trial."""

    def setup(self, config: dict[str, Any]) -> None:
        _die_with_parent()
        self._worker: Any = None
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._order, self._begun = new_config["order"], False
        self.config = {}  # or Tune would send the order back with every result
        return True

    def step(self) -> dict[str, Any]:
        """One slice. The list keeps Tune from flattening and averaging what is in it."""
        return {"slice": [self._advance()]}

    def preserve(self) -> str | None:
        """Save the running trial; what went wrong, if anything."""
        try:
            if self._begun:
                self._worker.save()
        except Exception as error:
            return _told(error)
        return None

    def _advance(self) -> dict[str, Any]:
        try:
            if self._worker is None:
                self._worker = _load(self._order.get("worker", WORKER))()
            if not self._begun:
                self._worker.begin(self._order)
                self._begun = True
            return dict(self._worker.advance())
        except Exception as error:  # a user's own errors end inside the worker: this is ours
            self._worker, self._begun = None, False
            kind = "no_store" if isinstance(error, StoreError) else "failure"
            return {kind: _told(error)}


def _die_with_parent() -> None:
    """End with the raylet, at once, so that no worker writes on when its driver was killed."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _load(place: str) -> Any:
    """The class at `module:name`."""
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)


def _told(error: Exception) -> str:
    """An error as text: our own say enough, of others the whole traceback is wanted."""
    if isinstance(error, AblateError):
        return str(error)
    return "".join(traceback.format_exception(error)).rstrip()
