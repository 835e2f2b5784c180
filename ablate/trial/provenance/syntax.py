"""What a file of code says, without comments and docstrings: its digest, imports and variables."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ablate.config.contents import digest_of_contents
from ablate.trial.provenance.of_trials import of_trials

DIGITS = 16
FILE_NAME = re.compile(r"(?!.*\.\.)(\./)?\w[^\n\0]{0,100}")  # or that of a folder


class Code(NamedTuple):
    """A file of code. `from ..a import b` gives the `imports` (2, "a") and (2, "a.b")."""

    digest: str
    imports: frozenset[tuple[int, str]] = frozenset()
    variables: frozenset[str] = frozenset()  # of the environment, that it reads by name
    file_names: frozenset[str] = frozenset()  # texts that may be such
    all_imports: frozenset[tuple[int, str]] = frozenset()  # also those that only a study reads


def read(file: Path) -> Code:
    """Read a file, once unless it is written again. What is not Python counts byte by byte."""
    if file.suffix != ".py":
        return Code(digest_of_contents(str(file))[:DIGITS])
    known = file.stat()
    return _read(str(file), known.st_mtime_ns, known.st_size)


@functools.lru_cache(maxsize=4096)
def _read(file: str, *_: int) -> Code:
    source = Path(file).read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns when it compiles the file, too
            whole = ast.parse(source)
        body = of_trials(whole.body)
        plain = repr(_plain(body)).encode()
        nodes = [node for statement in body for node in ast.walk(statement)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Code(_digest(source))
    imports = frozenset(one for node in nodes for one in _imports(node))
    variables = frozenset(name for node in nodes for name in _variables(node))
    all_imports = frozenset(one for node in ast.walk(whole) for one in _imports(node))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant))
    names = frozenset(each for each in texts if isinstance(each, str) and FILE_NAME.fullmatch(each))
    return Code(_digest(plain), imports, variables, names, all_imports)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def _plain(node: Any) -> Any:
    """A syntax tree as nested tuples without what is empty, so that all versions of Python agree
    (`ast.dump` differs between them), and without docstrings."""
    if isinstance(node, list):
        return [_plain(each) for each in node if not _is_ignored(each)]
    if not isinstance(node, ast.AST):
        return node
    parts = ((name, _plain(part)) for name, part in ast.iter_fields(node) if name != "kind")
    return type(node).__name__, [(n, part) for n, part in parts if part is not None and part != []]


def _is_ignored(node: Any) -> bool:
    """Return whether a statement does nothing: a docstring, or the path of a copied script."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, str)
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(each, ast.Name) and each.id == "__file__" for each in targets)


def _imports(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Import):
        yield from ((0, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        yield node.level, module
        yield from ((node.level, f"{module}.{a.name}".strip(".")) for a in node.names)


def _variables(node: ast.AST) -> Iterator[str]:
    """The variable in `os.environ["X"]`, `"X" in os.environ`, `os.environ.get("X")`, or
    `os.getenv("X")`."""
    if isinstance(node, ast.Subscript):
        source, name = ast.unparse(node.value), node.slice
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        source, name = ast.unparse(node.comparators[0]), node.left
    elif isinstance(node, ast.Call) and node.args:
        source, name = ast.unparse(node.func), node.args[0]
        source = source.removesuffix(".get").removesuffix(".pop").removesuffix(".setdefault")
    else:
        return
    known = source in ("os.environ", "environ", "os.getenv", "getenv")
    if known and isinstance(name, ast.Constant) and isinstance(name.value, str):
        yield name.value
