"""Which arms cannot be told apart: for leaderboards, on which any two arms are compared.

Every pair of arms is tested as an arm and its base are, and all pairs are one Holm family. Arms
that share a letter are not told apart (Piepho 2004): all arms begin as one group, and each pair
that is told apart splits the groups that have both. Arms with lost results, or with other seeds
than each other, are not told apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace

from ablate.compare.formats import Column, Table
from ablate.compare.judged import Judged
from ablate.compare.statistics.against import shared_seeds
from ablate.compare.statistics.paired import holm, verdict
from ablate.compare.table.rows import ArmSummary
from ablate.results.spread import mean


def with_groups(table: Table, judged: Judged) -> Table:
    """The table with a column of letters."""
    arm, of = table.headings.index("arm"), groups(judged)
    rows = [[*row, of.get(row[arm], "")] for row in table.rows]
    return replace(table, columns=[*table.columns, Column("group", left=True)], rows=rows)


def groups(judged: Judged) -> dict[str, str]:
    """The letters of each arm that has results; `a` is of the group with the best one."""
    judge = judged.judge
    with_values = [arm for arm in judged.arms if arm.values]
    arms = sorted(with_values, key=lambda arm: mean([*arm.values.values()]))
    pairs = [*itertools.combinations(arms, 2)]
    differences = [
        judge.difference([(one, 1), (other, -1)], shared_seeds([one, other]))
        for one, other in pairs
    ]
    corrected = holm([difference and difference.p for difference in differences])
    apart = [
        (one.name, other.name)
        for (one, other), difference, p in zip(pairs, differences, corrected, strict=True)
        if _are_whole(one, other) and verdict(difference, p, judge.alpha).decided
    ]
    return letters([arm.name for arm in arms], apart)


def _are_whole(one: ArmSummary, other: ArmSummary) -> bool:
    every = one.values.keys() == other.values.keys()
    return every and one.counts.whole and other.counts.whole


def letters(names: Sequence[str], apart: Collection[tuple[str, str]]) -> dict[str, str]:
    """Two names share a letter unless they are apart. Names come in order, and so do letters."""
    found = [frozenset(names)]
    for pair in map(frozenset, apart):
        split = [group - {name} for group in found if pair <= group for name in pair]
        found = [group for group in found if not pair <= group] + split
        found = [g for g in dict.fromkeys(found) if not any(g < larger for larger in found)]
    found.sort(key=lambda group: sorted(map(names.index, group)))
    every = (chr(ord("a") + at % 26) * (1 + at // 26) for at in range(len(found)))
    lettered = [*zip(every, found, strict=True)]
    return {name: " ".join(x for x, group in lettered if name in group) for name in names}
