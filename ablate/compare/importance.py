"""How `ablate importance` is written: a table for each search, the most important row first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ablate.compare.figures import NONE
from ablate.layout import Grid, paragraph

READING = (
    "Shares of 1 by each evaluator. PED-ANOVA: what sets the best trials apart. fANOVA: what "
    "explains the spread of all of them. Trials stopped early are not counted."
)


class Importance(Protocol):
    """What `ablate.tune.importance` finds of one search."""

    @property
    def arm(self) -> str: ...
    @property
    def repeat(self) -> int: ...
    @property
    def num_completed(self) -> int: ...
    @property
    def num_other(self) -> int: ...
    @property
    def shares(self) -> Mapping[str, Mapping[str, float]]: ...
    @property
    def num_with(self) -> Mapping[str, int]: ...
    @property
    def note(self) -> str: ...


def plain_text(key: str, found: Sequence[Importance], width: int = 100) -> str:
    """The importances of a study's searches, for a terminal."""
    lines = [f"{key}: which hyperparameters mattered", ""]
    for each in found:
        search = f"{each.arm}, search {each.repeat}"
        lines.append(f"{search}: {each.num_completed} completed trials, {each.num_other} others")
        lines += [f"  {each.note}."] if each.note else _grid(each, width)
        lines.append("")
    return "\n".join([*lines, *paragraph(READING, width, "  ")])


def _grid(each: Importance, width: int) -> list[str]:
    names = sorted(each.num_with, key=lambda name: (-_most(each, name), name))
    titles = ["hyperparameter", *each.shares, "trials with it"]
    shares = each.shares.values()
    rows = [
        [name, *(_share(found.get(name)) for found in shares), str(each.num_with[name])]
        for name in names
    ]
    return Grid(titles, rows).lines(width, "-")


def _most(each: Importance, name: str) -> float:
    return sum(shares.get(name, 0.0) for shares in each.shares.values())


def _share(share: float | None) -> str:
    return NONE if share is None else f"{share:.3f}"
