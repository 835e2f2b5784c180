"""The state of a user's objects as named tensors and JSON, so that nothing is pickled.

An object has a state if it has `state_dict` and `load_state_dict` (modules, optimizers, schedulers,
scalers, Lightning's and Accelerate's objects), or is a torch or numpy generator or a numpy array.
A dict is its own state: plain values, such as the best result so far and a copy of its weights.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ablate.config.tensors import Tensor, from_bytes, is_lazy, torch
from ablate.errors import TrialError
from ablate.trial.checkpoint import STORED, bits, sparse_parts

# Keys that mark what JSON lacks.
TENSOR, ITEMS, TUPLE, INT = "__tensor__", "__items__", "__tuple__", "__int__"
SPARSE, LAZY, FIRST = "__sparse__", "__lazy__", "__first__"
METADATA = "_metadata"  # of a module's state: the versions of its submodules
DEEPEST = 100  # levels of containers; what is deeper contains itself
MOST_BITS = 10_000  # of an integer in JSON: Python reads no more than 4300 digits
ARRAYS = "biufcSUMm"  # kinds of numpy's types that are nothing but their bytes


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
    if is_plain(thing):
        return thing
    raise TrialError(
        f"run.epochs() cannot save {_named(thing)}. It saves objects with state_dict() "
        "and load_state_dict(), torch and numpy generators, numpy arrays, and a dict of plain "
        "values. Put numbers and lists into a dict, and leave out what each epoch makes again."
    )


def _named(thing: Any) -> str:
    """`a list`, `an object`."""
    name = type(thing).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def shown(value: Any) -> str:
    """A value in a message: its `repr`, cut short, or its type where that raises."""
    try:
        text = repr(value)
    except Exception:
        return _named(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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


def is_plain(thing: Any) -> bool:
    """Return whether the object is a dict, which is its own state."""
    return isinstance(thing, dict) and not callable(getattr(thing, "state_dict", None))


def members(thing: Any) -> list[Any]:
    """A plain dict and the members in it that can be changed, in order: the function may have other
    names for them. Any other object has no members."""
    found: dict[int, Any] = {}
    new = [thing] if is_plain(thing) else []
    while new:
        each = new.pop()
        if isinstance(each, dict | list | tuple | np.ndarray | Tensor) and id(each) not in found:
            found[id(each)] = each
            new += each.values() if isinstance(each, dict) else ()
            new += each if isinstance(each, list | tuple) else ()
    return [each for each in found.values() if not isinstance(each, tuple)]


def _put_into(member: Any, saved: Any) -> Any:
    """Give a member of a dict its saved value in place and return it; else return the value."""
    if isinstance(member, dict) and isinstance(saved, dict):
        member.clear()
        member.update(saved)
        return member
    if isinstance(member, list) and isinstance(saved, list):
        member[:] = saved
        return member
    return _filled(member, saved) if _are_alike(member, saved) else saved


def _are_alike(member: Any, saved: Any) -> bool:
    if isinstance(member, Tensor) and isinstance(saved, Tensor):
        if {member.layout, saved.layout} != {torch.strided}:
            return False
    elif not (isinstance(member, np.ndarray) and isinstance(saved, np.ndarray)):
        return False
    return (member.shape, member.dtype) == (saved.shape, saved.dtype)


def _filled(member: Any, saved: Any) -> Any:
    with torch.no_grad() if isinstance(member, Tensor) else nullcontext():
        member[...] = saved
    return member


class Splitting:
    """Replaces the tensors and arrays of states by their names in `tensors`.

    Without `tensors`, it only refuses what cannot be saved. `first`: `members` of the state when
    training began.
    """

    def __init__(self, tensors: dict[str, Tensor] | None, first: Sequence[Any] = ()) -> None:
        self.tensors = tensors
        self._first = {id(member): number for number, member in enumerate(first)}

    def rest(self, state: Any, depth: int = 0) -> Any:
        """What is left of the state, as JSON."""
        if depth > DEEPEST:
            raise TrialError(
                "run.epochs() cannot save a state that contains itself, or containers in more than "
                f"{DEEPEST} levels. Keep the values in one flat dict."
            )
        rest = self._rest(state, depth + 1)
        number = self._first.get(id(state))
        return rest if number is None else {FIRST: number, "value": rest}

    def _rest(self, state: Any, depth: int) -> Any:
        if isinstance(state, Tensor):
            return _split_tensor(state, self.tensors)
        if isinstance(state, np.ndarray | np.generic):
            return _split_array(state, self.tensors)
        if isinstance(state, Mapping):
            items = [[self.rest(k, depth), self.rest(v, depth)] for k, v in state.items()]
            if not isinstance(state, OrderedDict):
                return {ITEMS: items}  # pairs, as JSON's keys can only be strings
            metadata = self.rest(getattr(state, METADATA, None), depth)
            return {ITEMS: items, "ordered": True, METADATA: metadata}
        if isinstance(state, tuple | list):
            values = [self.rest(item, depth) for item in state]
            return {TUPLE: values} if isinstance(state, tuple) else values
        if isinstance(state, int) and state.bit_length() > MOST_BITS:
            return {INT: hex(state)}
        if state is None or isinstance(state, str | int | float | bool):
            return state
        raise _refused(state, _named(state))


def split(state: Any, tensors: dict[str, Tensor] | None, first: Sequence[Any] = ()) -> Any:
    """Replace the tensors and arrays of a state by their names in `tensors`; return the rest."""
    return Splitting(tensors, first).rest(state)


def _refused(state: Any, what: str) -> TrialError:
    own = callable(getattr(state, "state_dict", None)) or isinstance(
        state, torch.Generator | np.random.Generator
    )
    instead = (
        "Give it to run.epochs() by itself, or keep a copy of its state."
        if own
        else "It saves tensors, arrays, numbers, texts, and dicts, lists and tuples of them."
    )
    return TrialError(
        f"run.epochs() cannot save a state that contains {what}: {shown(state)}. {instead}"
    )


def _split_tensor(state: Tensor, tensors: dict[str, Tensor] | None) -> dict[str, Any]:
    if is_lazy(state):
        return {LAZY: isinstance(state, torch.nn.UninitializedParameter)}  # it has no values yet
    if state.is_quantized or state.is_meta or state.is_nested or state.is_mkldnn:
        kinds = {"quantized": state.is_quantized, "meta": state.is_meta, "nested": state.is_nested}
        kind = next((name for name, is_it in kinds.items() if is_it), "mkldnn")
        raise _refused(state, f"a {kind} tensor")
    state = state.detach()
    if state.layout != torch.strided:
        parts = [_split_tensor(part, tensors) for part in sparse_parts(state)]
        coalesced = state.layout == torch.sparse_coo and state.is_coalesced()
        layout = str(state.layout).removeprefix("torch.")
        return {SPARSE: layout, "parts": parts, "shape": [*state.shape], "coalesced": coalesced}
    if tensors is None:
        return {}
    own = state.clone()  # dense, whatever it is a view of
    rest: dict[str, Any] = {"kind": "tensor"}
    if own.device.type != "cpu":
        rest["device"] = str(own.device)
    if not own.is_contiguous():
        rest["stride"] = [*own.stride()]
    # A type that safetensors lacks is saved as bytes, with its name and shape.
    if own.dtype not in STORED:
        rest |= {"dtype": str(own.dtype).removeprefix("torch."), "shape": [*own.shape]}
        own = bits(own)
    return {TENSOR: _added(own, tensors), **rest}


def _split_array(state: np.ndarray | np.generic, tensors: dict[str, Tensor] | None) -> Any:
    array, kind = np.asarray(state), "array" if isinstance(state, np.ndarray) else "scalar"
    if array.dtype.kind not in ARRAYS or isinstance(state, np.ma.MaskedArray):
        what = "a masked array" if isinstance(state, np.ma.MaskedArray) else f"an {array.dtype}"
        raise _refused(state, f"{what} array" if kind == "array" else _named(state))
    if tensors is None:
        return {}
    rest = {"kind": kind, "dtype": array.dtype.str, "shape": [*array.shape]}
    rest |= {"order": "F"} if array.flags.fnc else {}
    return {TENSOR: _added(from_bytes(array.tobytes("A")), tensors), **rest}


def _added(tensor: Tensor, tensors: dict[str, Tensor]) -> str:
    name = str(len(tensors))
    tensors[name] = tensor
    return name


def join(rest: Any, tensors: Mapping[str, Tensor], first: Sequence[Any] = ()) -> Any:
    """The inverse of `split`. What was among the `first` members is put back into these."""
    if isinstance(rest, list):
        return [join(item, tensors, first) for item in rest]
    if not isinstance(rest, dict):
        return rest
    if FIRST in rest:
        value = join(rest["value"], tensors, first)
        return _put_into(first[rest[FIRST]], value) if rest[FIRST] < len(first) else value
    if TENSOR in rest:
        saved = tensors[rest[TENSOR]]
        is_tensor = rest["kind"] == "tensor"
        return _tensor(saved, rest, placed=bool(first)) if is_tensor else _array(saved, rest)
    if SPARSE in rest:
        return _sparse([join(part, tensors, first) for part in rest["parts"]], rest)
    if LAZY in rest:
        return torch.nn.UninitializedParameter() if rest[LAZY] else torch.nn.UninitializedBuffer()
    if INT in rest:
        return int(rest[INT], 16)
    if TUPLE in rest:
        return tuple(join(item, tensors, first) for item in rest[TUPLE])
    # Keys may be tuples, or numbers of parameters as in an optimizer's state.
    items = {join(key, tensors, first): join(item, tensors, first) for key, item in rest[ITEMS]}
    return _ordered(items, join(rest[METADATA], tensors)) if "ordered" in rest else items


def _ordered(items: dict[Any, Any], metadata: Any) -> OrderedDict[Any, Any]:
    state = OrderedDict(items)
    if metadata is not None:
        setattr(state, METADATA, metadata)
    return state


def _tensor(saved: Tensor, rest: Mapping[str, Any], *, placed: bool) -> Tensor:
    """A tensor with the type, the shape and the strides that it had; `placed`: on its device too.

    An object with `load_state_dict` moves tensors itself.
    """
    if "dtype" in rest:
        saved = saved.view(getattr(torch, rest["dtype"])).reshape(rest["shape"])
    if "stride" in rest:
        saved = torch.empty_strided(saved.shape, rest["stride"], dtype=saved.dtype).copy_(saved)
    if placed and "device" in rest:
        saved = saved.to(rest["device"])
    return saved


def _array(saved: Tensor, rest: Mapping[str, Any]) -> Any:
    if "dtype" not in rest:
        return np.asarray(saved)  # of a checkpoint from before types were saved
    array = np.ndarray(
        rest["shape"],
        rest["dtype"],
        buffer=np.asarray(saved).tobytes(),
        order=rest.get("order", "C"),
    ).copy("K")  # bytes cannot be written to
    return array if rest["kind"] == "array" else array[()]


def _sparse(parts: list[Tensor], rest: Mapping[str, Any]) -> Tensor:
    shape, layout = rest["shape"], getattr(torch, rest[SPARSE])
    if layout == torch.sparse_coo:
        indices, values = parts
        return torch.sparse_coo_tensor(
            indices, values, shape, check_invariants=True, is_coalesced=rest["coalesced"]
        )
    rows, columns, values = parts
    return torch.sparse_compressed_tensor(
        rows, columns, values, shape, layout=layout, check_invariants=True
    )
