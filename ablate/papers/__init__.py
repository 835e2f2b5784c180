"""Published results, table by table, as data: `ablate/papers/<id>.toml`.

    cells("takase2018doc", "Table 3", split="test")

A cell holds the digits as printed, and whether the paper quotes the number from elsewhere. Corpora
have the same names as in `ablate data`; `corpus_name` gives the cells' name for a user's own text.
A table's `same_as` names rows of other tables that are of the same system, and whose arms count for
its rows too. Its `absent` lists the systems that no shipped study has, and why. A table of words
has `words` instead of cells. A figure, or an experiment that the text describes without a table,
says in `shows` what can be read there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from ablate.errors import ConfigError, unknown

_FOLDER = Path(__file__).parent
_USER_TEXTS = {  # (name of the folder, level) -> the corpus in the cells; the text is not verified
    ("text8", "character"): "text8 (characters)",
    ("text8", "word"): "text8 (words)",
    ("iwslt2016-en-de", "word"): "IWSLT 2016 En-De",
    ("iwslt2016-de-en", "word"): "IWSLT 2016 De-En",
    ("iwslt2016-en-fr", "word"): "IWSLT 2016 En-Fr",
    ("iwslt2016-fr-en", "word"): "IWSLT 2016 Fr-En",
    ("headlines", "word"): "Headline generation (Zhou et al. 2017 test set)",
    ("novels", "word"): "Project Gutenberg (Holmes)",
    ("ptb_trees", "word"): "PTB constituency parsing (Section 23)",
}
_TRAINED_ON = {  # a corpus in the cells -> the corpus that is trained on, and its training tokens
    "PTB 20k-word slice": ("ptb", 20_000),
    "MSR Sentence Completion": ("Project Gutenberg (Holmes)", None),
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
    split: str | None = None  # None: a property of the model, not of a split
    std: float | None = None
    parameters: float | None = None  # millions, as printed
    quoted: bool = False
    not_comparable: str = ""  # why no arm's number is, even on the same corpus
    note: str = ""

    @property
    def printed(self) -> str:
        """The number as the page has it."""
        return f"{self.value:.{self.decimals}f}"


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words that a table lists for a model, in order, after an input word or a context."""

    table: str
    model: str
    corpus: str
    after: str
    words: tuple[str, ...]
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A system of a table on one corpus, with its cells: one for each split and metric.

    A row without cells is of a figure, a table of words or the text; `shows` says what is there.
    """

    table: str
    model: str
    variant: str
    corpus: str
    cells: tuple[Cell, ...]
    shows: str = ""
    same_as: tuple[str, ...] = ()  # paper, table, model, variant of another row of this system
    absent: str = ""  # why no shipped study has it

    @property
    def name(self) -> str:
        """The row as the paper names it."""
        return f"{self.model} {self.variant}".strip()


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper and the cells of its results tables, in order."""

    id: str
    title: str
    authors: tuple[str, ...]
    venue: str
    year: int
    url: str
    cells: tuple[Cell, ...]
    words: tuple[Words, ...]
    figures: tuple[Row, ...]  # what they show, a row for each model
    same_as: Mapping[tuple[str, ...], tuple[str, ...]]  # (table, model, variant) -> another row
    absent: Mapping[tuple[str | None, ...], str]  # (table, model, variant; None: all) -> why

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the paper's tables and figures, in order."""
        return tuple(dict.fromkeys(x.table for x in (*self.cells, *self.words, *self.figures)))


def ids() -> list[str]:
    """The ids of all papers."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


@cache
def load(paper: str) -> Paper:
    """A paper by its id."""
    if paper not in ids():
        raise ConfigError(unknown("paper", paper, ids()))
    text = (_FOLDER / f"{paper}.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text, parse_float=Decimal)
    # What is left are the paper's own fields: title, venue, year, address.
    tables = {name: data.pop(name) for name in list(data) if isinstance(data[name], dict)}
    cells = (_cell(name, cell) for name, table in tables.items() for cell in table.get("cells", ()))
    words = (_words(name, row) for name, table in tables.items() for row in table.get("words", ()))
    figures = (
        Row(table=name, cells=(), **{"variant": "", **row})
        for name, table in tables.items()
        for row in table.get("shows", ())
    )
    same_as = {
        (name, row["model"], row["variant"]): tuple(row["as"])
        for name, table in tables.items()
        for row in table.get("same_as", ())
    }
    absent = {
        (name, row["model"], row.get("variant")): row["why"]
        for name, table in tables.items()
        for row in table.get("absent", ())
    }
    return Paper(
        id=paper,
        authors=tuple(data.pop("authors")),
        cells=tuple(cells),
        words=tuple(words),
        figures=tuple(figures),
        same_as=same_as,
        absent=absent,
        **data,
    )


def rows(paper: str, table: str | None = None) -> list[Row]:
    """A paper's rows, or one table's: those of numbers, of words, and what figures show."""
    published = load(paper)
    if table is not None:
        _check_table(published, table)
        return [row for row in rows(paper) if row.table == table]
    grouped: dict[tuple[str, str, str, str], list[Cell]] = {}
    for cell in published.cells:
        grouped.setdefault((cell.table, cell.model, cell.variant, cell.corpus), []).append(cell)
    of_numbers = [
        Row(
            table=table,
            model=model,
            variant=variant,
            corpus=corpus,
            cells=tuple(row_cells),
            same_as=published.same_as.get((table, model, variant), ()),
            absent=published.absent.get((table, model, variant))
            or published.absent.get((table, model, None), ""),
        )
        for (table, model, variant, corpus), row_cells in grouped.items()
    ]
    return [*of_numbers, *_rows_of_words(published), *published.figures]


def _rows_of_words(published: Paper) -> list[Row]:
    grouped: dict[tuple[str, str, str], list[Words]] = {}
    for words in published.words:
        grouped.setdefault((words.table, words.model, words.corpus), []).append(words)
    return [
        Row(table=table, model=model, variant="", corpus=corpus, cells=(), shows=_shown(own))
        for (table, model, corpus), own in grouped.items()
    ]


def _shown(own: Sequence[Words]) -> str:
    """`5 words after each of: of, in, go`, with a context's last words only."""
    after = ", ".join(" ".join(words.after.partition(" + ")[0].split()[-3:]) for words in own)
    return f"{len(own[0].words)} words after each of: {after}"


def cells(paper: str, table: str, split: str | None = None) -> list[Cell]:
    """Return a table's cells, or the cells of one split."""
    published = load(paper)
    _check_table(published, table)
    return [c for c in published.cells if c.table == table and split in (None, c.split)]


def _check_table(published: Paper, table: str) -> None:
    if table not in published.tables:
        raise ConfigError(unknown("table", table, published.tables, published.id))


def words(paper: str, table: str) -> dict[str, list[Words]]:
    """The words of a table: for each input word or context, those of each model in order."""
    listed: dict[str, list[Words]] = {}
    for each in load(paper).words:
        if each.table == table:
            listed.setdefault(each.after, []).append(each)
    return listed


def corpus_name(corpus: str, level: str) -> str:
    """The cells' name for a study's corpus, usually the corpus's own name."""
    folder = Path(corpus.removeprefix("folder:")).name
    return _USER_TEXTS.get((folder, level), corpus)


def trained_on(corpus: str) -> tuple[str, int | None]:
    """The text that models of a cell's corpus train on, and how many of its tokens (None: all)."""
    return _TRAINED_ON.get(corpus, (corpus, None))


def _words(table: str, row: dict[str, Any]) -> Words:
    numbers = tuple(map(float, row.get("probabilities", ())))
    return Words(table=table, **{**row, "words": tuple(row["words"]), "probabilities": numbers})


def _cell(table: str, row: dict[str, Any]) -> Cell:
    numbers = {key: float(row[key]) for key in ("value", "std", "parameters") if key in row}
    exponent = row["value"].as_tuple().exponent if isinstance(row["value"], Decimal) else 0
    return Cell(table=table, decimals=-int(exponent), **{**row, **numbers})
