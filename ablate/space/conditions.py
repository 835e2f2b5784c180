"""Conditions on a row (`when`): comparisons written as text.

    backbone = mogrifier and Mogrifier deep != 0
    LSTM layers in [2, 3]

The left side is the name of a row or a field; the right side is a value.
"""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Any

from ablate.config.registry import single_slots
from ablate.config.resolve import kind_of
from ablate.errors import SpaceError, unknown

EQUALS = ("=", "!=", "in")
_FIELD = re.compile(r"([a-z][a-z0-9_]*)(?:\.[a-z][a-z0-9_]*)*(?:\[\d+\])?")
_ORDERS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
# Longer symbols first: `<` would match the beginning of `<=`.
_OPERATION = re.compile(r"\s*(!=|<=|>=|=|<|>)\s*(\S.*)|\s+(in)\s*(\[.*)", re.DOTALL)
GRAMMAR = "'NAME = VALUE', with = != < <= > >= or 'in [..]', joined by ' and '"


def usual_prefixes() -> tuple[str, ...]:
    """Return the sections and slots of the kind that a file is about which names no task."""
    kind = kind_of({})
    return (*kind.sections, *kind.slots)


@dataclass(frozen=True)
class Names:
    """The names that comparisons of a file may use."""

    rows: Collection[str]
    fields: Collection[str]  # that rows set
    prefixes: Collection[str]  # that fields start with

    def is_field(self, name: str) -> bool:
        """Return whether this is a field that the file may name."""
        return is_field(name, self.prefixes)


@dataclass(frozen=True)
class Clause:
    """One comparison."""

    left: str
    operator: str
    right: Any

    @property
    def literals(self) -> list[Any]:
        """The values that the left side is compared with."""
        return self.right if self.operator == "in" else [self.right]

    def holds(self, lookup: Callable[[str], Any]) -> bool | None:
        """Return whether the comparison holds, or None if the left side has no value."""
        left = lookup(self.left)
        return None if left is None else compare(left, self.operator, self.right)


def compare(left: Any, symbol: str, right: Any) -> bool:
    """Evaluate `left symbol right`; true is not 1, and text has no order."""
    if symbol == "in":
        return any(compare(left, "=", item) for item in right)
    if symbol in _ORDERS:
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        return numbers and _ORDERS[symbol](left, right)
    return same(left, right) == (symbol == "=")


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; unlike in Python, true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def key_of(value: Any) -> Hashable:
    """Return a key that is equal for values that are the same, to find them among many."""
    # A list has no hash; True and 1 have the same.
    return isinstance(value, bool), tuple(value) if isinstance(value, list) else value


def is_number(value: Any) -> bool:
    """Return whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def parse(text: str, names: Names, where: str) -> tuple[Clause, ...]:
    """Parse comparisons whose names are rows of the file, or fields."""
    clauses = _clauses(text.split(" and "), names)
    if clauses is None:
        raise SpaceError(_syntax_message(text, names, where))
    for clause in clauses:
        if clause.operator in _ORDERS and not all(map(is_number, clause.literals)):
            raise SpaceError(
                f"{where}: '{text}' needs a number after '{clause.operator}', not {clause.right!r}."
            )
    return clauses


def is_field(name: str, prefixes: Collection[str]) -> bool:
    """Return whether this is a dotted field of a config."""
    match = _FIELD.fullmatch(name)
    return match is not None and match[1] in prefixes


def _clauses(parts: list[str], names: Names) -> Any:
    """Split at " and ", but not inside a row's name."""
    for end in range(1, len(parts) + 1):
        clause = _clause(" and ".join(parts[:end]).strip(), names)
        if clause is None:
            continue
        rest = _clauses(parts[end:], names) if parts[end:] else ()
        if rest is not None:
            return (clause, *rest)
    return None


def _clause(text: str, names: Names) -> Clause | None:
    match = _FIELD.match(text)
    fields = [match[0]] if match and names.is_field(match[0]) else []
    # The longest first: one row's name may be the beginning of another's.
    for name in sorted((row for row in names.rows if text.startswith(row)), key=len, reverse=True):
        clause = _comparison(name, text, names)
        if clause is not None:
            return clause
    return _comparison(fields[0], text, names) if fields else None


def _comparison(name: str, text: str, names: Names) -> Clause | None:
    match = _OPERATION.fullmatch(text, len(name))
    if match is None:
        return None
    symbol, right = (match[1], match[2]) if match[1] else (match[3], match[4])
    literal = _literal(right)
    # `in` takes a list, and the others a single value.
    if (symbol == "in") != isinstance(literal, list) or literal is None:
        return None
    return Clause(name, symbol, literal)


def _literal(text: str) -> Any:
    """Parse a TOML value, or words without quotes; return None if it is neither."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        pass  # words without quotes, or a list of them
    except (ValueError, RecursionError):  # of too many digits or brackets
        return None
    if text.startswith("[") and text.endswith("]"):
        items = [_literal(item.strip()) for item in text[1:-1].split(",")]
        return None if any(item is None for item in items) else items
    return text if re.fullmatch(r"[\w.+-]+( [\w.+-]+)*", text) else None


def _syntax_message(text: str, names: Names, where: str) -> str:
    slots = [slot for slot in single_slots() if slot in names.prefixes]
    known = list(dict.fromkeys([*names.rows, *names.fields, *slots]))
    for part in text.split(" and "):
        match = re.match(r"\s*(.+?)\s*(!=|<=|>=|=|<|>|\bin\b)\s*\S", part)
        if match and match[1] not in known and not names.is_field(match[1]):
            return unknown("row or field", match[1], known, where)
    return f"{where}: '{text}' is not a valid condition. Expected: {GRAMMAR}."
