"""`ablate query`: read-only SQL over the mirror, run by DuckDB.

DuckDB gets the views of `ablate.record.mirror.views` and is then locked down: no file except the
mirror's, no network, no extension, and no setting that would undo this. One SELECT (or an EXPLAIN
of one) is accepted; anything else is refused before it runs. What takes too long, needs too much
memory or returns too many rows is stopped.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ablate.compare import formats
from ablate.compare.formats import Table, table_of_values, text
from ablate.compare.text.plain import printable
from ablate.config.fields import is_text
from ablate.errors import ConfigError, StillRunning, StoreError, nearest
from ablate.record.mirror import views
from ablate.record.mirror.files import Damaged
from ablate.record.mirror.syncing import Mirror, duckdb
from ablate.record.mirror.writing import literal
from ablate.store.replication import counted

T = TypeVar("T")
READING = ("SELECT", "EXPLAIN")
DESCRIBE = '`ablate query "DESCRIBE trials"` lists the columns of a table'
INSTEAD = "`ablate query` only reads and changes nothing. Instead: one SELECT over " + ", ".join(
    views.VIEWS
)
EXPLAIN = r"(?:\s|--[^\n\r]*[\n\r])*EXPLAIN\s*(?:ANALYZE\b|\(\s*(?:ANALYZE|FORMAT)\b[\w\s,]*\))?"
ZONED = r"TIMESTAMP(?: WITH TIME ZONE|TZ(_NS)?)"  # types of times with a zone
WIDEST = 60  # characters of a text that a terminal shows
MOST_SECONDS, MOST_ROWS, MEMORY = 60.0, 1_000_000, "4GB"
GRACE_SECONDS = 2.0  # in which DuckDB stops, if it can
FEWER = "Instead: a condition (WHERE) or a LIMIT that asks for less."
SHUT = (  # the lock comes last: after it, no setting can be changed
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET python_enable_replacements = false",  # else a table may be a variable of this process
    "SET temp_directory = ''",  # what does not fit in memory is stopped, not written to the disk
    f"SET memory_limit = '{MEMORY}'",
    "SET TimeZone = 'UTC'",  # that of the runs, with which now() is compared
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


class MirrorDamaged(StoreError):
    """A file of the mirror is damaged: it has to be built again."""


@contextlib.contextmanager
def reading(mirror: Mirror, needed: Sequence[str] = views.VIEWS) -> Iterator[Any]:
    """A connection that sees the views and nothing else."""
    db = duckdb().connect(":memory:")
    with _closed(db):
        paths = ", ".join(literal(path) for path in views.files(mirror))
        # Before SHUT: without access to files, DuckDB takes no further paths.
        db.execute(f"SET allowed_paths = [{paths}]")
        with _from_whole_files(mirror):
            views.make_views(db, mirror, needed)
            for setting in SHUT:
                db.execute(setting)
            yield db


@contextlib.contextmanager
def _closed(db: Any) -> Iterator[None]:
    """Close a connection at the end, unless a query still runs: closing would wait for it."""
    try:
        yield
    except StillRunning:
        raise
    except BaseException:
        db.close()
        raise
    db.close()


def ask(mirror: Mirror, sql: str) -> Table:
    """The result of one SELECT."""
    needed = [name for name in views.VIEWS if name in sql.lower()]  # at worst one too many
    with reading(mirror, needed) as db:
        _check(sql)
        try:
            with _from_whole_files(mirror), _out_of_memory():
                names, rows = _in_time(db, lambda: _fetched(db, sql))
        except duckdb().Error as error:
            raise ConfigError(_explained(db, error)) from error
    if len(rows) > MOST_ROWS:
        raise ConfigError(f"query: there are more than {MOST_ROWS:,} rows, the limit. {FEWER}")
    return table_of_values(names, rows)


def _fetched(db: Any, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    result = db.sql(sql)
    # One more than the limit tells that there are more.
    return result.columns, _in_utc(result).limit(MOST_ROWS + 1).fetchall()


def _in_time(db: Any, work: Callable[[], T]) -> T:
    """Stop a query that would not end.

    DuckDB stops between rows, and one function of one row may take minutes. Its thread is then left
    behind, and ends with the process.
    """
    ended: list[Callable[[], T]] = []

    def run() -> None:
        try:
            result = work()
            ended.append(lambda: result)
        except BaseException as error:  # raised again by the thread that waits
            ended.append(functools.partial(_raise, error))

    thread = threading.Thread(target=run, daemon=True, name="ablate-query")
    thread.start()
    thread.join(MOST_SECONDS)
    if thread.is_alive():
        db.interrupt()
        thread.join(GRACE_SECONDS)
        raise (StillRunning if thread.is_alive() else ConfigError)(
            f"query: stopped after {MOST_SECONDS:g} seconds, the limit. {FEWER}"
        )
    return ended[0]()


def _raise(error: BaseException) -> Any:
    raise error


@contextlib.contextmanager
def _out_of_memory() -> Iterator[None]:
    """Name the limit in the error: DuckDB raises it for the setting in SHUT."""
    try:
        yield
    except duckdb().OutOfMemoryException as error:
        raise ConfigError(f"query: it needs more than {MEMORY}, the limit. {FEWER}") from error


def _in_utc(result: Any) -> Any:
    """Times with a zone as times in UTC: for zones, DuckDB needs pytz, which is not among its
    dependencies."""
    plain = [re.sub(ZONED, r"TIMESTAMP\1", str(kind)) for kind in result.types]
    if plain == list(map(str, result.types)):
        return result
    columns = (
        f"#{index}" if kind == str(before) else f"CAST(#{index} AS {kind})"
        for index, (kind, before) in enumerate(zip(plain, result.types, strict=True), 1)
    )
    return result.project(", ".join(columns))


def _check(sql: str) -> None:
    """Refuse anything but one SELECT."""
    if not is_text(sql):
        raise ConfigError("query: it is not valid UTF-8, or has a zero byte.")
    try:
        statements = duckdb().extract_statements(sql)
    except duckdb().Error as error:
        raise ConfigError(_first_lines(error)) from error
    if len(statements) != 1:
        raise ConfigError(f"{len(statements)} statements were given. {INSTEAD}.")
    kind = _kind_of(statements[0])
    if kind not in READING:
        hint = " (PIVOT needs its values: ON column IN (...))" if kind == "MULTI" else ""
        raise ConfigError(f"{kind} is refused{hint}. {INSTEAD}.")
    if kind == "EXPLAIN" and not _explains_reading(sql):
        raise ConfigError(f"EXPLAIN of anything but one SELECT is refused. {INSTEAD}.")


def _kind_of(statement: Any) -> str:
    try:
        return statement.type.name
    except ValueError:  # a kind of statement for which DuckDB's Python module has no name
        return "That statement"


def _explains_reading(sql: str) -> bool:
    """Return whether ANALYZE explains a SELECT: ANALYZE runs the statement that it explains."""
    try:
        explained = duckdb().extract_statements(re.sub(EXPLAIN, "", sql, count=1, flags=re.I))
    except duckdb().Error:
        return False
    return [_kind_of(statement) for statement in explained] == ["SELECT"]


@contextlib.contextmanager
def _from_whole_files(mirror: Mirror) -> Iterator[None]:
    """Tell a damaged file from a wrong query, for which DuckDB raises the same errors."""
    try:
        yield
    except duckdb().Error as error:
        try:
            mirror.folder.check(mirror.manifest, again=True)
        except Damaged as damage:
            raise MirrorDamaged(str(damage)) from error
        raise


def _explained(db: Any, error: Exception) -> str:
    """Return the error of a query, with the nearest spelling of an unknown name."""
    text = str(error)
    if "file system operations are disabled" in text or "external extensions" in text.lower():
        return f"the query reads a file or the network, which is refused. {INSTEAD}."
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


def _no_table(name: str) -> str:
    meant = nearest(name, views.VIEWS)
    hint = f"Did you mean '{meant}'?" if meant else f"Expected one of: {', '.join(views.VIEWS)}."
    return f"query: unknown table '{name}'. {hint}"


def _no_column(db: Any, name: str) -> str:
    known = _columns(db)
    if tables := known.get(name):  # of another table, or hidden by a subquery
        return (
            f"query: '{name}' is a column of {' and '.join(tables)}, and not of what it is taken "
            f"from here. {DESCRIBE}."
        )
    meant = nearest(name, known)
    similar = ", ".join(map(_as_written, _most_similar(name, known)))
    hint = f"Did you mean {_as_written(meant)}?" if meant else f"Nearest: {similar}."
    return (
        f"query: unknown column '{name}'. {hint} {DESCRIBE}; a name with a dot needs double quotes."
    )


def _most_similar(unknown: str, known: Iterable[str], num: int = 4) -> list[str]:
    """The most similar names: as a whole, after the dot, or by initials (lr: learning_rate)."""

    def likeness(name: str) -> float:
        last = name.rpartition(".")[2]
        initials = "".join(word[:1] for word in last.split("_"))
        forms = (name, last, initials)
        return max(difflib.SequenceMatcher(None, unknown.lower(), form).ratio() for form in forms)

    return sorted(known, key=lambda name: (-likeness(name), name))[:num]


def _as_written(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else f'"{name}"'


def _columns(db: Any) -> dict[str, list[str]]:
    """The tables that have a column, by its name."""
    query = "SELECT column_name, list(table_name ORDER BY table_name) FROM duckdb_columns()"
    views_named = ", ".join(map(literal, views.VIEWS))
    named = f"{query} WHERE table_name IN ({views_named}) GROUP BY column_name"
    return dict(db.execute(named).fetchall())


def _first_lines(error: Exception) -> str:
    """DuckDB's message, and the line of the query that it points to."""
    message, _, context = str(error).partition("\n\n")
    lines = [line for line in context.splitlines() if line.startswith("LINE")]
    where = f" ({' '.join(lines[0].split())})" if lines else ""
    return f"query: {' '.join(message.split())}{where}"


def written(answer: Table, form: str) -> str:
    """The answer in one of the formats; in a terminal, long texts are cut."""
    if form != "text":
        return formats.writer(form).write(answer)
    return "\n\n".join(_in_terminal(table) for table in (answer, *answer.further))


def _in_terminal(answer: Table) -> str:
    if not answer.columns:
        return ""
    rows = [[printable(formats.text_of(cell))[:WIDEST] for cell in row] for row in answer.rows]
    lines = text.lines(replace(answer, rows=rows), text.terminal_width(text.UNLIMITED))
    return "\n".join([*lines, f"({counted(len(rows), 'row')})"])
