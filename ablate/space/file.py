"""Reading a search-space file: from TOML to rows, or an error with its line.

All checks that need only the file are here. Those that need the registry's techniques (does a field
exist, what are its limits) are in `check.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.config.fields import LARGEST
from ablate.config.registry import listed_slots, single_slots
from ablate.config.tasks import find_kind, kind_names
from ablate.errors import SpaceError, unknown, wrong_value
from ablate.space.conditions import is_field, key_of, usual_prefixes
from ablate.space.links import (
    check_corpora,
    check_fields,
    check_tied,
    names_in,
    sort_by_dependency,
    with_condition,
)
from ablate.space.row import Choices, Domain, Fixed, Range, Row, is_number
from ablate.space.text import Lines, parse_toml, read_text

TOP_KEYS = ("paper", "tables", "task", "note")
VALUE_KEYS = ("value", "choices", "range", "same_as")
TEXT_KEYS = ("field", "same_as", "when", "description", "marker", "note", "source")
ROW_KEYS = (*dict.fromkeys((*TEXT_KEYS, *VALUE_KEYS)), "scale", "integer", "printed")
SCALES = ("linear", "log")
_NO_RULES = (
    "rules between rows (`require`) are no longer read. Instead: a row that must equal another one "
    'has same_as = "ROW" in place of its values; a row whose values depend on another one is '
    'written as several rows of the same field, each with a condition such as when = "ROW <= 3".'
)
_GIVE_ONE = f"Give exactly one of {', '.join(VALUE_KEYS)}."


@dataclass(frozen=True)
class SpaceFile:
    """The contents of a file."""

    paper: str  # may be empty if there is a task: its rows are on no paper's page
    tables: tuple[str, ...]
    note: str
    rows: tuple[Row, ...]
    task: str = ""  # whose fields the rows set, if not a language model's


def read(path: Path) -> SpaceFile:
    """Read a file's rows, and check them against each other."""
    text = read_text(path)
    lines = Lines(path, text)
    return parsed(parse_toml(text, lines), path, lines)


def parsed(data: Mapping[str, Any], path: Path, lines: Lines) -> SpaceFile:
    """Return the rows of what a file or a study has, checked against each other."""
    top = {key: value for key, value in data.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in data.items() if isinstance(value, dict)}
    for key in [k for k in TOP_KEYS if k in tables]:  # `[paper]` would else be a row
        raise SpaceError(wrong_value(key, tables[key], "not a table", lines.key(key)))
    _check_top(top, path, lines)
    if not tables:
        raise SpaceError(f'{path}:1: the file has no rows; one reads ["Row name"].')
    task = top.get("task", "")
    prefixes = _prefixes(task)
    rows = tuple(_row(name, table, lines, prefixes) for name, table in tables.items())
    check_corpora(rows, lines)
    check_tied(rows, lines)
    check_fields(rows)
    names = names_in(rows, prefixes)
    rows = tuple(with_condition(row, rows, names, lines) for row in rows)
    sort_by_dependency(rows)  # for its error, if rows depend on each other
    texts = {key: top.get(key, "") for key in ("paper", "note", "task")}
    return SpaceFile(tables=tuple(top.get("tables", ())), rows=rows, **texts)


def _prefixes(task: str) -> tuple[str, ...]:
    """Return the names with which a task's fields may start; for a study's own task, its name."""
    if not task:
        return usual_prefixes()
    kind = find_kind(task) if task in kind_names() else None
    return (*kind.sections, *kind.slots) if kind and kind.slots else (task,)


def _check_top(top: dict[str, Any], path: Path, lines: Lines) -> None:
    for key in top:
        if key == "require":
            raise SpaceError(f"{lines.key(key)}: {_NO_RULES}")
        if key not in TOP_KEYS:
            raise SpaceError(unknown("key", key, TOP_KEYS, lines.key(key)))
    for key in ("paper", "tables"):
        if key not in top and "task" not in top:
            own = 'A space over the settings of your own task has task = "..." instead.'
            raise SpaceError(f"{path}:1: the key '{key}' is required and was not given. {own}")
    for key in ("paper", "note", "task"):
        if not _is_text(top.get(key, "-")):
            raise SpaceError(wrong_value(key, top[key], "text", lines.key(key)))
    listed = top.get("tables", [])
    if not isinstance(listed, list) or not all(map(_is_text, listed)):
        raise SpaceError(wrong_value("tables", listed, "list of text", lines.key("tables")))


def _row(name: str, table: dict[str, Any], lines: Lines, prefixes: Collection[str]) -> Row:
    for key in table:
        if key in TOP_KEYS and key not in ROW_KEYS:  # a row may have a `note`, too
            where = lines.row(name, key)
            raise SpaceError(f"{where}: the key '{key}' belongs above the first row.")
        if key not in ROW_KEYS:
            raise SpaceError(unknown("key", key, ROW_KEYS, lines.row(name, key)))
    _check_types(name, table, lines)
    if "field" in table:
        _check_field(table["field"], lines.row(name, "field"), prefixes)
    value_keys = [key for key in VALUE_KEYS if key in table]
    if not value_keys:
        raise SpaceError(f"{lines.row(name)}: has no value. {_GIVE_ONE}")
    if len(value_keys) > 1:
        both = " and ".join(f"'{key}'" for key in value_keys)
        raise SpaceError(f"{lines.row(name, value_keys[1])}: gives {both}. {_GIVE_ONE}")
    for key in ("scale", "integer"):
        if key in table and value_keys[0] != "range":
            where = lines.row(name, key)
            raise SpaceError(f"{where}: '{key}' needs 'range', but the row has {value_keys[0]}.")
    if not table.get("printed", True) and not table.get("source"):
        where = lines.row(name, "printed")
        raise SpaceError(f"{where}: a row that the paper does not print needs a 'source'.")
    texts = {key: table[key] for key in TEXT_KEYS if key in table and key != "when"}
    domain, by_corpus = _domains(name, value_keys[0], table, lines)
    return Row(
        name=name,
        line=lines.number(name),
        where=lines.row(name),
        domain=domain,
        by_corpus=by_corpus,
        condition=table.get("when", ""),
        printed=table.get("printed", True),
        **texts,
    )


def _check_types(name: str, table: dict[str, Any], lines: Lines) -> None:
    for key in TEXT_KEYS:
        if not _is_text(table.get(key, "-")):
            raise SpaceError(wrong_value(key, table[key], "text", lines.row(name, key)))
    for key in ("integer", "printed"):
        if not isinstance(table.get(key, True), bool):
            raise SpaceError(wrong_value(key, table[key], "true or false", lines.row(name, key)))
    if table.get("scale", "linear") not in SCALES:
        raise SpaceError(unknown("scale", table["scale"], SCALES, lines.row(name, "scale")))


def _check_field(name: str, where: str, prefixes: Collection[str]) -> None:
    prefix = name.split(".")[0].split("[")[0]
    if prefix not in prefixes:
        kind = "slot or section" if prefixes == usual_prefixes() else "task"
        raise SpaceError(unknown(kind, prefix, prefixes, f"{where}: field '{name}'"))
    depth = len(name.split("."))
    form = f"{prefix}.<technique>.<field>" if prefix in listed_slots() else f"{prefix}.<field>"
    # A listed slot has several techniques at once, so a field must name its own.
    depths = (3,) if prefix in listed_slots() else (1, 2) if prefix in single_slots() else (2,)
    if not is_field(name, prefixes) or depth not in depths or (depth == 1 and "[" in name):
        raise SpaceError(wrong_value("field", name, f"'{form}', or '{form}[0]'", where))


def _domains(
    name: str, key: str, table: dict[str, Any], lines: Lines
) -> tuple[Domain | None, dict[str, Domain]]:
    where = lines.row(name, key)
    if key == "same_as":
        return None, {}
    if not isinstance(table[key], dict):  # else it is `{ptb = 0.4, wikitext-2 = 0.5}`
        return _domain(key, table[key], table, where), {}
    if not table[key]:
        raise SpaceError(wrong_value(key, table[key], "a value for each corpus", where))
    return None, {
        corpus: _domain(key, value, table, f"{where}: corpus '{corpus}'")
        for corpus, value in table[key].items()
    }


def _domain(key: str, value: Any, table: dict[str, Any], where: str) -> Domain:
    if key == "value":
        return Fixed(_check_plain("value", value, where))
    if key == "choices":
        return _choices(value, where)
    return _range(value, table.get("scale") == "log", table.get("integer", False), where)


def _choices(values: Any, where: str) -> Choices:
    if not isinstance(values, list) or not values:
        raise SpaceError(wrong_value("choices", values, "a list of at least one value", where))
    choices = tuple(_check_plain("choices", value, where) for value in values)
    earlier: set[Hashable] = set()
    for value, key in zip(choices, map(key_of, choices), strict=True):
        if key in earlier:
            expected = f"distinct values, but {value!r} is repeated"
            raise SpaceError(wrong_value("choices", values, expected, where))
        earlier.add(key)
    return Choices(choices)


def _range(ends: Any, log: bool, integer: bool, where: str) -> Range:
    pair = isinstance(ends, list) and len(ends) == 2 and all(map(_is_finite, ends))
    if not pair or not ends[0] < ends[1]:
        expected = "[low, high], two numbers, the lower one first"
    elif log and ends[0] <= 0:
        expected = "ends above 0 on a log scale"
    elif integer and not all(isinstance(end, int) for end in ends):
        expected = "whole numbers with integer = true"
    else:
        return Range(ends[0], ends[1], log, integer)
    raise SpaceError(wrong_value("range", ends, expected, where))


def _check_plain(key: str, value: Any, where: str) -> Any:
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, bool) or _is_text(item) or _is_finite(item) for item in items):
        expected = "text, true or false, a number, or a list of these"
        raise SpaceError(wrong_value(key, value, expected, where))
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_finite(value: Any) -> bool:
    if isinstance(value, int):
        return is_number(value) and abs(value) <= LARGEST  # records hold 64 bits
    return is_number(value) and math.isfinite(value)
