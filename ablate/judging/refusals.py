"""Refuses rows that no test can judge, and says how they can be judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ablate.errors import ConfigError
from ablate.judging.rows import Columns, Row
from ablate.store.replication import MIN_PAIRS

SORTED = 4  # by chance, two arms of four runs are both sorted in 1 of 288 files
MANY, MOST = 20, 100  # seeds: so many 0s and 1s, or seeds, are rather items
SEPARATORS = ("_", "-", "/", ":", ",", ";", "|", "#", "@", " ")  # of a seed and an item in one cell


def refuse_seeds_within(columns: Columns, source: str) -> None:
    """Refuse a seed that is taken for a step or an item: pairs would be of something else."""
    for option, column in (("--last", columns.last), ("--item", columns.item)):
        if column is not None and "seed" in column.lower():
            does = "drop all seeds but one" if option == "--last" else "take seeds for items"
            raise ConfigError(
                f"{source}: {option} {column} would {does}. Instead: --seed {column}; of several "
                "rows of a run, --item COLUMN takes the mean over its items, and --last COLUMN "
                "the last step."
            )


def refuse_sorted(rows: Sequence[Row], source: str) -> None:
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


def refuse_doubled(rows: Sequence[Row], columns: Columns, source: str) -> None:
    known: dict[tuple[str, str], Row] = {}
    for row in rows:
        first = known.setdefault((row.arm, row.seed), row)
        if first is not row:
            raise ConfigError(
                f"{source}: rows {first.place} and {row.place} are both of arm '{row.arm}' and "
                f"seed {row.seed}, and which of them counts is unknown."
                + _way_out(first, row, columns)
            )


def refuse_last_twice(first: Row, second: Row, column: str, source: str) -> None:
    """Refuse two last rows of one run, which say different things."""
    raise ConfigError(
        f"{source}: rows {first.place} and {second.place} are both the last of arm '{first.arm}' "
        f"and seed {first.seed} by '{column}', and have different numbers. Which of them counts is "
        "unknown: leave one out, or name a column that tells them apart."
    )


def _way_out(first: Row, second: Row, columns: Columns) -> str:
    """What tells two rows of one run apart: a step, an item, or another column of the arm."""
    names = dict.fromkeys([*first.cells, *second.cells])
    differ = [name for name in names if first.cells.get(name) != second.cells.get(name)]
    told = [name for name in differ if name not in columns.needed]
    if not differ:
        return " They are equal: leave one out."
    if not told:
        return f" They differ in '{columns.metric}' alone: leave one out, or number their runs."
    listed = ", ".join(f"'{name}'" for name in told[:6])
    seeds = [name for name in told if "seed" in name.lower()]
    if seeds:
        item = f" --item {columns.seed}" if columns.seed is not None else ""
        return (
            f" They differ in {listed}. Is '{seeds[0]}' the seed of a run? Then --seed {seeds[0]}"
            f"{item} takes the mean over the other rows of a run."
        )
    return (
        f" They differ in {listed}. A column of items, on each of which the run was measured: "
        "--item COLUMN takes their mean. A column of steps: --last COLUMN takes the last row. A "
        "column that tells arms apart: name it with --arm, too."
    )


def refuse_pasted(rows: Sequence[Row], columns: Columns, source: str) -> None:
    """Refuse seeds that are a seed and an item in one cell: pairs would be items."""
    seeds = dict.fromkeys(row.seed for row in rows)
    for mark in SEPARATORS:
        for parted in (str.partition, str.rpartition):
            parts = [parted(seed, mark) for seed in seeds]
            firsts, seconds = ({part[at] for part in parts} for at in (0, 2))
            crossed = len(firsts) * len(seconds) == len(seeds)
            if len(seeds) >= MANY and crossed and min(len(firsts), len(seconds)) > 1:
                raise ConfigError(
                    f"{source}: the {len(seeds):,} values of '{columns.seed}' are each of "
                    f"{len(firsts)} with each of {len(seconds)}, such as '{rows[0].seed}'. Are "
                    "these seeds and items? Items of one training do not say how trainings vary. "
                    "Instead, a column for each: --seed COLUMN --item COLUMN."
                )


def like_items(rows: Sequence[Row]) -> Iterator[str]:
    """Say that rows look like items, of which each is one of few trainings."""
    arm = rows[0].arm
    values = [row.value for row in rows if row.arm == arm]
    shares = len(values) >= MANY and set(values) <= {0.0, 1.0}
    if shares or len(values) > MOST:
        what = "Every number is 0 or 1" if shares else f"{len(values):,} seeds of one arm are many"
        yield (
            f"{what}: if rows are items of fewer trainings, this table is wrong, since items do "
            "not say how trainings vary; instead, --item COLUMN and --seed COLUMN."
        )


def refuse_unpaired(rows: Sequence[Row], columns: Columns, source: str) -> None:
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
    if columns.item is None and all(len(own) == 1 for own in seeds.values()):
        raise ConfigError(
            f"{source} has one seed of each arm. One run says nothing of how runs vary, so no "
            f"difference can be judged: run each arm on {MIN_PAIRS} seeds or more, all arms on the "
            "same ones. Or, if a run is measured item by item: a row for each item, and --item "
            "COLUMN, which compares these very runs over items."
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
