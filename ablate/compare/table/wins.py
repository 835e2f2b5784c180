"""The column that says on how many seeds (or searches) an arm is better: `10/12 [52, 98%]`."""

from __future__ import annotations

from operator import attrgetter

from ablate.compare.formats import Column
from ablate.compare.judged import Judged
from ablate.compare.statistics.shares import Share, share_better
from ablate.compare.table.rows import Comparison
from ablate.store.replication import plural


def columns_of_wins(summary: Judged) -> list[Column]:
    """The share with its exact interval, and its numbers for programs; about a `Comparison`."""

    def share(comparison: Comparison) -> Share | None:
        deltas = comparison.difference.that_differ
        return share_better(deltas, summary.alpha) if len(deltas) > 1 else None

    numbers = {
        "num_better": attrgetter("num_better"),
        "better_low": lambda share: share.interval[0],
        "better_high": lambda share: share.interval[1],
    }
    named = (Column(name=name, of=number).about(share) for name, number in numbers.items())
    return [Column(_word(summary), share, str), *named]


def about_wins(summary: Judged) -> str:
    """How to read the column."""
    blocks, units = summary.blocks, f"pairs of {plural(summary.replication.unit)}"
    if blocks is not None and blocks.alone:
        units = f"{blocks} that differ"
    return (
        f"{_word(summary)}: the {units} in which the arm's value is "
        f"{_word(summary)}, with the exact {100 * (1 - summary.alpha):g}% interval of their share."
    )


def _word(summary: Judged) -> str:
    return "better" if summary.metric.directed else "lower"
