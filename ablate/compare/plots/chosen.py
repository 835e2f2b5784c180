"""Which arms a plot shows of a study that has too many to read, and how its caption says so."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ablate.compare.judged import Judged
from ablate.store.replication import counted


def arms(names: Sequence[str], most: int, judged: Judged) -> list[str]:
    """The base arm and the best of the others, `most` in all, in the order of `names`.

    Where neither direction is better, or nothing has a result yet, the first ones.
    """
    if len(names) <= most:
        return list(names)
    losses = _losses(judged)

    def rank(name: str) -> tuple[bool, float]:
        return name != judged.record.base_arm, losses.get(name, math.inf)

    kept = {*sorted(names, key=rank)[:most]}
    return [name for name in names if name in kept]


def _losses(judged: Judged) -> dict[str, float]:
    """What ranks the arms; empty where neither direction is better."""
    split, directed = judged.split, judged.metric.directed
    known = (arm for arm in judged.arms if split in arm.cells and directed)
    return {arm.name: arm.cells[split].loss for arm in known}


def left_out(names: Sequence[str], most: int, judged: Judged) -> str:
    """A sentence on the arms that `arms` leaves out; empty if there are none."""
    if len(names) <= most:
        return ""
    which = "best" if _losses(judged) else "first"
    has_base = judged.record.base_arm in names
    others = counted(most - 1, "other")
    shown = f"base arm and the {which} {others}" if has_base else f"{which} {most} arms"
    more = counted(len(names) - most, "more arm")
    return f" The plot shows the {shown}. Not drawn: {more}, which the table has."
