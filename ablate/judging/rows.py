"""Rows of results, each of them of one run, or of a part of one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ablate.config.metrics import is_usable
from ablate.errors import ConfigError, unknown, wrong_value

Records = Sequence[Mapping[str, Any]]
NO_SEEDS = (
    " If the runs have no seeds, --in-order pairs the arms' runs in the order of rows, which is "
    "fair if all runs are independent."
)
STATE = "state"  # the column in which Weights & Biases says how a run ended
RUNNING = ("running", "pending", "preempting")
LOST = ("crashed", "killed", "preempted")  # without the run's own doing
UNFINISHED = (*RUNNING, *LOST, "failed")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns say what. Several columns of an arm name it together."""

    arm: Sequence[str]
    seed: str | None  # None: runs have no seeds, and those of two arms pair in the order of rows
    metric: str
    cost: str | None = None  # in any unit
    last: str | None = None  # of several rows of one run, the one with the largest number counts
    item: str | None = None  # of several rows of one run, the mean over these counts
    cluster: str | None = None  # of items that are no independent draws

    @property
    def needed(self) -> list[str]:
        """All columns that have to be there."""
        others = (self.seed, self.cost, self.last, self.item, self.cluster)
        return [*self.arm, self.metric, *filter(None, others)]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. `value`: None if it ended without a number, or has not ended."""

    arm: str
    seed: str
    value: float | None
    cost: float | None
    place: int  # in the file, from 1 on
    cells: Mapping[str, Any]
    state: str = ""  # of a run that did not finish, if its row says so
    # Of items, or of their clusters: by how much each is above the value; their mean is 0.
    deviations: tuple[float, ...] | None = None
    deviations_of: str | None = None  # item or cluster


def read_rows(records: Records, columns: Columns, source: str) -> list[Row]:
    """The rows in order, as these columns have them."""
    records = _long(records, columns)
    have = dict.fromkeys(name for record in records for name in record)
    for name in columns.needed:
        if name not in have:
            if name == columns.seed and _once_each(records, columns):
                columns = replace(columns, seed=None)
                continue
            hint = "" if name != columns.seed else NO_SEEDS
            raise ConfigError(f"{unknown('column', name, have, source)}{hint}")
    states = [name for name in have if name.lower() == STATE and name not in columns.needed]
    return [_row(record, columns, states, source, at) for at, record in enumerate(records, 1)]


def _once_each(records: Records, columns: Columns) -> bool:
    """Return whether every arm has each item once, so that its rows are of one training."""
    names = (*columns.arm, columns.item)
    keys = {tuple(record.get(name or "") for name in names) for record in records}
    return columns.item is not None and len(keys) == len(records)


def _long(records: Records, columns: Columns) -> Records:
    """A row for each run, of rows that have a column for each seed: `seed_0`, `acc_seed_1`."""
    have = dict.fromkeys(name for record in records for name in record)
    metric, seed = columns.metric, columns.seed
    if seed is None or seed in have or metric in have:
        return records
    begin = rf"(?:{re.escape(metric)}[ _./-]?)?{re.escape(seed)}[ _./=-]?"
    found = {name: re.fullmatch(rf"{begin}(\d+)", name, re.IGNORECASE) for name in have}
    seeds = {name: match[1] for name, match in found.items() if match}
    if len(seeds) < 2:
        return records
    return [
        {**{n: v for n, v in record.items() if n not in seeds}, seed: of, metric: record[name]}
        for record in records
        for name, of in seeds.items()
        if name in record
    ]


def _row(
    record: Mapping[str, Any], columns: Columns, states: Sequence[str], source: str, at: int
) -> Row:
    where = f"{source}, row {at}"
    names = [text(record.get(name), name, where) for name in columns.arm]
    several = zip(columns.arm, names, strict=True)
    arm = names[0] if len(names) == 1 else ", ".join(f"{column}={name}" for column, name in several)
    value = number(record.get(columns.metric), columns.metric, where)
    cost = columns.cost and number(record.get(columns.cost), columns.cost, where)
    ends = (str(record.get(state)).strip().lower() for state in states)
    unfinished = next((end for end in ends if end in UNFINISHED), "")
    return Row(
        arm=arm,
        seed="" if columns.seed is None else _seed(record.get(columns.seed), columns.seed, where),
        value=value if value is not None and is_usable(value) and not unfinished else None,
        cost=cost if cost and is_usable(cost) else None,
        place=at,
        cells=record,
        state=unfinished,
    )


def _seed(value: Any, column: str, where: str) -> str:
    """What names a seed: 1, 1.0, "1" and "1.0", as files have it, are one."""
    return re.sub(r"^(-?\d+)\.0+$", r"\1", text(value, column, where))


def text(value: Any, column: str, where: str) -> str:
    """What names an arm, a seed or an item: 1, 1.0 and "1" are one."""
    if value is None or (isinstance(value, float) and math.isnan(value)) or str(value) == "":
        raise ConfigError(f"{where}: '{column}' is empty.")
    name = f"{value:.15g}" if isinstance(value, float) else str(value).strip()
    if not name.isascii() and name != name.encode("utf-8", "replace").decode():
        raise ConfigError(wrong_value(column, name, "text that UTF-8 can write", where))
    return name


def number(value: Any, column: str, where: str) -> float | None:
    """A number; None where a run has none."""
    if value is None or value == "":
        return None
    try:
        if "_" in str(value):  # Python reads 0_85 as 85
            raise ValueError
        return float(value)
    except OverflowError:  # a whole number beyond every float
        return math.inf
    except (TypeError, ValueError):
        raise ConfigError(wrong_value(column, value, "a number", where)) from None
