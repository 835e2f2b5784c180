"""Which settings mattered in a study's searches: the numbers of `ablate plot importance`."""

from __future__ import annotations

from ablate.compare.formats import Column, for_people
from ablate.compare.page.parts import Grid, Text
from ablate.live.followed import Followed
from ablate.live.parts import Block, Facts, Link, Part
from ablate.live.views.index import address


def blocks(study: Followed) -> list[Block]:
    """A table for each search, the most important setting first."""
    from ablate.tune.search.importance import READING, Importance, importances

    def of(one: Importance) -> Block:
        columns = [
            Column("setting", str, left=True),
            *(
                Column(evaluator, lambda name, evaluator=evaluator: one.shown(evaluator, name))
                for evaluator in one.shares
            ),
            Column("trials with it", one.num_with.__getitem__),
        ]  # fmt: skip
        counts = Text(f"{one.num_completed} completed trials, {one.num_other} others.")
        parts: list[Part] = [counts, *([Text(one.note)] if one.note else [])]
        parts += [] if one.note else [Grid(for_people(columns, one.ranked))]
        if one.floors:
            floors = (f"{floor:.3f} ({name})" for name, floor in one.floors.items())
            parts.append(Text(f"A random number gets at most {', '.join(floors)}.", "small"))
        return Block(f"search{one.arm}{one.repeat}", f"{one.arm}, search {one.repeat + 1}", parts)

    back = Block("study", "", [Facts([("study", Link(study.key, address(study.key)))])])
    found = importances(study.record, study.workspace.searches)
    return [back, *map(of, found), Block("reading", "", [Text(READING, "small")])]
