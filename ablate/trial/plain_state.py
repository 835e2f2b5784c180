"""The state of a user's objects as named tensors and JSON, so that nothing is pickled.

An object has a state if it has `state_dict` and `load_state_dict` (modules, optimizers, schedulers,
scalers, Lightning's and Accelerate's objects), or is a torch or numpy generator or a numpy array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.errors import TrialError

TENSOR, ITEMS, TUPLE = "__tensor__", "__items__", "__tuple__"  # keys that mark what JSON lacks


def read_state(thing: Any) -> Any:
    """The state of an object, as nested containers, tensors and numbers."""
    if isinstance(thing, torch.Generator):
        return thing.get_state()
    if isinstance(thing, np.random.Generator):
        return thing.bit_generator.state
    if isinstance(thing, np.ndarray):
        return thing
    if callable(getattr(thing, "state_dict", None)):
        return thing.state_dict()
    raise TrialError(
        f"run.epochs() cannot save {_named(thing)}. It saves objects with state_dict() "
        "and load_state_dict(), torch and numpy generators, and numpy arrays. Leave it out, and "
        "make it again from the epoch's number where it matters."
    )


def _named(thing: Any) -> str:
    """`a list`, `an object`."""
    name = type(thing).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def load_state(thing: Any, state: Any) -> None:
    """Put back what `read_state` returned."""
    if isinstance(thing, torch.Generator):
        thing.set_state(state)
    elif isinstance(thing, np.random.Generator):
        thing.bit_generator.state = state
    elif isinstance(thing, np.ndarray):
        thing[...] = state
    else:
        thing.load_state_dict(state)


def split(state: Any, tensors: dict[str, Tensor]) -> Any:
    """Replace the tensors and arrays of a state by their names in `tensors`; return the rest."""
    if isinstance(state, np.ndarray):
        kind, state = "array", torch.from_numpy(np.ascontiguousarray(state))
    else:
        kind = "tensor"
    if isinstance(state, Tensor):
        name = str(len(tensors))
        tensors[name] = state.detach().clone()
        return {TENSOR: name, "kind": kind}
    if isinstance(state, Mapping):
        return {ITEMS: [[split(k, tensors), split(v, tensors)] for k, v in state.items()]}
    if isinstance(state, tuple):
        return {TUPLE: [split(item, tensors) for item in state]}
    if isinstance(state, list):
        return [split(item, tensors) for item in state]
    if isinstance(state, np.generic):
        return state.item()
    if state is None or isinstance(state, str | int | float | bool):
        return state
    raise TrialError(
        f"run.epochs() cannot save a state that contains a {type(state).__name__}: {state!r}. "
        "It saves tensors, arrays, numbers, texts, and containers of them."
    )


def join(rest: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The inverse of `split`."""
    if isinstance(rest, list):
        return [join(item, tensors) for item in rest]
    if not isinstance(rest, dict):
        return rest
    if TENSOR in rest:
        tensor = tensors[rest[TENSOR]]
        return tensor.numpy() if rest["kind"] == "array" else tensor
    if TUPLE in rest:
        return tuple(join(item, tensors) for item in rest[TUPLE])
    return {join(key, tensors): join(value, tensors) for key, value in rest[ITEMS]}
