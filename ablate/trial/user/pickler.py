"""Pickles functions, classes and objects that no import finds by value; the others by name."""

from __future__ import annotations

import dataclasses
import functools
import io
import sys
import types
from collections import ChainMap
from typing import Any, ClassVar, cast

import cloudpickle

from ablate.config.tasks import MAIN

CACHED = type(functools.lru_cache(len))
HEAP_TYPE = 1 << 9  # a flag of classes that are made while Python runs, by a statement for example


def _reduce_cached(function: Any) -> Any:
    """A function with a cache: its name if an import finds it, else an empty cache of its own."""
    if is_importable(function):
        return function.__qualname__
    limits = function.cache_parameters()
    return _cached, (function.__wrapped__, limits["maxsize"], limits["typed"])


def _cached(function: Any, maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize, typed)(function)


class _Pickler(cloudpickle.Pickler):
    """`cloudpickle`'s, which pickles two kinds of objects by names that workers do not have."""

    dispatch_table: ClassVar[ChainMap[type, Any]] = ChainMap(
        # What is compared by identity must not become another object.
        {CACHED: _reduce_cached, type(dataclasses.MISSING): lambda _: "MISSING"},
        cast(Any, cloudpickle.Pickler.dispatch_table),
    )


def reduced(value: Any) -> Any:
    """Say how an object is pickled, as `object.__reduce_ex__` does."""
    reduce = _Pickler.dispatch_table.get(type(value))
    return reduce(value) if reduce else value.__reduce_ex__(4)


def is_importable(value: Any) -> bool:
    """Return whether another process finds a function, a class or a module by its name."""
    if isinstance(value, types.ModuleType):
        return True
    if isinstance(value, type) and not value.__flags__ & HEAP_TYPE:
        return True
    found = sys.modules.get(value.__module__) if value.__module__ != MAIN else None
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def pickled(value: Any) -> bytes:
    """An object as bytes, with the code of all that no import finds."""
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)
    return file.getvalue()
