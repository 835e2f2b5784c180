"""Published results, table by table, as data: `ablate/papers/<id>.toml`.

    cells("takase2018doc", "Table 3", model="AWD-LSTM-DOC", split="test")

A cell says what the page says: the digits as printed, and whether the paper quotes the number
from elsewhere. A corpus that `ablate data` has goes by its name there; `corpus_name` is what cells
call the texts that the user brings.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from ablate.errors import ConfigError, unknown

_FOLDER = Path(__file__).parent
_BROUGHT = {  # (a folder's name, level) -> the corpus in the cells; that it is the text is believed
    ("text8", "character"): "text8 (characters)",
    ("text8", "word"): "text8 (words)",
    ("novels", "word"): "Project Gutenberg (Holmes)",
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of a table."""

    table: str
    model: str
    corpus: str
    metric: str
    value: float
    decimals: int  # as printed: 54.70 has two
    variant: str = ""
    split: str | None = None  # None: a quantity of the model, not of a split
    std: float | None = None
    parameters: float | None = None  # millions, as printed
    quoted: bool = False
    note: str = ""

    @property
    def printed(self) -> str:
        """The number as the page has it."""
        return f"{self.value:.{self.decimals}f}"


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper and the cells of its results tables, in their order."""

    id: str
    title: str
    authors: tuple[str, ...]
    venue: str
    year: int
    url: str
    cells: tuple[Cell, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.table for cell in self.cells))

    @property
    def citation(self) -> str:
        """Authors. Title. Venue Year. Address."""
        stop = "" if self.title.endswith("?") else "."
        names = ", ".join(self.authors)
        return f"{names}. {self.title}{stop} {self.venue} {self.year}. {self.url}"


def ids() -> list[str]:
    """Every paper there is."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


@cache
def load(paper: str) -> Paper:
    """A paper by its id."""
    if paper not in ids():
        raise ConfigError(unknown("paper", paper, ids()))
    text = (_FOLDER / f"{paper}.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text, parse_float=Decimal)
    tables = {name: data.pop(name)["cells"] for name in list(data) if isinstance(data[name], dict)}
    cells = tuple(_cell(name, cell) for name, rows in tables.items() for cell in rows)
    return Paper(id=paper, authors=tuple(data.pop("authors")), cells=cells, **data)


def cells(
    paper: str,
    table: str,
    model: str | None = None,
    variant: str | None = None,
    split: str | None = None,
) -> list[Cell]:
    """A table's cells, of one model, variant and split where these are given."""
    found = load(paper)
    if table not in found.tables:
        raise ConfigError(unknown("table", table, found.tables, paper))
    return [
        cell
        for cell in found.cells
        if cell.table == table
        and model in (None, cell.model)
        and variant in (None, cell.variant)
        and split in (None, cell.split)
    ]


def corpus_name(corpus: str, level: str) -> str:
    """What cells call the corpus that a study is run on: its own name, as a rule."""
    folder = Path(corpus.removeprefix("folder:")).name
    return _BROUGHT.get((folder, level), corpus)


def _cell(table: str, row: dict[str, Any]) -> Cell:
    numbers = {key: float(row[key]) for key in ("value", "std", "parameters") if key in row}
    exponent = row["value"].as_tuple().exponent if isinstance(row["value"], Decimal) else 0
    return Cell(table=table, decimals=-int(exponent), **{**row, **numbers})
