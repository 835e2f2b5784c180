"""Check a search space against the registry: fields must exist and accept the rows' values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ablate.config import fields, registry
from ablate.config.resolve import kind_of
from ablate.config.tasks import find_kind, kind_names
from ablate.errors import ConfigError, SpaceError, unknown
from ablate.space.conditions import EQUALS, Clause
from ablate.space.links import possible_domains
from ablate.space.row import Range, Row


def problems(rows: tuple[Row, ...], task: str = "") -> Iterator[str]:
    """Yield an error message for each row that the registry does not accept."""
    for row in rows:
        try:
            for clause in row.when:
                _check_condition(clause, row, rows, task)
            if row.field is not None:
                _check_row(row, row.field, rows, task)
        except ConfigError as error:
            yield str(error)


def _check_condition(clause: Clause, row: Row, rows: tuple[Row, ...], task: str) -> None:
    """Check that the techniques named in a condition exist, whether or not a row offers them, and
    that a field that no row sets can have the value."""
    if clause.left in registry.single_slots():
        for name in clause.literals:
            registry.get(clause.left, str(name), f"{row.where}: when")
    elif clause.operator in EQUALS and not possible_domains(clause.left, rows):
        prefix, _, key = clause.left.partition(".")
        key, where = key.partition("[")[0], f"{row.where}: when: {prefix}"
        configs = [config for config, _ in _configs(prefix, key, row, rows, task)]
        if not configs:
            return  # the conditions leave no technique
        name = key.split(".")[-1]
        having = [config for config in configs if name in _field_names(config)]
        if not having:
            raise SpaceError(unknown("field", name, _field_names(configs[0]), where))
        for value in clause.literals:
            _check_some(having, name, [value] if "[" in clause.left else value, where)


def _check_some(configs: list[type], name: str, value: Any, where: str) -> None:
    """Check that a field of one of these can have a value."""
    if not any(fields.accepts(config, name, value) for config in configs):
        fields.check_field(configs[0], name, value, where)


def _check_row(row: Row, field: str, rows: tuple[Row, ...], task: str) -> None:
    domains = possible_domains(row.name, rows)
    if field in registry.single_slots():
        for name in [end for domain in domains for end in domain.ends]:
            registry.get(field, str(name), row.where)
        return
    prefix, key = field.split(".", 1)
    element = key.endswith("]")
    key = key.split("[")[0]
    for config, where in _configs(prefix, key, row, rows, task):
        name = key.split(".")[-1]
        if name not in _field_names(config):
            raise SpaceError(unknown("field", name, _field_names(config), where))
        for domain in domains:
            for end in domain.ends:
                # An element, as `units[0]`, is checked as a list of one.
                _check_value(config, name, [end] if element else end, domain, where)


def _check_value(config: type, name: str, value: Any, domain: Any, where: str) -> None:
    try:
        fields.check_field(config, name, value, where)
    except ConfigError as error:
        # The likely mistake: a range of whole numbers without `integer = true`.
        whole = isinstance(domain, Range) and not domain.integer and value == int(value)
        if whole and fields.accepts(config, name, int(value)):
            raise SpaceError(f"{error} Add integer = true to the row.") from None
        raise


def _configs(
    prefix: str, key: str, row: Row, rows: tuple[Row, ...], task: str
) -> Iterator[tuple[type, str]]:
    """Yield the configs that must have the field, each with its location for an error."""
    sections = find_kind(task).sections if task in kind_names() else kind_of({}).sections
    if prefix in sections:
        yield sections[prefix], f"{row.where}: {prefix}"
    elif prefix in registry.listed_slots():
        name = key.split(".")[0]
        yield registry.get(prefix, name, row.where).config, f"{row.where}: {prefix} {name}"
    elif prefix not in registry.single_slots():
        yield _task_config(prefix, row.where), f"{row.where}: {prefix}"
    else:
        for name in _techniques(prefix, key, row, rows):
            yield registry.get(prefix, name, row.where).config, f"{row.where}: {prefix} {name}"


def _task_config(task: str, where: str) -> type:
    """Return the config of a task, which a study's file has registered."""
    known = [name for name in kind_names() if name in find_kind(name).sections]
    if task not in known:
        here = "A task of a study is known with --code STUDY_FILE."
        raise SpaceError(f"{unknown('task', task, known, where)} {here}")
    return find_kind(task).sections[task]


def _techniques(slot: str, key: str, row: Row, rows: tuple[Row, ...]) -> list[str]:
    """Return the techniques that the slot can have when the row is active."""
    names = {slot} | {other.name for other in rows if other.field == slot}
    clauses = [c for c in _conditions(row, rows) if c.left in names]
    chosen = [str(end) for domain in possible_domains(slot, rows) for end in domain.ends]
    if not chosen:
        chosen = [str(v) for c in clauses if c.operator in ("=", "in") for v in c.literals]
    if not chosen and slot in registry.defaults():
        chosen = [registry.defaults()[slot]]
    if chosen:  # by a row, a condition or the default; of these, what the conditions admit
        return [n for n in dict.fromkeys(chosen) if all(c.holds(lambda _, n=n: n) for c in clauses)]
    # Any technique could be chosen, by an arm: some must have the field.
    every = registry.names(slot)
    with_field = [n for n in every if key in _field_names(registry.get(slot, n).config)]
    if not with_field:
        known = sorted({f for n in every for f in _field_names(registry.get(slot, n).config)})
        raise SpaceError(unknown("field", key, known, f"{row.where}: {slot}"))
    return with_field


def _conditions(row: Row, rows: tuple[Row, ...]) -> list[Clause]:
    """Return the row's conditions and, transitively, those of the rows it depends on."""
    clauses: list[Clause] = []
    seen: set[str] = set()
    queue = [row]
    while queue:
        current = queue.pop()
        if current.name in seen:
            continue
        seen.add(current.name)
        clauses += current.when
        names = {clause.left for clause in current.when} | ({current.same_as} - {None})
        for name in names:
            matches = [other for other in rows if name in (other.name, other.field)]
            # Of several rows of a field, which one is active is not known here.
            queue += matches if len(matches) == 1 else []
    return clauses


def _field_names(config: type) -> list[str]:
    return [field.name for field in dataclasses.fields(config)]
