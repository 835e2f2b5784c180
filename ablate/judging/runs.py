"""Runs: one number for each arm and seed, from rows that may be parts of a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ablate.judging.items import name_of, over_items
from ablate.judging.refusals import (
    like_items,
    refuse_doubled,
    refuse_last_twice,
    refuse_pasted,
    refuse_seeds_within,
    refuse_sorted,
    refuse_unpaired,
)
from ablate.judging.rows import LOST, Columns, Records, Row, number, read_rows

IN_ORDER = (
    "Without seeds, the arms' runs are paired in the order of rows. That is fair only if all runs "
    "are independent and the order says nothing of the results: then the pairs are arbitrary, and "
    "the test is right and merely weaker than one of shared seeds."
)


@dataclass(frozen=True)
class Runs:
    """A row for each arm and seed, and what a reader must know of how they came about."""

    rows: Sequence[Row]
    notes: Sequence[str]


def checked(records: Records, columns: Columns, source: str) -> Runs:
    """The runs in order, one for each arm and seed; an error if that cannot be."""
    refuse_seeds_within(columns, source)
    rows, notes = read_rows(records, columns, source), []
    if not rows[0].seed:
        rows = _numbered(rows, columns.item, source)
        notes += [IN_ORDER] if {row.seed for row in rows} > {"1"} else []
    if columns.last is not None:
        num, steps = len(rows), _last(rows, columns, source)
        rows = [row for _, row in steps]
        notes += _uneven(steps, columns.last)
        if len(rows) < num:
            notes.append(
                f"{len(rows):,} of {num:,} rows count: of each run the one with the largest "
                f"'{columns.last}'."
            )
    if columns.item is not None:
        num, rows = len(rows), over_items(rows, columns.item, columns.cluster, source)
        notes.append(
            f"A run's number is the mean over its {num // len(rows):,} values of '{columns.item}'."
        )
    else:
        refuse_pasted(rows, columns, source)
        notes += like_items(rows)
    refuse_doubled(rows, columns, source)
    if columns.seed is None:
        refuse_sorted(rows, source)
    refuse_unpaired(rows, columns, source)
    return Runs(rows, [*notes, *_unfinished(rows)])


def _numbered(rows: Sequence[Row], item: str | None, source: str) -> list[Row]:
    """The rows with the number of each run of its arm in place of a seed."""
    counts: Counter[tuple[str, str]] = Counter()
    numbered = []
    for row in rows:
        of = row.arm, "" if item is None else name_of(row, item, source)
        counts[of] += 1
        numbered.append(replace(row, seed=str(counts[of])))
    return numbered


def _last(rows: Sequence[Row], columns: Columns, source: str) -> list[tuple[float, Row]]:
    """Of each arm and seed the row whose number in a column is the largest, with the number."""
    column = columns.last or ""

    def at(row: Row) -> float:
        step = number(row.cells.get(column), column, f"{source}, row {row.place}")
        return -math.inf if step is None or math.isnan(step) else step

    # A log has rows of other metrics, too; a cell that is there and empty is a run that diverged.
    steps = [(at(row), row) for row in rows if columns.metric in row.cells]
    latest: dict[tuple[str, str], tuple[float, Row]] = {}
    for step, row in steps:
        known = latest.get((row.arm, row.seed))
        if known is None or step > known[0]:
            latest[row.arm, row.seed] = step, row
    for step, row in steps:
        largest, kept = latest[row.arm, row.seed]
        if step == largest and row.value != kept.value:
            refuse_last_twice(kept, row, column, source)
    return [*latest.values()]


def _uneven(steps: Sequence[tuple[float, Row]], column: str) -> list[str]:
    """Which runs end before others: these were trained for longer."""
    longest = max((step for step, _ in steps), default=0)
    short = [f"{row.arm} seed {row.seed} at {step:g}" for step, row in steps if step < longest]
    if not short:
        return []
    shown = ", ".join(short[:6]) + (", ..." if len(short) > 6 else "")
    return [f"Not all runs end at {column} {longest:g}: {shown}."]


def _unfinished(rows: Sequence[Row]) -> list[str]:
    """Which runs did not finish, so that their numbers are not final."""
    ended = [f"{row.arm} seed {row.seed} ({row.state})" for row in rows if row.state]
    if not ended:
        return []
    shown = ", ".join(ended[:6]) + (", ..." if len(ended) > 6 else "")
    again = " Run them again." if any(row.state in LOST for row in rows) else ""
    return [f"Runs that did not finish do not count: {shown}.{again}"]
