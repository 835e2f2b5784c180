"""A search space against the registry: does each field exist, and does it take each value?"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from ablate import fields, registry
from ablate.config import DEFAULT_TECHNIQUES, SECTIONS, SINGLE_SLOTS
from ablate.errors import ConfigError, SpaceError, unknown
from ablate.space_links import possible
from ablate.space_row import Range, Row
from ablate.space_rules import Clause


def problems(rows: tuple[Row, ...]) -> Iterator[str]:
    """What the registry cannot take, a text for each row that has something of the kind."""
    for row in rows:
        try:
            for clause in row.when:
                _check_condition(clause, row)
            if row.field is not None:
                _check_row(row, row.field, rows)
        except ConfigError as error:
            yield str(error)


def _check_condition(clause: Clause, row: Row) -> None:
    """A technique that a condition names exists, whether or not a row chooses it."""
    if clause.left in SINGLE_SLOTS:
        for name in clause.literals:
            registry.get(clause.left, str(name), f"{row.place}: when")


def _check_row(row: Row, field: str, rows: tuple[Row, ...]) -> None:
    domains = possible(row.name, rows)
    if field in SINGLE_SLOTS:
        for name in [end for domain in domains for end in domain.ends]:
            registry.get(field, str(name), row.place)
        return
    room, key = field.split(".", 1)
    element = key.endswith("]")
    key = key.split("[")[0]
    for config, place in _configs(room, key, row, rows):
        name = key.split(".")[-1]
        single = _single_field(config, name, place)
        for domain in domains:
            for end in domain.ends:
                _check_value(single, name, [end] if element else end, domain, place)


def _check_value(single: type, name: str, value: Any, domain: Any, place: str) -> None:
    try:
        fields.build(single, {name: value}, place)
    except ConfigError as error:
        whole = isinstance(domain, Range) and not domain.integer and value == int(value)
        if whole and _takes(single, name, int(value), place):
            raise SpaceError(f"{error} Add integer = true to the row.") from None
        raise


def _takes(single: type, name: str, value: Any, place: str) -> bool:
    try:
        fields.build(single, {name: value}, place)
    except ConfigError:
        return False
    return True


def _configs(room: str, key: str, row: Row, rows: tuple[Row, ...]) -> Iterator[tuple[type, str]]:
    """The configs that the field must be in, each with its place in an error."""
    if room in SECTIONS:
        yield SECTIONS[room], f"{row.place}: {room}"
    elif room in registry.LISTED_SLOTS:
        name = key.split(".")[0]
        yield registry.get(room, name, row.place).config, f"{row.place}: {room} {name}"
    else:
        for name in _techniques(room, key, row, rows):
            yield registry.get(room, name, row.place).config, f"{row.place}: {room} {name}"


def _techniques(slot: str, key: str, row: Row, rows: tuple[Row, ...]) -> list[str]:
    """The techniques that the slot can have wherever the row counts."""
    clauses = [c for c in _conditions(row, rows) if c.left in _names_of(slot, rows)]
    chosen = [str(end) for domain in possible(slot, rows) for end in domain.ends]
    if not chosen:
        chosen = [str(v) for c in clauses if c.operator in ("=", "in") for v in c.literals]
    if not chosen and slot in DEFAULT_TECHNIQUES:
        chosen = [DEFAULT_TECHNIQUES[slot]]
    if chosen:
        return [n for n in dict.fromkeys(chosen) if all(c.holds(lambda _, n=n: n) for c in clauses)]
    every = registry.names(slot)
    having = [n for n in every if key in _field_names(registry.get(slot, n).config)]
    if not having:
        known = sorted({f for n in every for f in _field_names(registry.get(slot, n).config)})
        raise SpaceError(unknown("field", key, known, f"{row.place}: {slot}"))
    return having


def _conditions(row: Row, rows: tuple[Row, ...]) -> list[Clause]:
    """What holds wherever the row counts: its conditions, and those of the rows they are on."""
    clauses: list[Clause] = []
    seen: set[str] = set()
    waiting = [row]
    while waiting:
        now = waiting.pop()
        if now.name in seen:
            continue
        seen.add(now.name)
        clauses += now.when
        names = {clause.left for clause in now.when} | ({now.same_as} - {None})
        for name in names:
            named = [other for other in rows if name in (other.name, other.field)]
            waiting += named if len(named) == 1 else []
    return clauses


def _names_of(slot: str, rows: Iterable[Row]) -> set[str]:
    return {slot} | {row.name for row in rows if row.field == slot}


def _field_names(config: type) -> list[str]:
    return [field.name for field in dataclasses.fields(config)]


def _single_field(config: type, name: str, place: str) -> type:
    """A config of that one field, so that its value can be checked without the others."""
    found = {field.name: field for field in dataclasses.fields(config)}
    if name not in found:
        raise SpaceError(unknown("field", name, found, place))
    copied = dataclasses.field(default=found[name].default, metadata=found[name].metadata)
    hint = typing.get_type_hints(config)[name]
    return dataclasses.make_dataclass(config.__name__, [(name, hint, copied)], kw_only=True)
