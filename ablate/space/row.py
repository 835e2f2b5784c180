"""A row of a search space: the field it sets, and its possible values.

    Fixed     one value                      a recipe's row
    Choices   one of several                 open
    Range     from one number to another     open; both ends included

A row's values may differ by corpus (`by_corpus`); `row.at(corpus)` is the row for one corpus.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ablate.space.conditions import Clause, is_number, same


@dataclass(frozen=True)
class Fixed:
    """A single value."""

    value: Any

    @property
    def ends(self) -> tuple[Any, ...]:
        """The value alone."""
        return (self.value,)

    def admits(self, value: Any) -> bool:
        """Return whether the value is this one."""
        return same(value, self.value)

    def __str__(self) -> str:
        return format_value(self.value)


@dataclass(frozen=True)
class Choices:
    """One of these, in the paper's order."""

    values: tuple[Any, ...]

    @property
    def ends(self) -> tuple[Any, ...]:
        """All choices."""
        return self.values

    def admits(self, value: Any) -> bool:
        """Return whether the value is a choice."""
        return any(same(value, choice) for choice in self.values)

    def __str__(self) -> str:
        return " | ".join(format_value(value) for value in self.values)


@dataclass(frozen=True)
class Range:
    """Any number from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = False
    integer: bool = False

    @property
    def ends(self) -> tuple[Any, ...]:
        """The lowest and the highest value."""
        kind = int if self.integer else float  # a file may write 1 for 1.0
        return (kind(self.low), kind(self.high))

    def admits(self, value: Any) -> bool:
        """Return whether the value is a number in the range, whole if the range is."""
        if not is_number(value) or (self.integer and value != int(value)):
            return False
        return self.low <= value <= self.high

    def __str__(self) -> str:
        kinds = ["whole"] if self.integer else []
        kinds += ["log scale"] if self.log else []
        return ", ".join([f"{format_value(self.low)} .. {format_value(self.high)}", *kinds])


Domain = Fixed | Choices | Range


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row, named as in the paper. Its repr (part of ids) contains only what it means."""

    name: str
    line: int = dataclasses.field(repr=False, compare=False)
    where: str = dataclasses.field(
        repr=False, compare=False
    )  # "file:line: row 'name'", for an error
    field: str | None = None  # None: only a name that other rows refer to
    domain: Domain | None = None  # None: tied to another row, or different for each corpus
    by_corpus: Mapping[str, Domain] = dataclasses.field(default_factory=dict)
    same_as: str | None = None
    when: tuple[Clause, ...] = ()
    condition: str = ""  # the text of `when`
    description: str = dataclasses.field(default="", repr=False)
    marker: str = dataclasses.field(default="", repr=False)
    note: str = dataclasses.field(default="", repr=False)
    source: str = dataclasses.field(default="", repr=False)
    printed: bool = dataclasses.field(default=True, repr=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the row's value: its own, and the field that it sets."""
        return (self.name,) if self.field is None else (self.name, self.field)

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The row's domains, over all corpora."""
        return (self.domain,) if self.domain else tuple(self.by_corpus.values())

    def at(self, corpus: str | None) -> Row:
        """Return the row for one corpus."""
        if not self.by_corpus or corpus is None:
            return self
        return replace(self, domain=self.by_corpus[corpus], by_corpus={})


def format_value(value: Any) -> str:
    """Format a value as in a paper's table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(format_value(item) for item in value) + ")"
    # Papers print 1e-5, and Python 1e-05.
    return repr(value).replace("e-0", "e-") if isinstance(value, float) else str(value)
