"""The rows that are fixed before a search, and searches that start from another arm's winner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ablate.config.merge import merge
from ablate.config.registry import defaults
from ablate.errors import StudyError, unknown, wrong_value
from ablate.space.row import Choices, Range, Row
from ablate.space.space import Space
from ablate.study.planned import Plan, PlannedSearch


def check_rows(space: Space, rows: Mapping[str, Any]) -> None:
    """Check that the rows exist in the space and accept these values."""
    for name, value in rows.items():
        domain = space[name].domain
        if isinstance(domain, Choices | Range) and not domain.admits(value):
            raise StudyError(wrong_value(name, value, str(domain), space[name].where))


def check_inherited(search: PlannedSearch, where: str) -> None:
    """Check that this arm has a choice in every row that it searches."""
    if search.inherits is None:
        return
    where = f"{where}: inherits from '{search.inherits.arm}'"
    rows = {row.name: row for row in search.space.open_rows(search.column)}
    for name in search.inherits.over:
        if name not in rows:
            raise StudyError(unknown("open row", name, rows, f"{where}: over"))
        # Arms set fields, and `Search(rows=...)` sets rows by name.
        keys = (name, rows[name].field or name)
        key = next((key for key in keys if key in search.fixed), None)
        if key is not None:
            raise StudyError(
                f"{where}, over row '{name}', but {key} = {search.fixed[key]!r} is set by the arm, "
                "the scale or the search. Instead: search rows that none of them sets."
            )
        if _is_never_active(search, rows[name]):
            raise StudyError(
                f"{where}, over row '{name}', which is active only when {rows[name].condition}: "
                "never in this arm. Instead: search rows that are active in it."
            )


def _is_never_active(search: PlannedSearch, row: Row) -> bool:
    """Return whether a condition of the row fails, whatever the other arm's winner is."""
    rows = {key: row for row in search.space.rows for key in (row.name, row.field) if key}
    values = {**defaults(), **search.values, **search.fixed}
    over = search.inherits.over if search.inherits else ()
    lost = {  # rows without a field: no value records what the other search chose
        row.name
        for row in search.space.open_rows(search.column)
        if row.field is None and row.name not in (*over, *search.fixed)
    }

    def lookup(name: str) -> Any:
        """Return a value that is certain now; None for a row that the other search may set."""
        if name not in rows:
            return values.get(name)
        keys = (rows[name].name, rows[name].field or name)
        return next((search.fixed[key] for key in keys if key in search.fixed), None)

    return any(clause.holds(lookup) is False or clause.left in lost for clause in row.when)


def _inherited(
    search: PlannedSearch, other: PlannedSearch, winner: Mapping[str, Any]
) -> PlannedSearch:
    """Return the search with the values of the other arm's winner, except what this arm sets.

    Rows that are not searched keep these values; a row without a value is inactive.
    """
    over = search.inherits.over if search.inherits else ()
    own = {*search.fixed, *(search.space[name].field for name in over)}
    inherited = {key: winner[key] for key in winner if key not in other.fixed and key not in own}
    values = merge(search.values, inherited)
    unsearched = {
        row.name: values.get(row.field) if row.field else None
        for row in search.space.open_rows(search.column)
        if row.name not in over and not {row.name, row.field} & search.fixed.keys()
    }
    return replace(search, values=values, fixed={**search.fixed, **unsearched}, waits=False)


def with_winner(plan: Plan, index: int, other: PlannedSearch, winner: Mapping[str, Any]) -> Plan:
    """Return the plan after the search at `index` has inherited from another one's winner."""
    searches = list(plan.searches)
    searches[index] = _inherited(searches[index], other, winner)
    return replace(plan, searches=tuple(searches))
