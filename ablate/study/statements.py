"""The statements at the top of a script or of a notebook's cells, and the names in them."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import linecache
import math
import symtable
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from ablate.config.tasks import MAIN
from ablate.redaction import redacted

LONGEST = 10_000  # characters of a value that is written down


@dataclass(frozen=True)
class Written:
    """A statement, and the lines that it is on."""

    text: str
    lines: range

    @cached_property
    def _table(self) -> symtable.SymbolTable:
        return symtable.symtable(self.text, "<statement>", "exec")

    @property
    def binds(self) -> set[str]:
        """The names to which the statement gives a value."""
        symbols = self._table.get_symbols()
        return {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}

    @cached_property
    def reads(self) -> set[str]:
        """The names whose values are read when the statement is executed, class bodies included."""
        return set(_read(self._table, called=False))

    @cached_property
    def later(self) -> set[str]:
        """The names that its functions read when they are called."""
        return set(_read(self._table, called=True))

    @property
    def is_future(self) -> bool:
        """Return whether it imports from `__future__`, which must come first."""
        return self.text.startswith("from __future__ ")

    @property
    def is_star(self) -> bool:
        """Return whether it imports all names of a module."""
        return self.text.startswith("from ") and self.text.endswith("*")


def _read(table: symtable.SymbolTable, called: bool, inside: bool = False) -> Iterator[str]:
    """The module's names that a block reads, at once or in functions that are `called`."""
    inside = inside or table.get_type() == "function"
    if inside == called:
        top = table.get_type() == "module"
        symbols = (s for s in table.get_symbols() if s.is_referenced() and (top or s.is_global()))
        yield from (symbol.get_name() for symbol in symbols)
    for child in table.get_children():
        yield from _read(child, called, inside)


def cells() -> list[Written]:
    """All statements of the script, then those of the notebook's cells as they were executed."""
    main = vars(sys.modules[MAIN])
    script = _source(main["__file__"]) if main.get("__file__") else ""
    history = main.get("In")  # IPython's
    texts = [script, *(history if isinstance(history, list) else _of_console())]
    return [statement for text in texts for statement in written(str(text))]


def _of_console() -> list[str]:
    """What was typed at the prompt of Python 3.13 and later."""
    names = [name for name in linecache.cache if name.startswith("<python-input-")]
    return [_source(name) for name in names]


def _source(file: str) -> str:
    """The text of a file or a cell, as it is now."""
    linecache.checkcache(file)
    return "".join(linecache.getlines(file))


def of_line(file: str, line: int) -> Written | None:
    """The statement at the top of a file or cell that this line is in."""
    statements = written(_source(file))
    return next((each for each in statements if line in each.lines), None)


def written(text: str) -> list[Written]:
    """The statements of a text; none if it is not Python."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return []
    source = text.encode().splitlines(keepends=True)  # `ast` counts columns in bytes of UTF-8
    return [_written(node, source) for node in body if not _is_guard(node)] + [
        Written(ast.unparse(inner), _lines(inner))  # unparsed, since its source is indented
        for node in body
        if _is_guard(node)
        for inner in getattr(node, "body", ())
    ]


def _written(node: ast.stmt, source: list[bytes]) -> Written:
    lines = _lines(node)
    if isinstance(node, ast.ImportFrom) and node.level:
        return Written(ast.unparse(_absolute(node)), lines)
    own = source[lines.start - 1 : lines.stop - 1]
    own[-1] = own[-1][: node.end_col_offset]  # before the start, which may be on the same line
    own[0] = own[0][node.col_offset :]
    return Written(b"".join(own).decode(), lines)


def _lines(node: ast.stmt) -> range:
    decorators = getattr(node, "decorator_list", ())
    first = min([node.lineno, *(each.lineno for each in decorators)])  # `lineno` is of the `def`
    return range(first, (node.end_lineno or node.lineno) + 1)


def _absolute(node: ast.ImportFrom) -> ast.ImportFrom:
    """An import of `python -m package.module`, from wherever it is executed."""
    package = vars(sys.modules[MAIN]).get("__package__") or ""
    try:
        module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return node
    return ast.ImportFrom(module=module, names=node.names, level=0)


def _is_guard(node: ast.stmt) -> bool:
    # A script that is run executes the body, whose statements count as if they stood at the top.
    return isinstance(node, ast.If) and ast.unparse(node.test) in (
        "__name__ == '__main__'",
        "'__main__' == __name__",
    )


def literal(name: str, value: Any) -> str | None:
    """The statement that gives a name a value of plain data; None for any other value, and for one
    that is secret. What a script's arguments say is written down, since a worker has others."""
    # These very types: the name of a subclass would have to be imported from somewhere.
    if type(value) in (argparse.Namespace, SimpleNamespace):
        inner = _plain(vars(value))
        made = f"{type(value).__name__}(**{inner})"
        module = type(value).__module__
        text = inner and f"from {module} import {type(value).__name__}; {name} = {made}"
    else:
        inner = _plain(value)
        text = inner and f"{name} = {inner}"
    return text if text and redacted(text) == text else None


def _plain(value: Any) -> str | None:
    text = repr(value) if _is_plain(value) else ""
    return text if 0 < len(text) <= LONGEST else None


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple, dict) and len(value) > LONGEST:
        return False  # its text would be too long, and take time to write
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, (*value, *value.values())))
    if type(value) is float:
        return math.isfinite(value)  # `nan` and `inf` are names that Python does not know
    return value is None or type(value) in (bool, int, str, bytes)
