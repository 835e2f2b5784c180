"""Which settings mattered in a study's searches: the numbers of `ablate importance`."""

from __future__ import annotations

from ablate.compare.formats import Column, for_people
from ablate.compare.page.parts import Grid, Text
from ablate.compare.text.figures import NONE
from ablate.live.followed import Followed
from ablate.live.parts import Block, Facts, Link, Part
from ablate.live.views.index import address

READING = (
    "Each evaluator's shares sum to 1. PED-ANOVA: what sets the best trials apart. fANOVA: what "
    "explains the spread over all trials. Trials that were stopped early are not counted."
)


def blocks(study: Followed) -> list[Block]:
    """A table for each search, the most important setting first."""
    from ablate.tune.search.importance import Importance, importances

    def of(one: Importance) -> Block:
        def total(name: str) -> float:
            return sum(shares.get(name, 0.0) for shares in one.shares.values())

        names = sorted(one.num_with, key=lambda name: (-total(name), name))
        columns = [
            Column("setting", str, left=True),
            *(Column(evaluator, lambda name, shares=shares: _share(shares.get(name)))
              for evaluator, shares in one.shares.items()),
            Column("trials with it", one.num_with.__getitem__),
        ]  # fmt: skip
        counts = Text(f"{one.num_completed} completed trials, {one.num_other} others.")
        parts: list[Part] = [counts, *([Text(one.note)] if one.note else [])]
        parts += [] if one.note else [Grid(for_people(columns, names))]
        return Block(f"search{one.arm}{one.repeat}", f"{one.arm}, search {one.repeat + 1}", parts)

    back = Block("study", "", [Facts([("study", Link(study.key, address(study.key)))])])
    found = importances(study.record, study.workspace.searches)
    return [back, *map(of, found), Block("reading", "", [Text(READING, "small")])]


def _share(share: float | None) -> str:
    return NONE if share is None else f"{share:.3f}"
