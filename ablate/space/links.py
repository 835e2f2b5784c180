"""Relations between the rows of a search space: corpora, conditions, dependencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ablate.errors import SpaceError, nearest, unknown
from ablate.space.conditions import EQUALS, Clause, Names, parse
from ablate.space.row import Choices, Domain, Fixed, Range, Row, format_value
from ablate.space.text import Lines


def dependencies(row: Row, rows: Iterable[Row]) -> set[str]:
    """Return the names of the rows that must have a value before this one."""
    names = {clause.left for clause in row.when}
    names |= {row.same_as} if row.same_as else set()
    return {other.name for other in rows if other.name in names or other.field in names}


def sort_by_dependency(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Sort rows so that each follows its dependencies, otherwise as in the file."""
    unsorted = {row.name: dependencies(row, rows) for row in rows}
    ordered: list[Row] = []
    while unsorted:
        done = {row.name for row in ordered}
        ready = next((name for name, needed in unsorted.items() if needed <= done), None)
        if ready is None:
            raise SpaceError(_cycle_message(unsorted, rows))
        del unsorted[ready]
        ordered.append(next(row for row in rows if row.name == ready))
    return tuple(ordered)


def check_corpora(rows: tuple[Row, ...], lines: Lines) -> None:
    """Check that all rows that differ by corpus have values for the same corpora."""
    differing = [row for row in rows if row.by_corpus]
    counts = Counter(tuple(row.by_corpus) for row in differing)
    # The columns that most rows have: the error then names the row that is odd.
    corpora = counts.most_common(1)[0][0] if counts else ()
    for row in differing:
        key = next(key for key, kind in _KINDS.items() if isinstance(row.domains[0], kind))
        where = lines.row(row.name, key)
        for corpus in row.by_corpus:
            if corpus not in corpora:
                raise SpaceError(unknown("corpus", corpus, corpora, where))
        for corpus in corpora:
            if corpus not in row.by_corpus:
                raise SpaceError(
                    f"{where}: has no {key} for the corpus '{corpus}'. "
                    f"Expected: a {key} for each of {', '.join(corpora)}."
                )


_KINDS: Mapping[str, type] = {"value": Fixed, "choices": Choices, "range": Range}


def check_tied(rows: tuple[Row, ...], lines: Lines) -> None:
    """Check that every row that is tied to another one names a row of the file."""
    names = [row.name for row in rows]
    for row in rows:
        if row.same_as is not None and row.same_as not in names:
            where = f"{lines.row(row.name, 'same_as')}: same_as"
            raise SpaceError(unknown("row", row.same_as, names, where))


def check_fields(rows: tuple[Row, ...]) -> None:
    """Check that each field is set by one row, or by several that all have a condition."""
    first: dict[str, Row] = {}
    for row in rows:
        if row.field is None:
            continue
        earlier = first.setdefault(row.field, row)
        if earlier is not row and not (row.condition and earlier.condition):
            raise SpaceError(
                f"{row.where}: field '{row.field}' is already set by row '{earlier.name}' (line "
                f"{earlier.line}). Instead: use one row, or give each of them a 'when'."
            )


def names_in(rows: tuple[Row, ...], prefixes: Collection[str]) -> Names:
    """Return the names that the conditions of these rows may use."""
    fields = [row.field for row in rows if row.field]
    return Names([row.name for row in rows], fields, prefixes)


def with_condition(row: Row, rows: tuple[Row, ...], names: Names, lines: Lines) -> Row:
    """Return the row with its condition parsed."""
    if not row.condition:
        return row
    where = f"{lines.row(row.name, 'when')}: when"
    clauses = parse(row.condition, names, where)
    for clause in clauses:
        _check_literals(clause, rows, where)
    return replace(row, when=clauses)


def _check_literals(clause: Clause, rows: tuple[Row, ...], where: str) -> None:
    """Check that the left side can have the values that it is compared with."""
    domains = possible_domains(clause.left, rows)
    if not domains or clause.operator not in EQUALS:
        return
    for value in clause.literals:
        if any(domain.admits(value) for domain in domains):
            continue
        expected = list(dict.fromkeys(str(domain) for domain in domains))
        ends = [format_value(end) for domain in domains for end in domain.ends]
        # A number near another one is no misspelling.
        hint = nearest(str(value), ends) if isinstance(value, str) else None
        raise SpaceError(
            f"{where}: '{clause.left}' is never {value!r}."
            + (f" Did you mean '{hint}'?" if hint else "")
            + f" Expected: {', '.join(expected)}."
        )


def possible_domains(name: str, rows: Iterable[Row]) -> list[Domain]:
    """Return the domains of a row, or of the rows that set a field."""
    by_name = {row.name: row for row in rows}
    domains: list[Domain] = []
    for row in [row for row in by_name.values() if name in (row.name, row.field)]:
        seen = set()  # rows tied in a circle are refused later, by `sort_by_dependency`
        while row.same_as in by_name and row.name not in seen:
            seen.add(row.name)
            row = by_name[row.same_as]
        domains += row.domains
    return domains


def _cycle_message(unsorted: Mapping[str, set[str]], rows: tuple[Row, ...]) -> str:
    path = [next(iter(unsorted))]
    while path[-1] not in path[:-1]:
        # Any would do. A set's order changes from process to process, and a message should not.
        path.append(min(name for name in unsorted[path[-1]] if name in unsorted))
    cycle = path[path.index(path[-1]) :]
    where = next(row.where for row in rows if row.name == cycle[0])
    return f"{where}: these rows depend on each other: {' -> '.join(cycle)}."
