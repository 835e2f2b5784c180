"""The records' mirror in SQL: a box, the rows, and a picture if two columns are numbers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from ablate.compare.across import query as queries
from ablate.compare.formats import Table
from ablate.compare.page.parts import Grid, Text
from ablate.compare.plots import figure as fig
from ablate.live import asked, figures
from ablate.live.parts import Block, Part, Plotted
from ablate.record.mirror.syncing import update_mirror
from ablate.store.numbers import finite
from ablate.store.workspace import Workspace

SECONDS, MOST_ROWS, SHOWN = 10.0, 20_000, 500
FARTHEST = 1e300  # from 0: the ends of an axis lie farther than its points
EXAMPLES = {
    "arms": "SELECT study, scale, arm, split, metric, mean, spread, num FROM arms",
    "size and result": "SELECT num_parameters, mean, arm, study FROM arms WHERE split = 'valid'",
    "what failed": "SELECT trial, study, arm, status, reason FROM trials "
    "WHERE status IN ('failed', 'diverged')",
    "columns of trials": "DESCRIBE trials",
}

_one_at_a_time = threading.Lock()  # each question's process may need much memory


def answer(workspace: Workspace, sql: str) -> Table:
    """The rows of one SELECT, over records as they are now."""
    limits = queries.Limits(seconds=SECONDS, rows=MOST_ROWS)
    with _one_at_a_time:
        update_mirror(workspace)  # which may take longer than a question may
        try:
            return asked.ask(workspace, sql, limits)
        except queries.MirrorDamaged:
            update_mirror(workspace, rebuild=True)
            return asked.ask(workspace, sql, limits)


def blocks(sql: str, rows: Table) -> list[Block]:
    """The rows, and a picture of the first two columns of numbers."""
    num = len(rows.rows)
    cut = f" The first {SHOWN} are shown." if num > SHOWN else ""
    parts: list[Part] = [Text(f"{num:,} rows.{cut}"), Grid(replace(rows, rows=rows.rows[:SHOWN]))]
    figure = picture(rows)
    if figure is not None:
        query = f"?{urlencode({'sql': sql})}"
        parts.append(Plotted("/query/picture", figure, query))
    return [Block("rows", "Rows", parts)]


def picture(rows: Table) -> fig.Figure | None:
    """Points of the first two columns of numbers; None if there are not two."""
    numeric = [at for at in range(len(rows.columns)) if _is_numeric(at, rows.rows)][:2]
    if len(numeric) < 2:
        return None
    names = [rows.columns[at].heading for at in numeric]
    pairs = [tuple(_drawable(row[at]) for at in numeric) for row in rows.rows]
    points = [(x, y) for x, y in pairs if x is not None and y is not None]
    if not points:
        return None
    some = points[:: max(1, -(-len(points) // figures.MOST_POINTS))]
    x, y = zip(*some, strict=True)
    look = fig.nth_look(1, marker="o", size=5, width=0)
    panel = fig.Panel(
        x=fig.Axis(names[0]),
        y=fig.Axis(names[1]),
        marks=[fig.Series(x=x, y=y, name="row", look=look)],
    )
    caption = f"{names[1]} over {names[0]}: {len(some)} of {len(points)} rows with both."
    return fig.Figure(title="Picture", caption=caption, panels=[panel])


def _drawable(value: Any) -> float | None:
    """The number, unless no axis has room for it."""
    number = finite(value)
    return number if number is not None and abs(number) < FARTHEST else None


def _is_numeric(at: int, rows: Sequence[Sequence[Any]]) -> bool:
    values = [row[at] for row in rows if row[at] is not None]
    numbers = [value for value in values if isinstance(value, int | float)]
    truths = any(isinstance(value, bool) for value in values)
    return bool(values) and len(numbers) == len(values) and not truths
