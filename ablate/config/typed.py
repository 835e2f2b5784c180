"""Reads values by the types of the fields that they fill; a value that does not fit is refused.

    record = typed.read(StudyRecord, plain)
    rows = typed.rows_of({"started": str})(attempts)

Lists become tuples, and whole numbers those with a fraction, where the type says so. Nothing else
is converted, and nothing is guessed. `read` takes plain data, of JSON: mappings become dataclasses.
What is wrong is a `Wrong` that names the field: "arms[1].changes is a text, and must be a mapping".

Settings and the words of a study are checked by the same `reader`, with another rule for the types
that hold no others (`ablate/config/fields.py`).
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from itertools import repeat
from typing import Any, TypeVar

from ablate.errors import AblateError

T = TypeVar("T")
Reader = Callable[[Any], Any]
UNIONS = (typing.Union, types.UnionType)
LISTS = (list, tuple, Sequence)
MAPPINGS = (dict, Mapping)
PLAIN = {float: "number", int: "whole number", str: "text"}
NAMES = {  # of settings' types, as users write the values in Python or TOML
    **PLAIN,
    bool: "true or false",
    type(None): "none",
    Any: "anything",
    Callable: "function",
}
WORDS = {  # for values, as JSON has them
    **{kind: f"a {name}" for kind, name in PLAIN.items()},
    bool: "true or false",
    type(None): "null",
    **dict.fromkeys(LISTS, "a list"),
    **dict.fromkeys(MAPPINGS, "a mapping"),
}


class Wrong(ValueError):
    """A value that is not of its type, and the keys and positions that lead to the value."""

    def __init__(self, value: Any, hint: Any, why: str = "") -> None:
        super().__init__(value, hint, why)
        self.value, self.hint, self.why = value, hint, why
        self.path: tuple[Any, ...] = ()  # keys and positions, the outermost first

    def __str__(self) -> str:
        keys = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path)
        is_a = WORDS.get(type(self.value), "something else")
        why = self.why or f" is {is_a}, and must be {_in_words(self.hint)}"
        return f"{''.join(keys)}{why}".lstrip(" .:")

    def inside(self, key: Any) -> Wrong:
        """The same, in what has the value under this key."""
        self.path = (key, *self.path)
        return self


def _in_words(hint: Any) -> str:
    if (origin := typing.get_origin(hint)) in UNIONS:
        return " or ".join(dict.fromkeys(map(_in_words, typing.get_args(hint))))
    return WORDS.get(origin or hint, "a mapping")


def name_of(hint: Any) -> str:
    """The name of a type, as messages about settings and lists of them show it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    kind = origin or hint
    if kind in NAMES or not inner:
        return NAMES.get(kind, getattr(kind, "__name__", str(kind)))
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    names = [name_of(each) for each in inner if each is not Ellipsis]
    if origin in UNIONS:
        return " or ".join(names)
    if origin in MAPPINGS:
        return f"dict of {': '.join(names)}"
    return f"list of {names[0]}" if _any_number(inner) else f"({', '.join(names)})"


def read(kind: type[T], plain: Any) -> T:
    """The dataclass that plain data stand for."""
    return _dataclass(kind)(plain)


def rows_of(kinds: Mapping[str, Any]) -> Reader:
    """What checks the known keys of a list of mappings, which may have others, or lack some."""
    readers, whole = {name: reader(kind, _plain) for name, kind in kinds.items()}, instance(dict)

    def reads(value: Any) -> Any:
        row, name = whole(value), ""
        try:
            for name, own in readers.items():
                if name in row:
                    own(row[name])
        except Wrong as wrong:
            raise wrong.inside(name) from None
        return row

    return _list(list, repeat(reads))


def inside(name: str, reader: Reader, value: Any) -> Any:
    """Read a value that has a name in something larger."""
    return _known({name: reader}, {name: value})[name]


def reader(hint: Any, leaf: Callable[[Any], Reader]) -> Reader:
    """What reads a type; `leaf` gives what reads a type that holds no others."""
    inner = typing.get_args(hint)
    kind = typing.get_origin(hint) or hint
    if hint is Any:
        return _anything
    if kind is typing.Literal:
        return _literal(hint)
    if kind is Callable:  # its arguments' types are not those of values inside
        return leaf(kind)
    readers = [reader(each, leaf) for each in inner or [Any] if each is not Ellipsis]
    if kind in UNIONS:
        return _one_of(hint, readers, type(None) in inner)
    if kind in LISTS:
        return _list(hint, repeat(readers[0]) if _any_number(inner) else readers)
    return _mapping(hint, readers[0], readers[-1]) if kind in MAPPINGS else leaf(kind)


def instance(kind: Any) -> Reader:
    """What reads a value of one class: true and false are no numbers, whole numbers are numbers."""
    accepted = (float, int) if kind is float else kind

    def reads(value: Any) -> Any:
        if type(value) is kind:  # most are: the rest takes twice as long
            return value
        untrue = isinstance(value, bool) and kind in (int, float)
        if untrue or not isinstance(value, accepted):
            raise Wrong(value, kind)
        try:
            return float(value) if kind is float else value
        except OverflowError:
            raise Wrong(value, kind) from None

    return reads


def _plain(kind: Any) -> Reader:
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    return _choice(kind) if issubclass(kind, Enum) else instance(kind)


def _literal(hint: Any) -> Reader:
    known = typing.get_args(hint)

    def reads(value: Any) -> Any:
        if not any(type(value) is type(each) and value == each for each in known):
            raise Wrong(value, hint)
        return value

    return reads


def _anything(value: Any) -> Any:
    return value


def _choice(kind: type[Enum]) -> Reader:
    def reads(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(each.value) for each in kind)
            why = f" is {str(value)[:40]!r}, and must be one of: {known}"
            raise Wrong(value, kind, why) from None

    return reads


def _one_of(hint: Any, readers: Sequence[Reader], optional: bool) -> Reader:
    def reads(value: Any) -> Any:
        if optional and value is None:
            return None
        wrongs = []
        for reader in readers:
            try:
                return reader(value)
            except Wrong as wrong:
                wrongs.append(wrong)
        # What is wrong inside a value says more than that the value is of none of the types.
        inner = max(wrongs, key=lambda wrong: (len(wrong.path), bool(wrong.why)))
        raise inner if inner.path or inner.why else Wrong(value, hint)

    return reads


def _any_number(inner: Sequence[Any]) -> bool:
    """Return whether a list type has any number of items of one type, or one type for each."""
    return len(inner) < 2 or inner[1] is Ellipsis


def _list(hint: Any, readers: Iterable[Reader]) -> Reader:
    kind = list if list in (hint, typing.get_origin(hint)) else tuple
    fixed = len(readers) if isinstance(readers, list) else 0  # a reader for each item

    def reads(value: Any) -> Any:
        if type(value) is not list and not isinstance(value, list | tuple):
            raise Wrong(value, hint)
        if not value and not fixed:
            return kind()
        read: list[Any] = []
        try:
            for reader, item in zip(readers, value, strict=False):
                read.append(reader(item))
        except Wrong as wrong:
            raise wrong.inside(len(read)) from None
        if fixed and len(value) != fixed:
            raise Wrong(value, hint)
        return kind(read)

    return reads


def _mapping(hint: Any, key: Reader, item: Reader) -> Reader:
    """What checks a mapping and returns the same one: its items are not converted."""

    def reads(value: Any) -> Any:
        if type(value) is not dict and not isinstance(value, Mapping):  # most are: it is slow
            raise Wrong(value, hint)
        if item is not _anything:
            _known(dict.fromkeys(value, item), value)
        try:
            for name in value:
                key(name)
        except Wrong:  # the message names the mapping: a key is at no place of its own
            raise Wrong(value, hint) from None
        return value

    return reads


def _known(readers: Mapping[Any, Reader], values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Read the values that have a reader of their name."""
    read, name = {}, ""
    try:
        for name, value in values.items():
            if (reads := readers.get(name)) is not None:
                read[name] = reads(value)
    except Wrong as wrong:
        raise wrong.inside(name) from None
    return read


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    """Return annotations as types. Cached: parsing their text dominates the cost of a check."""
    return typing.get_type_hints(kind)


@cache
def _dataclass(kind: Any) -> Reader:
    """What reads a dataclass, made once: thousands of records are read at a time."""
    parts = dataclasses.fields(kind)
    readers = {part.name: reader(hints_of(kind)[part.name], _plain) for part in parts}
    without, whole = dataclasses.MISSING, instance(dict)
    needed = [p.name for p in parts if p.default is without and p.default_factory is without]
    needed_set = {*needed}

    def reads(value: Any) -> Any:
        known = _known(readers, whole(value))
        if not needed_set <= known.keys():
            missing = next(name for name in needed if name not in known)
            raise Wrong(value, kind, f" has no {missing}")
        if len(known) < len(value):
            more = next(name for name in value if name not in known)
            why = f" has a field {str(more)[:40]!r}, which this version does not know"
            raise Wrong(value, kind, why)
        try:
            return kind(**known)
        except AblateError as error:  # of a class that checks its values itself
            raise Wrong(value, kind, f": {error}") from None

    return reads
