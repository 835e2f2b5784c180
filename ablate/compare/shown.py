"""A result that Python users get: text where it is printed, HTML in a notebook, a data frame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ablate.compare import formats
from ablate.compare.formats import Table
from ablate.compare.frames import frame


class Shown(ABC):
    """A result with a table for people and one of values."""

    @abstractmethod
    def table(self) -> Table:
        """Return the table as people read it."""

    @abstractmethod
    def values(self) -> Table:
        """Return the table as programs read it: every number unrounded."""

    def written(self, form: str = "text") -> str:
        """Return the result in a format of `ablate table`, such as markdown or csv."""
        table = self.values() if formats.is_exact(form) else self.table()
        return formats.writer(form).write(table)

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the values as a data frame of pandas, or of polars: `to_frame("polars")`."""
        return frame(self.values(), library)

    def __str__(self) -> str:
        return self.written()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return formats.writer("html").fragment(self.table())


@dataclass(frozen=True, repr=False)
class Answer(Shown):
    """What a query or a comparison found."""

    numbers: Table
    for_people: Callable[[], Table]  # made when somebody reads it
    text: Callable[[Table], str] = formats.writer("text").write
    notes: tuple[str, ...] = ()  # about the records that were read
    besides: tuple[str, ...] = ()  # what formats of values have no place for

    @cached_property
    def _table(self) -> Table:
        return self.for_people()

    def table(self) -> Table:
        """Return the result as people read it."""
        return self._table

    def values(self) -> Table:
        """Return the result as programs read it."""
        return self.numbers

    def written(self, form: str = "text") -> str:
        """Return the result in a format of `ablate table`."""
        return self.text(self.table()) if form == "text" else super().written(form)
