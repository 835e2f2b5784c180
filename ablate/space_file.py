"""Reading a search-space file: TOML in, rows and rules out, or an error that says which line.

Everything that the file alone can tell is checked here, without the registry's techniques; what
only they know (whether a field exists, its limits) is `space_check`'s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.errors import SpaceError, unknown, wrong_value
from ablate.registry import LISTED_SLOTS
from ablate.space_links import (
    Rule,
    check_corpora,
    check_fields,
    check_tied,
    conditioned,
    in_order,
    read_rule,
)
from ablate.space_row import Choices, Domain, Fixed, Range, Row, is_number, same
from ablate.space_rules import ROOMS, SECTIONS, is_field
from ablate.space_text import Lines, parsed, text_of

TOP_KEYS = ("paper", "tables", "note", "require")
VALUE_KEYS = ("value", "choices", "range", "same_as")
TEXT_KEYS = ("field", "same_as", "when", "description", "marker", "note", "source")
ROW_KEYS = (*dict.fromkeys((*TEXT_KEYS, *VALUE_KEYS)), "scale", "integer", "printed")
SCALES = ("linear", "log")
_GIVE_ONE = f"Give exactly one of {', '.join(VALUE_KEYS)}."


@dataclass(frozen=True)
class SpaceFile:
    """What a file says."""

    paper: str
    tables: tuple[str, ...]
    note: str
    rows: tuple[Row, ...]
    rules: tuple[Rule, ...]


def read(path: Path) -> SpaceFile:
    """The file's rows and rules, checked against each other."""
    written = text_of(path)
    lines = Lines(path, written)
    data = parsed(written, lines)
    top = {key: value for key, value in data.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in data.items() if isinstance(value, dict)}
    for key in [k for k in TOP_KEYS if k in tables]:
        raise SpaceError(wrong_value(key, tables[key], "no table", lines.at(key)))
    paper, printed_tables, note, require = _top(top, path, lines)
    if not tables:
        raise SpaceError(f'{path}:1: the file has no rows; one reads ["Row name"].')
    rows = tuple(_row(name, table, lines) for name, table in tables.items())
    check_corpora(rows, lines)
    check_tied(rows, lines)
    check_fields(rows)
    rows = tuple(conditioned(row, rows, lines) for row in rows)
    rules = tuple(read_rule(text, rows, lines) for text in require)
    in_order(rows)
    return SpaceFile(paper, printed_tables, note, rows, rules)


def _top(
    top: dict[str, Any], path: Path, lines: Lines
) -> tuple[str, tuple[str, ...], str, list[str]]:
    for key in top:
        if key not in TOP_KEYS:
            raise SpaceError(unknown("key", key, TOP_KEYS, lines.at(key)))
    for key in ("paper", "tables"):
        if key not in top:
            raise SpaceError(f"{path}:1: the key '{key}' is required and was not given.")
    for key in ("paper", "note"):
        if not _is_text(top.get(key, "-")):
            raise SpaceError(wrong_value(key, top[key], "text", lines.at(key)))
    for key in ("tables", "require"):
        if not isinstance(top.get(key, []), list) or not all(map(_is_text, top.get(key, []))):
            raise SpaceError(wrong_value(key, top[key], "a list of texts", lines.at(key)))
    return top["paper"], tuple(top["tables"]), top.get("note", ""), top.get("require", [])


def _row(name: str, table: dict[str, Any], lines: Lines) -> Row:
    for key in table:
        if key in TOP_KEYS and key not in ROW_KEYS:
            place = lines.place(name, key)
            raise SpaceError(f"{place}: the key '{key}' belongs above the first row.")
        if key not in ROW_KEYS:
            raise SpaceError(unknown("key", key, ROW_KEYS, lines.place(name, key)))
    _check_types(name, table, lines)
    given = [key for key in VALUE_KEYS if key in table]
    if not given:
        raise SpaceError(f"{lines.place(name)}: has no value. {_GIVE_ONE}")
    if len(given) > 1:
        both = " and ".join(f"'{key}'" for key in given)
        raise SpaceError(f"{lines.place(name, given[1])}: gives {both}. {_GIVE_ONE}")
    for key in ("scale", "integer"):
        if key in table and given[0] != "range":
            place = lines.place(name, key)
            raise SpaceError(f"{place}: '{key}' goes with 'range' only, and this has {given[0]}.")
    if not table.get("printed", True) and not table.get("source"):
        place = lines.place(name, "printed")
        raise SpaceError(f"{place}: a row that the paper does not print needs a 'source'.")
    texts = {key: table[key] for key in TEXT_KEYS if key in table and key != "when"}
    domain, by_corpus = _domains(name, given[0], table, lines)
    return Row(
        name=name,
        line=lines.number(name),
        place=lines.place(name),
        domain=domain,
        by_corpus=by_corpus,
        condition=table.get("when", ""),
        printed=table.get("printed", True),
        **texts,
    )


def _check_types(name: str, table: dict[str, Any], lines: Lines) -> None:
    for key in TEXT_KEYS:
        if not _is_text(table.get(key, "-")):
            raise SpaceError(wrong_value(key, table[key], "text", lines.place(name, key)))
    for key in ("integer", "printed"):
        if not isinstance(table.get(key, True), bool):
            raise SpaceError(wrong_value(key, table[key], "true or false", lines.place(name, key)))
    if table.get("scale", "linear") not in SCALES:
        raise SpaceError(unknown("scale", table["scale"], SCALES, lines.place(name, "scale")))
    if "field" in table:
        _check_field(table["field"], lines.place(name, "field"))


def _check_field(name: str, place: str) -> None:
    room = name.split(".")[0].split("[")[0]
    if room not in ROOMS:
        raise SpaceError(unknown("slot or section", room, ROOMS, f"{place}: field '{name}'"))
    depth = len(name.split("."))
    form = f"{room}.<technique>.<field>" if room in LISTED_SLOTS else f"{room}.<field>"
    allowed = (3,) if room in LISTED_SLOTS else (2,) if room in SECTIONS else (1, 2)
    if not is_field(name) or depth not in allowed or (depth == 1 and "[" in name):
        raise SpaceError(wrong_value("field", name, f"'{form}', an element '{form}[0]'", place))


def _domains(
    name: str, key: str, table: dict[str, Any], lines: Lines
) -> tuple[Domain | None, dict[str, Domain]]:
    place = lines.place(name, key)
    if key == "same_as":
        return None, {}
    if not isinstance(table[key], dict):
        return _domain(key, table[key], table, place), {}
    if not table[key]:
        raise SpaceError(wrong_value(key, table[key], "a value for each corpus", place))
    return None, {
        corpus: _domain(key, given, table, f"{place}: corpus '{corpus}'")
        for corpus, given in table[key].items()
    }


def _domain(key: str, given: Any, table: dict[str, Any], place: str) -> Domain:
    if key == "value":
        return Fixed(_plain("value", given, place))
    if key == "choices":
        return _choices(given, place)
    return _range(given, table.get("scale") == "log", table.get("integer", False), place)


def _choices(given: Any, place: str) -> Choices:
    if not isinstance(given, list) or not given:
        raise SpaceError(wrong_value("choices", given, "a list of at least one value", place))
    values = tuple(_plain("choices", value, place) for value in given)
    for index, value in enumerate(values):
        if any(same(value, earlier) for earlier in values[:index]):
            raise SpaceError(
                wrong_value("choices", given, f"each value once, not two {value!r}", place)
            )
    return Choices(values)


def _range(given: Any, log: bool, integer: bool, place: str) -> Range:
    pair = isinstance(given, list) and len(given) == 2 and all(map(_is_finite, given))
    if not pair or not given[0] < given[1]:
        allowed = "[low, high], two numbers, the lower one first"
    elif log and given[0] <= 0:
        allowed = "ends above 0, on a log scale"
    elif integer and not all(isinstance(end, int) for end in given):
        allowed = "whole numbers, with integer = true"
    else:
        return Range(given[0], given[1], log, integer)
    raise SpaceError(wrong_value("range", given, allowed, place))


def _plain(key: str, value: Any, place: str) -> Any:
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, bool) or _is_text(item) or _is_finite(item) for item in items):
        allowed = "text, true or false, a number, or a list of these"
        raise SpaceError(wrong_value(key, value, allowed, place))
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)
