"""Which code a row's numbers are of: a digest without comments and docstrings, which change no
number.

That code is the row's file, what opens a table, and all that they import of this repository,
themselves or through others. Imports are read and not run. Those within functions count, and those
for type checkers do not. Rows draw losses, so what computes the losses of a model does not count.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from tests.support.places import ROOT

HERE = Path(__file__).parent
PACKAGE = ROOT / "ablate"
OPENS = (PACKAGE / "compare" / "judged.py", PACKAGE / "study" / "looked.py")
TRAINS = (PACKAGE / "lm", PACKAGE / "trial")
NOTHING: Mapping[Path, str] = MappingProxyType({})
DEFINED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def digest(row: str, edits: Mapping[Path, str] = NOTHING) -> str:
    """The digest of a row with all that it imports; of files with other contents, if given."""
    texts = {file: edits.get(file) or file.read_text() for file in files(row)}
    code = (f"{file.relative_to(ROOT)}\n{_code(text)}" for file, text in texts.items())
    return hashlib.sha256("\n".join(code).encode()).hexdigest()[:16]


def files(row: str) -> list[Path]:
    """Every file of this repository that a row's numbers are of."""
    found, left = set(), [HERE / "rows" / f"{row}.py", *OPENS]
    while left:
        file = left.pop()
        if file not in found and not any(map(file.is_relative_to, TRAINS)):
            found.add(file)
            left += _imports(file)
    return sorted(found)


@cache
def _imports(file: Path) -> list[Path]:
    """The files of this repository that a file imports."""
    return [each for name in imported(ast.parse(file.read_text())) for each in _files_of(name)]


def imported(tree: ast.AST) -> Iterator[str]:
    """What code imports: modules, and what may be a module or a name of one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from imported(ast.Module(node.orelse, []))
        else:
            yield from imported(node)


def _files_of(name: str) -> Iterator[Path]:
    """The files of this repository that hold what code imports by this name."""
    place = ROOT.joinpath(*name.split("."))
    for module in (place, place.parent):
        yield from filter(Path.is_file, (module.with_suffix(".py"), module / "__init__.py"))


@cache
def _code(source: str) -> str:
    """A file without its comments, docstrings and empty lines."""
    lines = source.splitlines()
    for begin, end in _docstrings(source):
        lines[begin - 1 : end] = [""] * (end - begin + 1)
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _docstrings(source: str) -> list[tuple[int, int]]:
    """The first and the last line of each docstring."""
    spans = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DEFINED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            spans.append((first.lineno, first.end_lineno or first.lineno))
    return spans
