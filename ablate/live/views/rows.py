"""A page of a table of many arms; the base arm and the best are on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ablate.compare.formats import Table
from ablate.compare.judged import Judged
from ablate.compare.page.parts import Text
from ablate.compare.plots import chosen
from ablate.live.parts import PAGE, Part, pages


@dataclass(frozen=True)
class Rows:
    """The arms that a page of the table shows; `left_out` are on its other pages."""

    names: Sequence[str]  # of all arms, in the order of the table
    left_out: frozenset[str] = frozenset()
    links: Sequence[Part] = ()

    @property
    def shown(self) -> list[str]:
        """The names of the arms on this page."""
        return [name for name in self.names if name not in self.left_out]

    def of(self, table: Table) -> Table:
        """The study's table, and those below it, without the rows of other pages."""
        # Arms of a factorial are rows of levels, without their names.
        pairs = zip(self.names, table.rows, strict=True)
        rows = [row for name, row in pairs if name not in self.left_out]
        return replace(table, rows=rows, further=[*map(self.named, table.further)])

    def named(self, table: Table) -> Table:
        """A table whose rows start with an arm's name, without the rows of other pages."""
        names = (str(row[0]).partition(", less ")[0] for row in table.rows)
        pairs = zip(names, table.rows, strict=True)
        return replace(table, rows=[row for name, row in pairs if name not in self.left_out])


def chosen_rows(judged: Judged, number: int, address: str) -> Rows:
    """The arms of a page of the table; pages are numbered from 1."""
    names = [arm.name for arm in judged.arms]
    if len(names) <= PAGE:
        return Rows(names)
    on_each = chosen.arms(names, 2, judged)
    others = [name for name in names if name not in on_each]
    number = max(1, min(number, -(-len(others) // PAGE)))
    shown = {*on_each, *others[(number - 1) * PAGE : number * PAGE]}
    which = " and ".join(on_each)
    note = f"{len(names):,} arms, {PAGE} on a page; {which} (the base arm and the best) on each."
    links = pages(number, len(others), address, "rows", at="table")
    return Rows(names, frozenset(names) - shown, [Text(note, "small"), *links])
