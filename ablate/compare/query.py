"""`ablate query`: SQL over the mirror, for reading alone.

DuckDB answers. It is given the views of `ablate.mirror.views` and then shut in: no file but the
mirror's own, no network, no extension, and no setting that would undo this. One SELECT (or
EXPLAIN of one) is taken; whatever else is refused before it runs.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import difflib
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ablate.errors import ConfigError, StoreError, nearest
from ablate.layout import Grid, printable
from ablate.mirror import views
from ablate.mirror.syncing import Mirror, duckdb
from ablate.mirror.writing import literal

FORMATS = ("table", "csv", "json", "markdown")
READING = ("SELECT", "EXPLAIN")
INSTEAD = "`ablate query` reads and changes nothing: give one SELECT over " + ", ".join(views.VIEWS)
EXPLAIN = r"(?:\s|--[^\n\r]*[\n\r])*EXPLAIN\s*(?:ANALYZE\b|\(\s*(?:ANALYZE|FORMAT)\b[\w\s,]*\))?"
WIDEST = 60  # characters of a text that a table for the terminal shows
SHUT = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET python_enable_replacements = false",
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


@dataclass(frozen=True)
class Answer:
    """What a question found."""

    names: list[str]
    rows: list[tuple[Any, ...]]


class MirrorDamaged(StoreError):
    """A file of the mirror is not what was written: it has to be made again."""


@contextlib.contextmanager
def reading(mirror: Mirror, needed: Sequence[str] = views.VIEWS) -> Iterator[Any]:
    """A connection that sees the views and nothing else."""
    db = duckdb().connect(":memory:")
    try:
        paths = ", ".join(literal(path) for path in views.files(mirror))
        db.execute(f"SET allowed_paths = [{paths}]")
        with _from_files():
            views.make_views(db, mirror, needed)
        for setting in SHUT:
            db.execute(setting)
        yield db
    finally:
        db.close()


def ask(mirror: Mirror, sql: str) -> Answer:
    """The answer to one SELECT."""
    needed = [name for name in views.VIEWS if name in sql.lower()]
    with reading(mirror, needed) as db:
        _check(sql)
        try:
            with _from_files():
                found = db.execute(sql)
                return Answer([column[0] for column in found.description], found.fetchall())
        except duckdb().Error as error:
            raise ConfigError(_told(db, error)) from error


def _check(sql: str) -> None:
    """Refuse whatever is not one question."""
    try:
        statements = duckdb().extract_statements(sql)
    except duckdb().Error as error:
        raise ConfigError(_first_lines(error)) from error
    if len(statements) != 1:
        raise ConfigError(f"{len(statements)} statements were given. {INSTEAD}.")
    kind = statements[0].type.name
    if kind not in READING:
        hint = " (PIVOT needs its values: ON column IN (...))" if kind == "MULTI" else ""
        raise ConfigError(f"{kind} is refused{hint}. {INSTEAD}.")
    if kind == "EXPLAIN" and not _explains_reading(sql):
        raise ConfigError(f"EXPLAIN of anything but one SELECT is refused. {INSTEAD}.")


def _explains_reading(sql: str) -> bool:
    """ANALYZE runs what it explains, so that must be a SELECT too."""
    try:
        explained = duckdb().extract_statements(re.sub(EXPLAIN, "", sql, count=1, flags=re.I))
    except duckdb().Error:
        return False
    return [statement.type.name for statement in explained] == ["SELECT"]


@contextlib.contextmanager
def _from_files() -> Iterator[None]:
    """Tell damage from a wrong question: both come from DuckDB."""
    try:
        yield
    except (
        duckdb().IOException,
        duckdb().InvalidInputException,
        duckdb().SerializationException,
    ) as error:
        if re.search(r"parquet|thrift|decompress|snappy|magic|No files found", str(error), re.I):
            raise MirrorDamaged(str(error).split("\n")[0]) from error
        raise


def _told(db: Any, error: Exception) -> str:
    """What was wrong, in one message, with the nearest spelling where a name was."""
    text = str(error)
    if "file system operations are disabled" in text or "external extensions" in text.lower():
        return f"the question reads a file or the network, which is refused. {INSTEAD}."
    column = re.search(
        r'column "?([^"\n]+?)"? not found|does not have a column named "([^"]+)"', text
    )
    if column:
        return _no_column(db, column[1] or column[2])
    dotted = re.search(r"Cannot extract field '([^']+)' from expression \"([^\"]+)\"", text)
    if dotted:
        return _no_column(db, f"{dotted[2]}.{dotted[1]}")
    table = re.search(r"Table with name (\S+) does not exist", text)
    if table:
        return _no_table(table[1].rstrip("!"))
    if re.search(r"is not a[n]? table|can only (delete|update)", text, re.I):
        return f"a write is refused. {INSTEAD}."
    return _first_lines(error)


def _no_table(found: str) -> str:
    meant = nearest(found, views.VIEWS)
    hint = f"Did you mean {meant}?" if meant else f"There are: {', '.join(views.VIEWS)}."
    return f"query: unknown table '{found}'. {hint}"


def _no_column(db: Any, found: str) -> str:
    known = _columns(db)
    meant = nearest(found, known)
    if meant:
        hint = f"Did you mean {_as_written(meant)}?"
    else:
        hint = f"Nearest: {', '.join(map(_as_written, _likest(found, known)))}."
    return (
        f"query: unknown column '{found}'. {hint} `ablate query \"DESCRIBE trials\"` lists those "
        "of a table; a name with a dot needs double quotes."
    )


def _likest(found: str, known: Sequence[str], num: int = 4) -> list[str]:
    """The names most like it, as a whole, after the dot, or in initials (lr: learning_rate)."""

    def likeness(name: str) -> float:
        last = name.rpartition(".")[2]
        initials = "".join(word[:1] for word in last.split("_"))
        forms = (name, last, initials)
        return max(difflib.SequenceMatcher(None, found.lower(), form).ratio() for form in forms)

    return sorted(known, key=lambda name: (-likeness(name), name))[:num]


def _as_written(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else f'"{name}"'


def _columns(db: Any) -> list[str]:
    query = "SELECT DISTINCT column_name FROM duckdb_columns() WHERE table_name IN"
    views_named = ", ".join(map(literal, views.VIEWS))
    return [name for (name,) in db.execute(f"{query} ({views_named})").fetchall()]


def _first_lines(error: Exception) -> str:
    """DuckDB's message, and the place in the question that it points to."""
    message, _, place = str(error).partition("\n\n")
    text = " ".join(message.split())
    where = [line for line in place.splitlines() if line.startswith("LINE")]
    return f"query: {text}" + (f" ({' '.join(where[0].split())})" if where else "")


def shown(answer: Answer, form: str, width: int = 100) -> str:
    """The answer as a table for the terminal, CSV, JSON (a list of objects) or markdown."""
    writers = {"csv": _csv, "json": _json, "markdown": _markdown}
    return writers[form](answer) if form in writers else _table(answer, width)


def _table(answer: Answer, width: int) -> str:
    rows = [[_cell(value)[:WIDEST] for value in row] for row in answer.rows]
    if not answer.names:
        return ""
    numbers = [_numeric(answer, place) for place in range(len(answer.names))]
    left = [name for name, number in zip(answer.names, numbers, strict=True) if not number]
    lines = Grid(answer.names, rows, left=left).lines(10_000, "-")
    num = len(answer.rows)
    return "\n".join([*lines, f"({num} row{'' if num == 1 else 's'})"])


def _numeric(answer: Answer, place: int) -> bool:
    kinds = {type(row[place]) for row in answer.rows if row[place] is not None}
    return bool(kinds) and kinds <= {int, float}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return printable(str(value))


def _csv(answer: Answer) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.names)
    writer.writerows([["" if value is None else value for value in row] for row in answer.rows])
    return text.getvalue().rstrip("\n")


def _json(answer: Answer) -> str:
    rows = [dict(zip(answer.names, map(_plain, row), strict=True)) for row in answer.rows]
    return json.dumps(rows, indent=1, ensure_ascii=False, default=str)


def _plain(value: Any) -> Any:
    """What JSON has a word for; nan and inf as text, times as ISO 8601."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.isoformat() if isinstance(value, datetime.datetime | datetime.date) else value


def _markdown(answer: Answer) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rows = [[re.sub(r"([\\`*_|<>])", r"\\\1", _cell(v)) for v in row] for row in answer.rows]
    ruled = ["---:" if _numeric(answer, place) else "---" for place in range(len(answer.names))]
    titles = [re.sub(r"([\\`*_|<>])", r"\\\1", name) for name in answer.names]
    return "\n".join(map(line, (titles, ruled, *rows)))
