"""Which code a row's numbers are of: a digest without comments and docstrings, which change no
number."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from pathlib import Path

from tests.support.places import ROOT

STATISTICS = ROOT / "ablate" / "compare" / "statistics"
RESULTS = ROOT / "ablate" / "results"
COUNTING = [RESULTS / f"{name}.py" for name in ("looks", "replication", "spread")]
HERE = Path(__file__).parent
SHARED = [HERE / f"{name}.py" for name in ("draws", "row", "tables")]
IMPORTED = re.compile(r"^from tests\.calibration\.rows\.(\w+) import", re.MULTILINE)
DEFINED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def digest(row: str) -> str:
    """The digest of the statistics, of what rows share, and of a row with those it imports."""
    files = [*sorted(STATISTICS.glob("*.py")), *COUNTING, *SHARED, *_files(row)]
    code = [f"{file.relative_to(ROOT)}\n{_code(file.read_text())}" for file in files]
    return hashlib.sha256("\n".join(code).encode()).hexdigest()[:16]


def _files(row: str) -> list[Path]:
    """A row's file, and the rows that it imports from."""
    file = HERE / "rows" / f"{row}.py"
    return [file, *(HERE / "rows" / f"{name}.py" for name in IMPORTED.findall(file.read_text()))]


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
