"""A process of a trial that the worker's process leads: does what it is told (`team.py`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from ablate.config.identity import Trial
from ablate.errors import AblateError
from ablate.store.store import Store
from ablate.trial.provenance import trust
from ablate.trial.run import load_modules
from ablate.trial.task import Diverged, Place
from ablate.trial.training.crew import Shared
from ablate.trial.training.messages import Message, receive, send
from ablate.trial.training.team import join
from ablate.trial.training.training import Training
from ablate.trial.user.user_code import text_of

Orders = SimpleQueue[Message]


class Follower(Shared):
    """This process, in a crew."""

    def __init__(self, rank: int, size: int, orders: Orders) -> None:
        super().__init__(rank, size)
        self._orders = orders

    def agreed(self, compute: Callable[[], float]) -> float:
        return self._orders.get().plain["agreed"]


def main() -> None:
    """Do as the leader says, until it ends."""
    # What is printed, by the user's code too, must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    orders: Orders = SimpleQueue()
    Thread(target=_listen, args=(sys.stdin.buffer, orders), daemon=True).start()
    place = orders.get().plain
    try:
        send(answers, {}, {})
        join(place["rank"], place["size"], place["device"], place["folder"])
        send(answers, {}, {})
        _follow(place["rank"], place["size"], orders, answers)
    except Exception as error:
        with suppress(OSError):
            text = str(error) if isinstance(error, AblateError) else _named(error)
            send(answers, {"error": text}, {})
        os._exit(1)  # at once: the process group of a process that failed may not come to an end


def _listen(pipe: IO[bytes], orders: Orders) -> None:
    """Put orders into the queue; end with the leader, even in the middle of an update."""
    while (order := receive(pipe)) is not None:
        orders.put(order)
    os._exit(0)


def _follow(rank: int, size: int, orders: Orders, answers: IO[bytes]) -> None:
    training: Any = None
    while True:
        order = orders.get()
        do = order.plain["do"]
        with suppress(Diverged):  # the leader finds the same, and tells the driver
            if do == "begin":
                training = None  # at once: two models may not fit into memory
                training = _begun(order.plain, Follower(rank, size, orders))
                send(answers, {}, {})
            elif do == "update":
                training.train_next()
            elif do == "end_epoch":
                training.end_epoch()
            elif do == "keep_start":
                training.keep_start()
            elif do == "restore":
                training.restore(order.tensors, order.plain["state"])
            elif do == "saved":
                send(answers, {}, training.reader.saved())
            elif do == "end":
                training = None


def _begun(plain: dict[str, Any], crew: Follower) -> Training:
    """Build the leader's trial. The leader has trusted its code."""
    trial, code = Trial.from_plain(plain["trial"]), plain["code"]
    trust.accept(code.get(path, path) for path in trial.modules)
    load_modules(trial.modules, code)
    return Training(trial, Place(Store(plain["store"]), plain["data"]), crew)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {text_of(error)}"
