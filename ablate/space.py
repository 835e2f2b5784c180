"""Search spaces: the papers' tables of settings, as data.

    space = load("takase2018doc_table2")
    space.values("ptb")                      a recipe: {"optimizer.learning_rate": 20, ...}
    load("zaremba2014:large")                one column of it, whatever the corpus
    space.sample(suggest, "ptb")             one point of an open space; `suggest(row)` draws
    space.enumerate("ptb", points=3)         every combination there is

A row counts only where its `when` holds; a condition on a row that does not count never does.
A rule (`require`) binds two rows that both count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ablate import space_file
from ablate.config import DEFAULT_TECHNIQUES
from ablate.errors import SpaceError, unknown
from ablate.space_check import problems
from ablate.space_folders import find, folders
from ablate.space_links import Rule, in_order
from ablate.space_row import Choices, Fixed, Range, Row
from ablate.space_table import columns, render

Values = Mapping[str, Any]
Suggest = Callable[[Row], Any]


class SpaceViolation(SpaceError):
    """A sampled combination that the paper's own rules exclude: infeasible, ask again."""

    def __init__(self, space: Space, rules: list[str], values: dict[str, Any]) -> None:
        broken = next(rule for rule in space.rules if rule.text == rules[0])
        super().__init__(f"{broken.place}: these values break the rule '{broken.text}': {values}.")
        self.rules = rules
        self.values = values


@dataclass(frozen=True)
class _Given:
    """What is known before the file is read."""

    fixed: Values
    base: Values


@dataclass(frozen=True, kw_only=True)
class Space:
    """A file of rows, in the paper's order."""

    path: Path
    paper: str
    tables: tuple[str, ...]
    note: str
    rows: tuple[Row, ...]
    rules: tuple[Rule, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def corpora(self) -> tuple[str, ...]:
        """The corpora that the table has columns for; none where all values hold for any."""
        return next((tuple(row.by_corpus) for row in self.rows if row.by_corpus), ())

    @property
    def fields(self) -> frozenset[str]:
        """Every field that some row sets."""
        return frozenset(row.field for row in self.rows if row.field)

    @property
    def open(self) -> bool:
        """Whether anything is left to choose."""
        domains = (domain for row in self.rows for domain in row.domains)
        return any(not isinstance(domain, Fixed) for domain in domains)

    @property
    def identity(self) -> str:
        """What the file means: the same text whenever nothing but its prose or place changed."""
        return repr((self.rows, [rule.text for rule in self.rules]))

    @cached_property
    def order(self) -> tuple[Row, ...]:
        """The rows, each after those that it depends on."""
        return in_order(self.rows)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise SpaceError(unknown("row", name, [row.name for row in self.rows], f"{self.path}:1"))

    def open_rows(self, corpus: str | None = None) -> list[Row]:
        """The rows with something to choose, for one corpus, in the paper's order."""
        rows = [row.at(self._corpus(corpus)) for row in self.rows]
        return [row for row in rows if isinstance(row.domain, Choices | Range)]

    def at(self, column: str) -> Space:
        """The table as it stands in one of its columns."""
        if not self.corpora:
            raise SpaceError(
                f"{self.path}:1: the column '{column}' is asked for, and the table has none: its "
                "values hold for any corpus."
            )
        found = self._corpus(column)
        return replace(self, rows=tuple(row.at(found) for row in self.rows))

    def values(
        self, corpus: str | None = None, fixed: Values | None = None, base: Values | None = None
    ) -> dict[str, Any]:
        """What the file settles by itself; open rows, and rows that hang on them, are left out."""
        given = _Given(fixed or {}, base or {})
        return self._settled(next(self._assignments(corpus, given, lambda row: (None,))))

    def sample(
        self,
        suggest: Suggest,
        corpus: str | None = None,
        fixed: Values | None = None,
        base: Values | None = None,
    ) -> dict[str, Any]:
        """One point: `suggest(row)` gives a value for each open row that counts.

        `fixed` (by field or by row name) settles rows beforehand: nobody is asked about them.
        `base` settles nothing; it tells conditions about fields that the file does not have.
        Raises `SpaceViolation` where a rule is broken.
        """
        given = _Given(fixed or {}, base or {})
        chosen = self._assignments(corpus, given, lambda row: (_suggested(suggest, row),))
        return self._settled(next(chosen))

    def enumerate(
        self,
        corpus: str | None = None,
        fixed: Values | None = None,
        points: int | None = None,
        base: Values | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Every combination that the rules allow; of a range, `points` values end to end."""
        if points is not None and points < 2:
            raise SpaceError(
                f"{self.path}:1: points = {points} is not allowed. Allowed: 2 or more."
            )
        given = _Given(fixed or {}, base or {})
        every = self._assignments(corpus, given, lambda row: _points(row, points), skip=True)
        return (self._flat(assigned) for assigned in every)

    def violated(self, values: Values) -> list[str]:
        """The rules that values (by row name or by field) break."""

        def lookup(name: str) -> Any:
            if name in values:
                return values[name]
            fields = [row.field for row in self.rows if row.name == name and row.field]
            names = [row.name for row in self.rows if row.field == name]
            return next((values[key] for key in (*fields, *names) if key in values), None)

        broken = (r for r in self.rules if any(c.holds(lookup) is False for c in r.clauses))
        return [rule.text for rule in broken]

    def check(self) -> None:
        """Refuses a field or value that the registry does not have (imports the techniques)."""
        for problem in problems(self.rows):
            raise SpaceError(problem)

    def problems(self) -> list[str]:
        """What `check` would refuse, one text for each row concerned."""
        return list(problems(self.rows))

    def render(self, width: int = 100) -> str:
        """The file as its paper's table."""
        title = f"{self.name}: {self.paper}, {', '.join(self.tables)}".rstrip(", ")
        rules = [rule.text for rule in self.rules]
        return render(title, self.note, self.rows, rules, self.corpora, width)

    def _assignments(
        self,
        corpus: str | None,
        given: _Given,
        options: Callable[[Row], Iterable[Any]],
        skip: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Row name -> value, every way that `options` gives; `skip` those that break a rule."""
        rows = [row.at(self._corpus(corpus)) for row in self.order]

        def settled_from(index: int, assigned: dict[str, Any]) -> Iterator[dict[str, Any]]:
            if skip and self.violated(assigned):
                return
            if index == len(rows):
                yield assigned
                return
            for value in self._candidates(rows[index], assigned, given, options):
                more = assigned if value is None else {**assigned, rows[index].name: value}
                yield from settled_from(index + 1, more)

        return settled_from(0, {})

    def _candidates(
        self,
        row: Row,
        assigned: dict[str, Any],
        given: _Given,
        options: Callable[[Row], Iterable[Any]],
    ) -> Iterable[Any]:
        if not all(clause.holds(self._lookup(row, assigned, given)) for clause in row.when):
            return (None,)
        for key in (row.name, row.field):
            if key is not None and key in given.fixed:
                return (given.fixed[key],)
        if row.same_as is not None:
            return (assigned.get(row.same_as),)
        return (row.domain.value,) if isinstance(row.domain, Fixed) else options(row)

    def _lookup(self, asking: Row, assigned: dict[str, Any], given: _Given) -> Callable[[str], Any]:
        def lookup(name: str) -> Any:
            rows = [row for row in self.rows if name in (row.name, row.field)]
            if rows:
                return next((assigned[row.name] for row in rows if row.name in assigned), None)
            known = {**DEFAULT_TECHNIQUES, **given.base, **given.fixed}
            if name not in known:
                raise SpaceError(
                    f"{asking.place}: when '{asking.condition}' needs '{name}', which no row of "
                    f"this file sets. Give it in the base or in the arm."
                )
            return known[name]

        return lookup

    def _settled(self, assigned: dict[str, Any]) -> dict[str, Any]:
        values = self._flat(assigned)
        broken = self.violated(assigned)
        if broken:
            raise SpaceViolation(self, broken, values)
        return values

    def _flat(self, assigned: dict[str, Any]) -> dict[str, Any]:
        """By field, in the paper's order."""
        setters: dict[str, Row] = {}
        for row in self.rows:
            if row.field is None or row.name not in assigned:
                continue
            earlier = setters.setdefault(row.field, row)
            if earlier is not row:
                raise SpaceError(
                    f"{row.place}: field '{row.field}' is set by row '{earlier.name}' (line "
                    f"{earlier.line}) at the same time. Allowed: conditions that exclude each "
                    "other."
                )
        return {field: assigned[row.name] for field, row in setters.items()}

    def _corpus(self, corpus: str | None) -> str | None:
        if self.corpora and corpus not in self.corpora:
            place = f"{self.path}:1: the values differ by corpus"
            raise SpaceError(unknown("corpus", corpus, self.corpora, place))
        return corpus


def load(name_or_path: str | Path, near: Path | None = None) -> Space:
    """The space of a file, or of a bare name (see `folders`); `near` is the study's file.

    `name:column` is that column of it alone: a table may have one for each size of a model.
    """
    name, _, column = str(name_or_path).partition(":")
    path = find(name, near)
    space = Space(path=path, **vars(space_file.read(path)))
    return space.at(column) if column else space


@dataclass(frozen=True)
class Entry:
    """A space as a list shows it; `problem` says why it could not be read."""

    name: str
    path: Path
    paper: str = ""
    tables: tuple[str, ...] = ()
    num_rows: int = 0
    open: bool = False
    problem: str = ""


def index(near: Path | None = None) -> list[Entry]:
    """Every space that a bare name can mean, by name."""
    found: dict[str, Path] = {}
    for folder in folders(near):
        for path in folder.glob("*.toml"):
            found.setdefault(path.stem, path)
    return [_entry(path) for _, path in sorted(found.items())]


def render_index(width: int = 100) -> str:
    """The list of every space, as plain text."""
    header = ["Name", "Paper", "Rows", "Kind", "Tables"]
    entries = index()
    rows = [
        [e.name, e.paper, str(e.num_rows), "open" if e.open else "fixed", ", ".join(e.tables)]
        if not e.problem
        else [e.name, "", "", "broken", e.problem]
        for e in entries
    ]
    return "\n".join(columns(header, rows, width)) + "\n"


def _entry(path: Path) -> Entry:
    try:
        space = load(path)
    except SpaceError as error:
        return Entry(path.stem, path, problem=str(error))
    return Entry(space.name, path, space.paper, space.tables, len(space.rows), space.open)


def _suggested(suggest: Suggest, row: Row) -> Any:
    value = suggest(row)
    if row.domain is None or not row.domain.admits(value):
        raise SpaceError(f"{row.place}: {value!r} was suggested. Allowed: {row.domain}.")
    return value


def _points(row: Row, num: int | None) -> Iterable[Any]:
    points = row.domain.points(num) if isinstance(row.domain, Choices | Range) else ()
    if points is None:
        raise SpaceError(
            f"{row.place}: the range {row.domain} is continuous and cannot be enumerated. "
            "Say how many points of it to take, or fix it."
        )
    return points
