"""Variables that a loop over `run.epochs` keeps without giving them to it: a cut trial loses them.

    best = math.inf
    for epoch in run.epochs(model, optimizer, total=...):
        ...
        best = min(best, loss)

The source says which names one pass leaves to the next (`epoch_loop.py`); the variables of the
running function say which of them hold what was given, and which objects change without being
assigned: a list that grows, a generator, an optimizer that was forgotten. Nothing is changed, drawn
or kept alive by looking.
"""

from __future__ import annotations

import inspect
import io
import itertools
import random
import sys
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np

from ablate.config.tensors import Tensor, torch
from ablate.store.attempt import Kept
from ablate.trial.user.epoch_loop import EpochLoop, epoch_loop
from ablate.trial.user.plain_state import read_state
from ablate.trial.user.user_code import is_users

PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))
SEQUENCES = (list, tuple, deque)
DEEPEST = 4  # levels of containers that are looked into
MOST_ITEMS = 2_000  # looked at in one variable
NOTHING = object()  # no value at all
LARGEST = 1 << 16  # numbers of an array that are looked at


class Watch:
    """Looks at a function's variables when its loop begins and at each yield."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._code = getattr(inspect.unwrap(function), "__code__", None)
        self._loop: EpochLoop | None = epoch_loop(function)
        self._running: weakref.ref[Generator[Any, None, Any]] | None = None
        self._at_start: dict[str, Any] | None = None  # what the loop assigns
        self._there: Set[str] = frozenset()  # what there is before the loop, and not assigned in it
        self._before: dict[str, Any] = {}  # at the last yield
        self._names: dict[str, None] = {}  # that were noticed

    @property
    def found(self) -> Kept | None:
        """The loop's file and line, and the names of the variables that its epochs share."""
        if not self._names or self._loop is None or self._code is None:
            return None
        where = f"{Path(self._code.co_filename).name}:{self._loop.line}"
        return Kept(where=where, names=tuple(self._names))

    def follow(self, running: Generator[Any, None, Any]) -> None:
        """Look at this run of the function, which ends as soon as nobody else holds it."""
        if inspect.isgenerator(running):
            self._running = weakref.ref(running)

    def begin(self) -> None:
        """Take in the variables that there are when the loop begins."""
        if self._loop is not None:
            values = self._values(self._loop)
            self._there = self._loop.read & values.keys() - self._loop.renewed
            self._at_start = _marks(values, self._loop.carried, Given(()))

    def look(self, given: tuple[Any, ...]) -> None:
        """Take in the variables at a yield."""
        if self._loop is None or self._at_start is None:
            return
        values, known = self._values(self._loop), Given(given)
        carried = _marks(values, self._loop.carried, known)
        if any(self._at_start.get(name, NOTHING) != mark for name, mark in carried.items()):
            self._names |= dict.fromkeys(sorted(carried))
        now = _marks(values, self._there, known)
        for name, mark in sorted(now.items()):
            if isinstance(mark, _UsedUp) or self._before.get(name, mark) != mark:
                self._names[name] = None
        self._before = now

    def _values(self, loop: EpochLoop) -> dict[str, Any]:
        """Return the variables that the loop keeps or reads, if the function itself is running."""
        running = None if self._running is None else self._running()
        frame = getattr(running, "gi_frame", None)
        # A decorator's own generator has other variables than the function's.
        if frame is None or frame.f_code is not self._code:
            return {}
        variables = frame.f_locals
        names = [name for name in loop.carried | loop.read if name in variables]
        # A name that starts with `_` says that its value does not matter.
        values = {name: variables[name] for name in names if not name.startswith("_")}
        if isinstance(variables, dict):
            variables.clear()  # before Python 3.13 a copy, which the frame would keep alive
        return values


def _marks(values: Mapping[str, Any], names: Iterable[str], known: Given) -> dict[str, Any]:
    """Return name -> a mark of the value, for the values that `run.epochs` was not given."""
    own = {name: values[name] for name in names if name in values}
    return {name: Marker(known).mark(v) for name, v in own.items() if not known.has(v)}


class Given:
    """The arguments of `run.epochs`, with every object that is saved and restored with them."""

    def __init__(self, given: Iterable[Any]) -> None:
        self._ids: set[int] = set()
        self._memory: set[int] = set()
        for thing in given:
            self._add(thing, 0)

    def has(self, value: Any) -> bool:
        """Return whether the value is a given object, or a view of a given tensor."""
        if isinstance(value, PLAIN):
            return False
        if id(value) in self._ids:
            return True
        if isinstance(value, Tensor):
            return _memory(value) in self._memory
        if isinstance(value, torch.nn.Module):
            tensors = list(itertools.chain(value.parameters(), value.buffers()))
            return bool(tensors) and all(self.has(tensor) for tensor in tensors)
        return False

    def _add(self, thing: Any, depth: int) -> None:
        if isinstance(thing, PLAIN) or id(thing) in self._ids or depth > DEEPEST:
            return
        self._ids.add(id(thing))
        if isinstance(thing, Tensor) and (memory := _memory(thing)) is not None:
            self._memory.add(memory)
        for part in self._parts(thing):
            self._add(part, depth + 1)

    def _parts(self, thing: Any) -> Iterator[Any]:
        if isinstance(thing, torch.nn.Module):
            yield from thing.modules()
            yield from itertools.chain(thing.parameters(), thing.buffers())
        elif isinstance(thing, torch.optim.Optimizer):
            return  # it saves its own state, and not the parameters
        elif isinstance(thing, Mapping):
            yield from thing.values()
        elif isinstance(thing, SEQUENCES):
            yield from itertools.islice(thing, MOST_ITEMS)
        elif _has_state(thing):
            # A schedule refers to its optimizer, and does not save it.
            of_schedule = isinstance(thing, torch.optim.lr_scheduler.LRScheduler)
            own = getattr(thing, "__dict__", {})
            yield from (v for name, v in own.items() if not (of_schedule and name == "optimizer"))


class _UsedUp(str):
    """The mark of an iterator: the loop uses it up, and nothing can say how far it is."""


class Marker:
    """Makes a small value that changes when an object does."""

    def __init__(self, known: Given) -> None:
        self._known, self._left = known, MOST_ITEMS

    def mark(self, value: Any, depth: int = 0) -> Any:
        """The mark; None for what cannot be looked at, which is not the trial's failure."""
        try:
            return self._mark(value, depth)
        except Exception:
            return None

    def _mark(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if isinstance(value, PLAIN):
            exact = isinstance(value, str | bytes | int)
            return type(value).__name__, value if exact else repr(value)  # NaN is not itself
        if self._left < 0 or depth > DEEPEST or self._known.has(value):
            return None
        if isinstance(value, Tensor):
            return "tensor", _memory(value), value.shape, _version(value)
        if isinstance(value, np.ndarray):
            return _of_array(value)
        if isinstance(value, Mapping):
            return [
                (self.mark(k, depth + 1), self.mark(v, depth + 1)) for k, v in self._some(value)
            ]
        if isinstance(value, Set):
            return len(value), frozenset(map(repr, value)) if len(value) < MOST_ITEMS else None
        if isinstance(value, SEQUENCES):
            some = itertools.islice(value, max(0, self._left))
            return len(value), [self.mark(item, depth + 1) for item in some]
        return self._of_object(value, depth)

    def _some(self, value: Mapping[Any, Any]) -> list[Any]:
        return list(itertools.islice(value.items(), max(0, self._left)))

    def _of_object(self, value: Any, depth: int) -> Any:
        drawn = _drawn(value)
        if drawn is not None:
            return drawn
        if isinstance(value, Iterator) and not isinstance(value, io.IOBase):
            return _UsedUp(id(value))
        if isinstance(value, type) or inspect.isroutine(value) or inspect.ismodule(value):
            return None
        if _has_state(value):
            return self.mark(read_state(value), depth + 1)
        file = getattr(sys.modules.get(type(value).__module__), "__file__", None)
        if file is not None and is_users(file):
            return self.mark(getattr(value, "__dict__", {}), depth + 1)
        return "object", id(value)


def _has_state(thing: Any) -> bool:
    try:
        return callable(getattr(thing, "state_dict", None))
    except Exception:
        return False  # whatever it says, it does not say that it has one


def _drawn(value: Any) -> Any:
    """The state of a random generator; None for anything else."""
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, torch.Generator):
        return zlib.crc32(value.get_state().numpy().tobytes())
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state())
    return hash(value.getstate()) if isinstance(value, random.Random) else None


def _of_array(value: np.ndarray) -> Any:
    step = max(1, value.size // LARGEST)
    plain = value.dtype.kind in "biufc"
    return value.shape, zlib.crc32(value.flat[::step].tobytes()) if plain else id(value)


def _memory(tensor: Tensor) -> int | None:
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError, ValueError):
        return None  # sparse, or without memory yet


def _version(tensor: Tensor) -> int:
    """Return torch's count of a tensor's changes in place."""
    try:
        return tensor._version
    except RuntimeError:
        return 0  # made in inference mode
