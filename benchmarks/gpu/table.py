"""Rows of results, the table that is printed of them, and the file that is written."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.timing import Quartiles

WIDTH = 99
LINE = "{:<28} {:<21} {:>9} {:>9} {:>7} {:>11} {:>8}"
HEAD = LINE.format("what", "against", "ours ms", "theirs ms", "faster", "quartiles", "to reach")
MEASURED, COMPARED, FAILED = "measured", "compared", "failed"
NOT_RUN, NO_OPPONENT = "not run", "no opponent"
LOST = 3  # the exit status of a process whose device answers no more


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What came of a case that has no two sides to time."""

    numbers: Mapping[str, Any]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came of a case. `faster` is theirs divided by ours, round by round."""

    case: str
    what: str
    against: str
    status: str
    ours_ms: Quartiles | None = None
    theirs_ms: Quartiles | None = None
    faster: Quartiles | None = None
    to_reach: float | None = None
    rounds: int | None = None
    ours_mb: float | None = None
    theirs_mb: float | None = None
    memory_to_reach: float | None = None  # a share
    share_of_products: tuple[float, float] | None = None  # of the device's rate, ours and theirs
    numbers: Mapping[str, Any] = field(default_factory=dict)  # of a case without two sides
    notes: tuple[str, ...] = ()

    @property
    def reached(self) -> bool | None:
        """None where there is nothing to reach, or nothing was measured."""
        if self.faster is None or self.to_reach is None:
            return None
        return self.faster[1] >= self.to_reach


def text_of(row: Row) -> str:
    """The row's line, and its notes below."""
    if row.ours_ms is None or row.theirs_ms is None or row.faster is None:
        line = f"{row.what:<28} {row.against:<21} {row.status}"
    else:
        low, median, high = row.faster
        reach = "" if row.reached is None else f"{row.to_reach:g} {_verdict(row.reached)}"
        times = (f"{row.ours_ms[1]:.2f}", f"{row.theirs_ms[1]:.2f}", f"{median:.2f}")
        line = LINE.format(row.what, row.against, *times, f"{low:.2f}-{high:.2f}", reach).rstrip()
    notes = "; ".join([*_notes(row), *row.notes])
    below = textwrap.indent(textwrap.fill(notes, WIDTH - 4), "    ")
    return f"{line}\n{below}".rstrip()


def _notes(row: Row) -> list[str]:
    notes = []
    if row.ours_mb is not None and row.theirs_mb is not None:
        share = row.ours_mb / max(row.theirs_mb, 1e-9)
        memory = f"memory {row.ours_mb:,.0f} of {row.theirs_mb:,.0f} MB, {share:.2f}"
        if (limit := row.memory_to_reach) is not None:
            memory += f" (to reach {limit:g}: {_verdict(share <= limit)})"
        notes.append(memory)
    elif row.status == MEASURED:
        notes.append("memory not measured")
    if row.share_of_products is not None:
        ours, theirs = row.share_of_products
        notes.append(f"{ours:.0%} of a large product's rate, theirs {theirs:.0%}")
    return notes


def _verdict(reached: bool) -> str:
    return "kept" if reached else "MISSED"


def write(file: Path, facts: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Write everything that is known so far."""
    told = {**facts, "rows": [{**asdict(row), "reached": row.reached} for row in rows]}
    file.write_text(json.dumps(told, indent=1) + "\n")


def rows_of(told: Mapping[str, Any]) -> list[Row]:
    """The rows of what was written."""
    return [Row(**{name: row[name] for name in row if name != "reached"}) for row in told["rows"]]
