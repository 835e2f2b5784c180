"""Reads plain data into dataclasses by the types of their fields; what does not fit is refused.

    record = typed.read(StudyRecord, plain)
    rows = typed.rows_of({"started": str})(attempts)

Mappings become dataclasses, and lists tuples, where the fields' types say so. A whole number may
stand for one with a fraction. What is wrong is a `Wrong` that names the field: "arms[1].changes is
a text, and must be a mapping". Nothing is converted, and nothing is guessed.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from ablate.errors import AblateError

T = TypeVar("T")
Reader = Callable[[Any], Any]
WORDS = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    tuple: "a list",
    dict: "a mapping",
    type(None): "null",
}
ACCEPTED: dict[type, Any] = {
    float: (float, int),
    dict: (dict,),
    **dict.fromkeys((list, tuple), (list, tuple)),
}


class Wrong(ValueError):
    """What is wrong with a value; what contains it puts the value's name in front."""

    def __str__(self) -> str:
        return self.args[0].lstrip(" .:")


def read(kind: type[T], plain: Any) -> T:
    """The dataclass that plain data stand for."""
    return _reader(kind)(plain)


def rows_of(kinds: Mapping[str, Any]) -> Reader:
    """What checks the known keys of a list of mappings, which may have others, or lack some."""
    return _items(list, _known_keys({name: _reader(kind) for name, kind in kinds.items()}))


def _known_keys(readers: Mapping[str, Reader]) -> Reader:
    whole = _plain(dict)

    def reads(value: Any) -> Any:
        whole(value)
        _named({name: value[name] for name in readers if name in value}, readers)
        return value

    return reads


def inside(name: str, reader: Reader, value: Any) -> Any:
    """Read a value that has a name in something larger."""
    try:
        return reader(value)
    except Wrong as wrong:
        raise Wrong(f"{name}{wrong.args[0]}") from None


@cache
def _reader(hint: Any) -> Reader:
    """What reads a type, made once: thousands of records are read at a time."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    kind = origin or hint
    if hint is Any:
        return _anything
    if origin in (typing.Union, types.UnionType):
        if all(each in WORDS for each in inner):
            return _plain(*inner)
        return _one_of([_reader(each) for each in inner], type(None) in inner)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    if kind in (tuple, list):
        return _items(kind, _reader(inner[0] if inner else Any))
    if issubclass(kind, Mapping):
        return _values(_reader(inner[1] if inner else Any))
    return _choice(kind) if issubclass(kind, Enum) else _plain(kind)


def _anything(value: Any) -> Any:
    return value


def _plain(*kinds: type) -> Reader:
    accepted = tuple(each for kind in kinds for each in ACCEPTED.get(kind, (kind,)))

    def reads(value: Any) -> Any:
        if not isinstance(value, accepted):
            known = " or ".join(dict.fromkeys(WORDS[kind] for kind in kinds))
            raise Wrong(f" is {WORDS.get(type(value), 'something else')}, and must be {known}")
        return value

    return reads


def _choice(kind: type[Enum]) -> Reader:
    def reads(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(each.value) for each in kind)
            raise Wrong(f" is {str(value)[:40]!r}, and must be one of: {known}") from None

    return reads


def _one_of(readers: list[Reader], optional: bool) -> Reader:
    def reads(value: Any) -> Any:
        if optional and value is None:
            return None
        for reader in readers[:-1]:
            try:
                return reader(value)
            except Wrong as wrong:
                if optional and len(readers) == 2:
                    raise wrong from None
        return readers[-1](value)

    return reads


def _items(kind: type, each: Reader) -> Reader:
    whole = _plain(kind)

    def reads(value: Any) -> Any:
        read: list[Any] = []
        whole(value)
        try:
            for item in value:
                read.append(each(item))  # noqa: PERF401 its length says where it stopped
        except Wrong as wrong:
            raise Wrong(f"[{len(read)}]{wrong.args[0]}") from None
        return kind(read)

    return reads


def _values(each: Reader) -> Reader:
    whole = _plain(dict)

    def reads(value: Any) -> Any:
        return _named(whole(value), dict.fromkeys(value, each))

    return whole if each is _anything else reads


def _named(plain: Mapping[str, Any], readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Read every value with the reader of its name."""
    read, name = {}, ""
    try:
        for name, value in plain.items():
            read[name] = readers[name](value)
    except Wrong as wrong:
        raise Wrong(f".{name}{wrong.args[0]}") from None
    return read


def _dataclass(kind: Any) -> Reader:
    hints = typing.get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind)}
    needed = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    whole = _plain(dict)

    def reads(value: Any) -> Any:
        whole(value)
        if missing := [name for name in needed if name not in value]:
            raise Wrong(f" has no {missing[0]}")
        if more := [name for name in value if name not in readers]:
            raise Wrong(f" has a field {str(more[0])[:40]!r}, which this version does not know")
        known = _named(value, readers)
        try:
            return kind(**known)
        except AblateError as error:  # of a class that checks its values itself
            raise Wrong(f": {error}") from None

    return reads
