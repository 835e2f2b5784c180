"""Reading a search-space file: TOML in, rows and rules out, or an error that says which line.

Everything that the file alone can tell is checked here, without the registry's techniques; what
only they know (whether a field exists, its limits) is `space_check`'s.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ablate.errors import SpaceError, nearest, unknown, wrong_value
from ablate.registry import LISTED_SLOTS
from ablate.space_row import Choices, Domain, Fixed, Range, Row, is_number, same, shown
from ablate.space_rules import ROOMS, SECTIONS, Clause, Name, is_field, parse

TOP_KEYS = ("paper", "tables", "note", "require")
VALUE_KEYS = ("value", "choices", "range", "same_as")
TEXT_KEYS = ("field", "same_as", "when", "description", "marker", "note", "source")
ROW_KEYS = (*dict.fromkeys((*TEXT_KEYS, *VALUE_KEYS)), "scale", "integer", "printed")
SCALES = ("linear", "log")
_GIVE_ONE = f"Give exactly one of {', '.join(VALUE_KEYS)}."


@dataclass(frozen=True)
class Rule:
    """A rule between rows, and where it stands."""

    text: str
    place: str
    clauses: tuple[Clause, ...]


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
    text = _text(path)
    lines = _Lines(path, text)
    data = _parsed(path, text, lines)
    top = {key: value for key, value in data.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in data.items() if isinstance(value, dict)}
    for key in [k for k in TOP_KEYS if k in tables]:
        raise SpaceError(wrong_value(key, tables[key], "no table", lines.at(key)))
    paper, printed_tables, note, require = _top(top, path, lines)
    if not tables:
        raise SpaceError(f'{path}:1: the file has no rows; one reads ["Row name"].')
    rows = tuple(_row(name, table, lines) for name, table in tables.items())
    _check_corpora(rows, lines)
    _check_tied(rows, lines)
    _check_fields(rows)
    rows = tuple(_conditioned(row, rows, lines) for row in rows)
    rules = tuple(_rule(rule, rows, lines, path) for rule in require)
    in_order(rows)
    return SpaceFile(paper, printed_tables, note, rows, rules)


def needs(row: Row, rows: Iterable[Row]) -> set[str]:
    """The rows that have to be settled before this one."""
    names = {name for clause in row.when for name in clause.names}
    names |= {row.same_as} if row.same_as else set()
    return {other.name for other in rows if other.name in names or other.field in names}


def in_order(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows, each after those that it needs, otherwise as in the file."""
    waiting = {row.name: needs(row, rows) for row in rows}
    ordered: list[Row] = []
    while waiting:
        done = {row.name for row in ordered}
        ready = next((name for name, wants in waiting.items() if wants <= done), None)
        if ready is None:
            raise SpaceError(_circle(waiting, rows))
        del waiting[ready]
        ordered.append(next(row for row in rows if row.name == ready))
    return tuple(ordered)


class _Lines:
    """Where each row and each of its keys stands in the text."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.rows: list[tuple[int, str]] = []
        self.keys: dict[tuple[str | None, str], int] = {}
        row = None
        for number, line in enumerate(text.splitlines(), start=1):
            header = re.match(r"\s*\[\s*(\"[^\"]*\"|'[^']*'|[\w-]+)\s*[\].]", line)
            key = re.match(r"\s*(\"[^\"]*\"|'[^']*'|[\w-]+)\s*[=.]", line)
            if header:
                row = header[1].strip("\"'")
                self.rows.append((number, row))
            elif key:
                self.keys.setdefault((row, key[1].strip("\"'")), number)

    def number(self, row: str, key: str | None = None) -> int:
        header = next((number for number, name in self.rows if name == row), 1)
        return self.keys.get((row, key), header) if key else header

    def place(self, row: str, key: str | None = None) -> str:
        return f"{self.path}:{self.number(row, key)}: row '{row}'"

    def at(self, key: str) -> str:
        return f"{self.path}:{self.keys.get((None, key), 1)}"

    def of_number(self, number: int) -> str:
        before = [name for start, name in self.rows if start <= number]
        return f"{self.path}:{number}" + (f": row '{before[-1]}'" if before else "")

    def of_text(self, found: str, key: str) -> str:
        """The line of a text in a top-level list."""
        start = self.keys.get((None, key), 1)
        lines = enumerate(self.text.splitlines(), start=1)
        return f"{self.path}:{next((n for n, l in lines if n >= start and found in l), start)}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpaceError(f"{path}:1: not a text file in UTF-8 ({error.reason}).") from None
    except OSError as error:
        raise SpaceError(f"{path}:1: cannot be read: {error.strerror}.") from None


def _parsed(path: Path, text: str, lines: _Lines) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
        number = int(match[1]) if match and match[1] else max(1, len(text.splitlines()))
        problem = str(error)[: match.start()] if match else str(error)
        column = f" (column {match[2]})" if match and match[2] else ""
        place = lines.of_number(number)
        raise SpaceError(f"{place}: this is no TOML: {problem}{column}.") from None


def _top(
    top: dict[str, Any], path: Path, lines: _Lines
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


def _row(name: str, table: dict[str, Any], lines: _Lines) -> Row:
    for key in table:
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


def _check_types(name: str, table: dict[str, Any], lines: _Lines) -> None:
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
    name: str, key: str, table: dict[str, Any], lines: _Lines
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


def _check_corpora(rows: tuple[Row, ...], lines: _Lines) -> None:
    """Every row that differs by corpus gives the same corpora."""
    differing = [row for row in rows if row.by_corpus]
    counts = Counter(tuple(row.by_corpus) for row in differing)
    corpora = counts.most_common(1)[0][0] if counts else ()
    for row in differing:
        key = next(key for key, kind in _KINDS.items() if isinstance(row.domains[0], kind))
        place = lines.place(row.name, key)
        for corpus in row.by_corpus:
            if corpus not in corpora:
                raise SpaceError(unknown("corpus", corpus, corpora, place))
        for corpus in corpora:
            if corpus not in row.by_corpus:
                raise SpaceError(
                    f"{place}: has no {key} for the corpus '{corpus}'. "
                    f"Allowed: one for each of {', '.join(corpora)}."
                )


_KINDS: Mapping[str, type] = {"value": Fixed, "choices": Choices, "range": Range}


def _check_tied(rows: tuple[Row, ...], lines: _Lines) -> None:
    names = [row.name for row in rows]
    for row in rows:
        if row.same_as is not None and row.same_as not in names:
            place = f"{lines.place(row.name, 'same_as')}: same_as"
            raise SpaceError(unknown("row", row.same_as, names, place))


def _check_fields(rows: tuple[Row, ...]) -> None:
    """A field is set by one row, or by several of which each has its condition."""
    first: dict[str, Row] = {}
    for row in rows:
        if row.field is None:
            continue
        earlier = first.setdefault(row.field, row)
        if earlier is not row and not (row.condition and earlier.condition):
            raise SpaceError(
                f"{row.place}: field '{row.field}' is already set by row '{earlier.name}' (line "
                f"{earlier.line}). Allowed: one row for a field, or several that each have a "
                "'when'."
            )


def _conditioned(row: Row, rows: tuple[Row, ...], lines: _Lines) -> Row:
    if not row.condition:
        return row
    place = f"{lines.place(row.name, 'when')}: when"
    clauses = parse(row.condition, *_known(rows), place)
    for clause in clauses:
        _check_literals(clause, rows, place, "value")
    return replace(row, when=clauses)


def _rule(text: str, rows: tuple[Row, ...], lines: _Lines, path: Path) -> Rule:
    place = lines.of_text(text, "require")
    clauses = parse(text, *_known(rows), f"{place}: require", names_right=True)
    for clause in clauses:
        _check_literals(clause, rows, f"{place}: require", "row or value")
    return Rule(text, place, clauses)


def _known(rows: tuple[Row, ...]) -> tuple[list[str], list[str]]:
    return [row.name for row in rows], [row.field for row in rows if row.field]


def _check_literals(clause: Clause, rows: tuple[Row, ...], place: str, kind: str) -> None:
    """A comparison for equality is with something that the left side can be."""
    domains = possible(clause.left, rows)
    if not domains or clause.operator not in ("=", "!=", "in"):
        return
    for value in clause.literals:
        if any(domain.admits(value) for domain in domains):
            continue
        allowed = list(dict.fromkeys(str(domain) for domain in domains))
        ends = [shown(end) for domain in domains for end in domain.ends]
        names = [row.name for row in rows] if kind != "value" else []
        hint = nearest(str(value), [*ends, *names]) if isinstance(value, str) else None
        raise SpaceError(
            f"{place}: '{clause.left}' is never {value!r}."
            + (f" Did you mean '{hint}'?" if hint else "")
            + f" Allowed: {', '.join(allowed)}{', or a row' if names else ''}."
        )


def possible(name: str, rows: Iterable[Row]) -> list[Domain]:
    """What a row, or the rows of a field, can be."""
    by_name = {row.name: row for row in rows}
    found = [row for row in by_name.values() if name in (row.name, row.field)]
    domains: list[Domain] = []
    for row in found:
        seen = set()
        while row.same_as in by_name and row.name not in seen:
            seen.add(row.name)
            row = by_name[row.same_as]
        domains += row.domains
    return domains


def _circle(waiting: Mapping[str, set[str]], rows: tuple[Row, ...]) -> str:
    path = [next(iter(waiting))]
    while path[-1] not in path[:-1]:
        path.append(min(name for name in waiting[path[-1]] if name in waiting))
    circle = path[path.index(path[-1]) :]
    place = next(row.place for row in rows if row.name == circle[0])
    return f"{place}: these rows wait for each other: {' -> '.join(circle)}."


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)
