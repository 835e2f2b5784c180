"""What ties the rows of a search space together: corpora, conditions, rules, and their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ablate.errors import SpaceError, nearest, unknown
from ablate.space_row import Choices, Domain, Fixed, Range, Row, shown
from ablate.space_rules import Clause, parse
from ablate.space_text import Lines


@dataclass(frozen=True)
class Rule:
    """A rule between rows, and where it stands."""

    text: str
    place: str
    clauses: tuple[Clause, ...]


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


def check_corpora(rows: tuple[Row, ...], lines: Lines) -> None:
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


def check_tied(rows: tuple[Row, ...], lines: Lines) -> None:
    names = [row.name for row in rows]
    for row in rows:
        if row.same_as is not None and row.same_as not in names:
            place = f"{lines.place(row.name, 'same_as')}: same_as"
            raise SpaceError(unknown("row", row.same_as, names, place))


def check_fields(rows: tuple[Row, ...]) -> None:
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


def conditioned(row: Row, rows: tuple[Row, ...], lines: Lines) -> Row:
    if not row.condition:
        return row
    place = f"{lines.place(row.name, 'when')}: when"
    clauses = parse(row.condition, *_known(rows), place)
    for clause in clauses:
        _check_literals(clause, rows, place, "value")
    return replace(row, when=clauses)


def read_rule(text: str, rows: tuple[Row, ...], lines: Lines) -> Rule:
    place = lines.of_text(text, "require")
    clauses = parse(text, *_known(rows), f"{place}: require", names_right=True)
    known = list(dict.fromkeys(name for names in _known(rows) for name in names))
    for name in [name for clause in clauses for name in clause.names]:
        if name not in known:
            raise SpaceError(unknown("row or field of a row", name, known, f"{place}: require"))
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
