"""Rows of results, checked: one number for each arm and seed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ablate.errors import ConfigError, unknown, wrong_value
from ablate.results.replication import MIN_PAIRS

Records = Sequence[Mapping[str, Any]]
NO_SEEDS = (
    " If the runs have no seeds, --in-order pairs the arms' runs in the order of rows, which is "
    "fair if all runs are independent."
)
SORTED = 4  # by chance, two arms of four runs are both sorted in 1 of 288 files


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns say what. Several columns of an arm name it together."""

    arm: Sequence[str]
    seed: str | None  # None: runs have no seeds, and those of two arms pair in the order of rows
    metric: str
    cost: str | None = None  # in any unit
    last: str | None = None  # of several rows of one run, the one with the largest number counts

    @property
    def needed(self) -> list[str]:
        """All columns that have to be there."""
        return [*self.arm, self.metric, *filter(None, (self.seed, self.cost, self.last))]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. `value`: None if it ended without a finite number."""

    arm: str
    seed: str
    value: float | None
    cost: float | None
    place: int  # in the file, from 1 on
    cells: Mapping[str, Any]


def checked(records: Records, columns: Columns, source: str) -> list[Row]:
    """The rows in order, one for each arm and seed; an error if that cannot be."""
    have = list(dict.fromkeys(name for record in records for name in record))
    for name in columns.needed:
        if name not in have:
            hint = "" if name != columns.seed else NO_SEEDS
            raise ConfigError(f"{unknown('column', name, have, source)}{hint}")
    rows = [_row(record, columns, source, at) for at, record in enumerate(records, 1)]
    if columns.seed is None:
        rows = _numbered(rows)
        _refuse_sorted(rows, source)
    if columns.last is not None:
        rows = _last(rows, columns.last, source)
    _refuse_doubled(rows, source)
    _refuse_unpaired(rows, columns, source)
    return rows


def _row(record: Mapping[str, Any], columns: Columns, source: str, at: int) -> Row:
    where = f"{source}, row {at}"
    names = [_text(record.get(name), name, where) for name in columns.arm]
    several = zip(columns.arm, names, strict=True)
    arm = names[0] if len(names) == 1 else ", ".join(f"{column}={name}" for column, name in several)
    value = _number(record.get(columns.metric), columns.metric, where)
    cost = columns.cost and _number(record.get(columns.cost), columns.cost, where)
    return Row(
        arm=arm,
        seed="" if columns.seed is None else _text(record.get(columns.seed), columns.seed, where),
        value=value if value is not None and math.isfinite(value) else None,
        cost=cost if cost and math.isfinite(cost) else None,
        place=at,
        cells=record,
    )


def _numbered(rows: Sequence[Row]) -> list[Row]:
    """The rows with the number of each run of its arm in place of a seed."""
    counts: Counter[str] = Counter()
    numbered = []
    for row in rows:
        counts[row.arm] += 1
        numbered.append(replace(row, seed=str(counts[row.arm])))
    return numbered


def _refuse_sorted(rows: Sequence[Row], source: str) -> None:
    """Refuse rows that were sorted by their results: pairs of equal rank differ too little."""
    by_arm: dict[str, list[float]] = {}
    for row in rows:
        if row.value is not None:
            by_arm.setdefault(row.arm, []).append(row.value)
    long = [values for values in by_arm.values() if len(values) >= SORTED]
    for direction in (1, -1):
        ordered = (sorted(values, reverse=direction < 0) == values for values in long)
        if len(long) > 1 and all(ordered):
            raise ConfigError(
                f"{source}: the rows of every arm are sorted by their results, so they are not in "
                "the order of the runs. Pairing the best run with the best makes differences look "
                "more certain than they are. Instead: the rows in the order in which they were run."
            )


def _text(value: Any, column: str, where: str) -> str:
    """What names an arm or a seed: 1, 1.0 and "1" are one seed."""
    if value is None or (isinstance(value, float) and math.isnan(value)) or str(value) == "":
        raise ConfigError(f"{where}: '{column}' is empty.")
    return f"{value:.15g}" if isinstance(value, float) else str(value).strip()


def _number(value: Any, column: str, where: str) -> float | None:
    """A number; None where a run has none."""
    if value is None or value == "":
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(wrong_value(column, value, "a number", where)) from None


def _last(rows: Sequence[Row], column: str, source: str) -> list[Row]:
    """Of each arm and seed the row whose number in a column is the largest."""

    def at(row: Row) -> float:
        step = _number(row.cells.get(column), column, f"{source}, row {row.place}")
        return -math.inf if step is None or math.isnan(step) else step

    latest: dict[tuple[str, str], Row] = {}
    for row in rows:
        known = latest.get((row.arm, row.seed))
        if known is None or at(row) > at(known):
            latest[row.arm, row.seed] = row
    return list(latest.values())


def _refuse_doubled(rows: Sequence[Row], source: str) -> None:
    known: dict[tuple[str, str], Row] = {}
    for row in rows:
        first = known.setdefault((row.arm, row.seed), row)
        if first is not row:
            raise ConfigError(
                f"{source}: rows {first.place} and {row.place} are both of arm '{row.arm}' and "
                f"seed {row.seed}, and which of them counts is unknown.{_way_out(first, row)}"
            )


def _way_out(first: Row, second: Row) -> str:
    """What would tell two rows of one run apart: a step, or another column of the arm."""
    names = dict.fromkeys([*first.cells, *second.cells])
    differ = [name for name in names if first.cells.get(name) != second.cells.get(name)]
    listed = ", ".join(f"'{name}'" for name in differ[:6])
    if not differ:
        return " They are equal: leave one out."
    return (
        f" They differ in {listed}. If one of these counts steps, --last COLUMN takes the last "
        "row; if one of them tells arms apart, name it with --arm, too."
    )


def _refuse_unpaired(rows: Sequence[Row], columns: Columns, source: str) -> None:
    """Refuse what no test could judge: one arm, one seed, or arms that share no seed."""
    seeds: dict[str, set[str]] = {}
    for row in rows:
        seeds.setdefault(row.arm, set()).add(row.seed)
    if len(seeds) < 2:
        named = " and ".join(f"'{name}'" for name in columns.arm)
        raise ConfigError(
            f"{source} has one arm, '{next(iter(seeds))}': there is nothing to compare it with. "
            f"Is {named} the column that tells variants apart?"
        )
    if all(len(own) == 1 for own in seeds.values()):
        raise ConfigError(
            f"{source} has one seed of each arm. One run says nothing of how runs vary, so no "
            f"difference can be judged: run each arm on {MIN_PAIRS} seeds or more, all arms on the "
            "same ones."
        )
    if not any(one & other for one, other in _pairs(list(seeds.values()))):
        first, second, *_ = seeds
        raise ConfigError(
            f"{source}: no two arms share a seed ('{first}' has {_few(seeds[first])}; '{second}' "
            f"has {_few(seeds[second])}). Arms are compared seed by seed: run them on the "
            "same ones."
        )


def _pairs(sets: Sequence[set[str]]) -> Iterator[tuple[set[str], set[str]]]:
    for index, one in enumerate(sets):
        for other in sets[index + 1 :]:
            yield one, other


def _few(seeds: set[str]) -> str:
    shown = sorted(seeds)[:3]
    return ", ".join(shown) + (", ..." if len(seeds) > len(shown) else "")
