"""Digests of the values that a function uses: values of one digest are equal.

    digests(train)  ->  {"train": "5d0c...", "scaled": "91ab...", "X": "e07f...", "lock": None}

Functions and classes that no import finds (those of a script or a notebook) count by their code,
without comments and docstrings, and the globals that they name are looked at in turn. What an
import finds counts by its name, and modules of the user's own by their code. Data count by their
contents: numbers, texts, containers, arrays, tensors, and every object that says how it is pickled.
None stands for a value that has no such contents, such as an open file.
"""

from __future__ import annotations

import dataclasses
import dis
import hashlib
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ablate.config.fields import Limits
from ablate.trial.provenance.imported import Found, is_own
from ablate.trial.user.pickler import is_importable, reduced

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
ROUTINES = (types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType)
SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
# Attributes of a class that Python adds, and that do not change what the class does.
ADDED = (
    *("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__firstlineno__"),
    *("__static_attributes__", "__abstractmethods__", "_abc_impl", "__annotations_cache__"),
)
HAS_DOCSTRING = 0x4000000  # a flag of code since Python 3.14
IMPORTED = (type, types.FunctionType, types.ModuleType)
GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")


def digests(*used: Any) -> dict[str, str | None]:
    """The digests of functions and classes, and of all that these use, by name."""
    return Digests(*used).by_name


class Digests:
    """Digests by name, with the values themselves and the names of the files of their code."""

    def __init__(self, *used: Any) -> None:
        self.by_name: dict[str, str | None] = {}
        self.values: dict[str, Any] = {}
        self.files: set[str] = set()
        self._modules: set[str] = set()  # that the code imports
        self._known: dict[int, tuple[bytes, Any]] = {}  # with the objects, which keeps their ids
        self._path: dict[int, int] = {}  # the containers around a value, by id
        self._waiting = {getattr(each, "__qualname__", repr(each)): each for each in used}
        while self._waiting:
            name = min(self._waiting)
            self.values[name] = self._waiting.pop(name)
            self.by_name[name] = self._of_name(name)
        own_modules = _own_modules(self._modules)
        self.module_files = [*own_modules.files]
        self.by_name.update(own_modules.code)

    def _of_name(self, name: str) -> str | None:
        try:
            return self._of(self.values[name]).hex()[:16]
        except Exception:  # a value that cannot be pickled, or what its own methods raise
            self._path.clear()
            return None

    def _of(self, value: Any) -> bytes:
        if type(value) in PLAIN:
            return _hash(type(value).__name__, _text(value))
        if id(value) in self._known:
            return self._known[id(value)][0]
        if id(value) in self._path:  # a value inside of itself
            return _hash("around", _text(len(self._path) - self._path[id(value)]))
        self._path[id(value)] = len(self._path)
        found = self._of_new(value)
        del self._path[id(value)]
        self._known[id(value)] = found, value
        return found

    def _all(self, tag: str, *values: Any) -> bytes:
        return _hash(tag, *map(self._of, values))

    def _of_new(self, value: Any) -> bytes:
        kind = type(value)
        if kind in (list, tuple):
            if all(type(each) in PLAIN for each in value):  # many numbers at once
                return _hash(kind.__name__, _text(value))
            return self._all(kind.__name__, *value)
        if kind is dict:
            return self._all("dict", *(each for item in value.items() for each in item))
        if kind in (set, frozenset):
            return _hash(kind.__name__, *sorted(map(self._of, value)))
        if isinstance(value, np.ndarray | np.generic):
            return self._array(np.asarray(value), kind)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return _tensor(value)
        return self._code_or_object(value)

    def _code_or_object(self, value: Any) -> bytes:
        if isinstance(value, type | types.FunctionType):
            return self._made_by_code(value)
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, types.ModuleType):
            self._modules.add(value.__name__)
            return self._all("module", value.__name__)
        if isinstance(value, ROUTINES) and isinstance(
            getattr(value, "__self__", None), types.ModuleType | None
        ):
            return self._all("builtin", getattr(value, "__module__", ""), value.__qualname__)
        if isinstance(value, property):  # without its docstring
            return self._all("property", value.fget, value.fset, value.fdel)
        if isinstance(value, staticmethod | classmethod):
            return self._all(type(value).__name__, value.__func__)
        if isinstance(value, SLOTS):
            return self._all("slot", value.__name__)
        if isinstance(value, Limits):  # of a setting
            value = dataclasses.replace(value, doc="")
        return self._object(value)

    def _made_by_code(self, value: Any) -> bytes:
        """A function or a class: by its name if an import finds it, else by its code."""
        if is_importable(value):
            self._modules.add(value.__module__)
            return self._all("import", value.__module__, value.__qualname__)
        if isinstance(value, type):
            own = {name: each for name, each in vars(value).items() if name not in ADDED}
            parts = [each for name in sorted(own) for each in (name, own[name])]
            return self._all("class", type(value), *value.__bases__, *parts)
        if hasattr(value, "counts_as"):
            return self._all("command", value.counts_as)
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        own = value.__code__, value.__defaults__, value.__kwdefaults__, cells, vars(value)
        return self._all("function", *own, self._imported_globals(value))

    def _imported_globals(self, function: types.FunctionType) -> list[Any]:
        """The globals of a function that are imports; the others get digests of their own."""
        module, imported = function.__globals__.get("__name__"), []
        for name in sorted(set(_globals(function.__code__)) & function.__globals__.keys()):
            value = function.__globals__[name]
            whole = name if module == "__main__" else f"{module}.{name}"
            if isinstance(value, IMPORTED) and is_importable(value):
                imported.append((name, value))
            elif not name.startswith("__") and whole not in self.values:
                self._waiting[whole] = value
        return imported

    def _code(self, code: types.CodeType) -> bytes:
        self.files.add(code.co_filename)
        numbers = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount]
        numbers.append(code.co_flags & ~HAS_DOCSTRING)
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        constants = list(code.co_consts)
        if _has_docstring(code):
            constants[0] = None
        return self._all("code", code.co_code, numbers, names, constants)

    def _array(self, array: np.ndarray, kind: type) -> bytes:
        about = f"{kind.__name__} {array.dtype.str} {array.shape}"
        if array.dtype.names:  # bytes between the fields may hold anything
            return self._all(about, *((name, array[name]) for name in array.dtype.names))
        if array.dtype.hasobject:
            return self._all(about, *array.ravel().tolist())
        return _hash(about, array.tobytes())

    def _object(self, value: Any) -> bytes:
        """An object, by what pickling it writes."""
        made = reduced(value)
        if isinstance(made, str):
            module = getattr(value, "__module__", None) or type(value).__module__
            return self._all("global", module, made)
        function, arguments, state, items, pairs = (*made, None, None, None)[:5]
        if isinstance(state, Mapping):  # attributes, in whatever order they were set
            state = [(key, state[key]) for key in sorted(state, key=str)]
        return self._all("object", function, arguments, state, list(items or ()), list(pairs or ()))


def _own_modules(names: Iterable[str]) -> Found:
    """The files of the user's modules, and of all that these import."""
    found = Found()
    for name in sorted(names):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and is_own(file):
            found.add(Path(file).resolve())
    return found


def _tensor(tensor: Any) -> bytes:
    about = f"{type(tensor).__name__} {tensor.dtype} {tuple(tensor.shape)} {tensor.device.type}"
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    numbers = plain.view(sys.modules["torch"].uint8).numpy().tobytes() if plain.numel() else b""
    return _hash(f"{about} {tensor.requires_grad}", numbers)


def _globals(code: types.CodeType) -> Iterator[str]:
    """The names of globals that a function, or a function inside the function, reads or writes."""
    yield from (each.argval for each in dis.get_instructions(code) if each.opname in GLOBALS)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


def _has_docstring(code: types.CodeType) -> bool:
    """Return whether the first constant is a docstring."""
    if sys.version_info >= (3, 14):
        return bool(code.co_flags & HAS_DOCSTRING)
    # Lambdas, comprehensions and modules have names such as <lambda>, and no docstring.
    is_function = not code.co_name.startswith("<") and code.co_flags & 2  # CO_NEWLOCALS
    return bool(is_function and code.co_consts and isinstance(code.co_consts[0], str))


def _text(value: Any) -> bytes:
    return repr(value).encode("utf-8", "surrogatepass")


def _hash(tag: str, *parts: bytes) -> bytes:
    made = hashlib.sha256(f"{tag}:{len(parts)}".encode())
    for part in parts:
        made.update(f":{len(part)}:".encode())
        made.update(part)
    return made.digest()
