"""Search spaces: the papers' tables of settings, as data.

    space = load("takase2018doc_table2")
    space.values("ptb")                      a recipe: {"optimizer.learning_rate": 20, ...}
    load("zaremba2014:large")                one column of it, whatever the corpus
    space.sample(suggest, "ptb")             one point of an open space; `suggest(row)` draws

A row is active only if its `when` holds; a condition on an inactive row never holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ablate.config.registry import defaults
from ablate.errors import SpaceError, unknown, wrong_value
from ablate.space.check import problems
from ablate.space.file import SpaceFile, parsed, read
from ablate.space.folders import find, folders, here
from ablate.space.links import sort_by_dependency
from ablate.space.row import Choices, Fixed, Range, Row
from ablate.space.text import Inline

INLINE = "the study"  # stands for the paper of a space that a study has in its own file

Values = Mapping[str, Any]
Suggest = Callable[[Row], Any]


@dataclass(frozen=True, kw_only=True)
class Space(SpaceFile):
    """A file of rows, in the paper's order."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the space's file."""
        return self.path.stem

    @property
    def corpora(self) -> tuple[str, ...]:
        """The corpora that the table has columns for; empty if all values hold for any corpus."""
        return next((tuple(row.by_corpus) for row in self.rows if row.by_corpus), ())

    @property
    def fields(self) -> frozenset[str]:
        """Every field that a row sets."""
        return frozenset(row.field for row in self.rows if row.field)

    @property
    def open(self) -> bool:
        """True if a row has more than one possible value."""
        domains = (domain for row in self.rows for domain in row.domains)
        return any(not isinstance(domain, Fixed) for domain in domains)

    @property
    def identity(self) -> str:
        """The meaning of the file: unchanged if only its prose or its path changes."""
        return repr((self.rows, []))  # the list is where version 0.1.0 had rules between rows

    @cached_property
    def order(self) -> tuple[Row, ...]:
        """The rows, each after its dependencies."""
        return sort_by_dependency(self.rows)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise SpaceError(unknown("row", name, [row.name for row in self.rows], f"{self.path}:1"))

    def open_rows(self, corpus: str | None = None) -> list[Row]:
        """Return the rows with more than one possible value, in the paper's order."""
        rows = [row.at(self._corpus(corpus)) for row in self.rows]
        return [row for row in rows if isinstance(row.domain, Choices | Range)]

    def at(self, column: str) -> Space:
        """Return the table reduced to one of its columns."""
        if not self.corpora:
            raise SpaceError(
                f"{self.path}:1: there is no column '{column}': the table has no columns, and its "
                "values hold for any corpus."
            )
        corpus = self._corpus(column)
        return replace(self, rows=tuple(row.at(corpus) for row in self.rows))

    def values(self, corpus: str | None = None, fixed: Values | None = None) -> dict[str, Any]:
        """Return the values that the file fixes, without open rows and rows that depend on them."""
        return self._flat(self._assigned(corpus, fixed, None, lambda row: None))

    def sample(
        self,
        suggest: Suggest,
        corpus: str | None = None,
        fixed: Values | None = None,
        base: Values | None = None,
    ) -> dict[str, Any]:
        """Return one point: `suggest(row)` gives a value for each active open row.

        `fixed` (by field or by row name) sets rows without a call of `suggest`. `base` sets no row;
        it provides fields that conditions need and the file does not have.
        """
        return self._flat(self._assigned(corpus, fixed, base, lambda row: _checked(suggest, row)))

    def excludes(self, row: Row, fixed: Values, base: Values) -> bool:
        """Return whether these values make the row inactive, whatever is chosen for other rows."""

        def lookup(name: str) -> Any:
            rows = self._rows_called(name)
            known = [key for row in rows for key in row.keys if key in fixed]
            if known:
                return fixed[known[0]]
            if rows:  # an open row may get any value, so nothing is certain of it
                return next((r.domain.value for r in rows if isinstance(r.domain, Fixed)), None)
            return {**defaults(), **base}.get(name)

        return any(clause.holds(lookup) is False for clause in row.when)

    def check(self) -> None:
        """Raise for a field or value that the registry does not have (imports the techniques)."""
        for problem in problems(self.rows, self.task):
            raise SpaceError(problem)

    def _rows_called(self, name: str) -> list[Row]:
        """The rows with this name, or that set this field."""
        return [row for row in self.rows if name in row.keys]

    def _assigned(
        self, corpus: str | None, fixed: Values | None, base: Values | None, suggest: Suggest
    ) -> dict[str, Any]:
        """Return the value of each active row by the row's name; `suggest` gives those of open
        rows, or None for no value."""
        outside = {**defaults(), **(base or {}), **(fixed or {})}
        assigned: dict[str, Any] = {}
        for row in (row.at(self._corpus(corpus)) for row in self.order):
            if all(clause.holds(self._lookup(row, assigned, outside)) for clause in row.when):
                value = _value(row, assigned, fixed or {}, suggest)
                assigned |= {} if value is None else {row.name: value}
        return assigned

    def _lookup(self, row: Row, assigned: Values, outside: Values) -> Callable[[str], Any]:
        """Return the function that looks up a condition's names: rows so far, then other fields."""

        def lookup(name: str) -> Any:
            rows = self._rows_called(name)
            if rows:
                # None if all of these are inactive: then the condition does not hold.
                return next((assigned[row.name] for row in rows if row.name in assigned), None)
            if name not in outside:
                raise SpaceError(
                    f"{row.where}: when '{row.condition}' needs '{name}', which no row of this "
                    "file sets. Set it in the base or in the arm."
                )
            return outside[name]

        return lookup

    def _flat(self, assigned: dict[str, Any]) -> dict[str, Any]:
        """Return the values by field, in the paper's order."""
        setters: dict[str, Row] = {}
        for row in self.rows:
            if row.field is None or row.name not in assigned:
                continue
            earlier = setters.setdefault(row.field, row)
            if earlier is not row:
                raise SpaceError(
                    f"{row.where}: field '{row.field}' is set by row '{earlier.name}' (line "
                    f"{earlier.line}) at the same time. Instead: use conditions that exclude each "
                    "other."
                )
        return {field: assigned[row.name] for field, row in setters.items()}

    def _corpus(self, corpus: str | None) -> str | None:
        if self.corpora and corpus not in self.corpora:
            where = f"{self.path}:1: the values differ by corpus"
            raise SpaceError(unknown("corpus", corpus, self.corpora, where))
        return corpus


def load(name_or_path: str | Path, near: Path | None = None) -> Space:
    """Load a space by path or bare name (see `folders`); `near` is the study's file.

    `name:column` loads one column: a table may have one for each size of a model.
    """
    name, _, column = str(name_or_path).partition(":")
    path = find(name, near)
    space = Space(path=path, **vars(read(path)))
    return space.at(column) if column else space


def inline(rows: Mapping[str, Any], path: Path, task: str = "") -> Space:
    """Make a space of the rows that a study has in its own file, written as those of a space's.

    `task` is the study's, whose fields the rows set; "": a language model's.
    """
    for name, row in rows.items():
        if not isinstance(row, Mapping):
            expected = '{"field": ..., "range": ...}, as in a file of a space'
            raise SpaceError(wrong_value(f"row '{name}'", row, expected, f"{path}: space"))
    top = {"task": task} if task else {"paper": INLINE, "tables": []}
    return Space(path=path, **vars(parsed({**top, **_plain(rows)}, path, Inline(path))))


def _plain(value: Any) -> Any:
    """Rows as TOML would give them: Python's are often written with tuples."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value


def index() -> dict[str, Space | SpaceError]:
    """Return every space that can be loaded by a bare name, or the error that prevents it."""
    # From the farthest folder to the nearest, whose file of a name counts.
    paths = {path.stem: path for folder in reversed(folders()) for path in folder.glob("*.toml")}
    known = {name: _load_or_error(path) for name, path in sorted(paths.items())}
    # A TOML file in the working folder may be anything: what is no space is left out.
    near = {path.stem: _load_or_error(path) for path in here() if path.stem not in known}
    return {**known, **{name: found for name, found in near.items() if isinstance(found, Space)}}


def _load_or_error(path: Path) -> Space | SpaceError:
    try:
        return load(path)
    except SpaceError as error:
        return error


def _value(row: Row, assigned: Values, fixed: Values, suggest: Suggest) -> Any:
    """Return an active row's value, given the values of the rows before it; None without one."""
    for key in row.keys:
        if key in fixed:
            return fixed[key]
    if row.same_as is not None:
        return assigned.get(row.same_as)
    return row.domain.value if isinstance(row.domain, Fixed) else suggest(row)


def _checked(suggest: Suggest, row: Row) -> Any:
    value = suggest(row)
    if row.domain is None or not row.domain.admits(value):  # a sampler may be a user's
        raise SpaceError(f"{row.where}: {value!r} was suggested. Expected: {row.domain}.")
    return value
