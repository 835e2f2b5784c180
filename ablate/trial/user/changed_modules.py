"""What a script has changed in modules that it imports: workers import them as their files are.

Looked at are constants that a file writes out and sets once, as `RATE = 0.1`, and functions. What
the modules change themselves changes on workers, too.
"""

from __future__ import annotations

import ast
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ablate.config.tasks import MAIN

WRITTEN_OUT = (bool, int, float, str, type(None), list, tuple, dict)


def changed_in_modules(files: Iterable[Path]) -> Iterator[tuple[str, Any, Path]]:
    """Yield what is otherwise than its file says: `config.RATE`, its value now, and the file."""
    trees = {file.resolve(): _parsed(file) for file in files if file.suffix == ".py"}
    known = {name for tree in trees.values() for name in _changed_by(tree)}
    for name, module in _loaded({file.name for file in trees}):
        file = Path(module.__file__ or "").resolve()
        if file in trees:
            found = _changed(trees[file].body, module, name, known)
            yield from ((whole, now, file) for whole, now in found)


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # workers will say it
        return ast.Module([], [])


def _loaded(names: Collection[str]) -> Iterator[tuple[str, ModuleType]]:
    """The modules of this process whose files have one of these names."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name != MAIN and isinstance(file, str) and os.path.basename(file) in names:
            yield name, module


def _changed(
    body: Sequence[ast.stmt], owner: Any, name: str, known: set[str]
) -> Iterator[tuple[str, Any]]:
    """The same of the statements of a module or a class; those `known` change by themselves."""
    there: Mapping[str, Any] = vars(owner) if hasattr(owner, "__dict__") else {}
    for statement in body:
        for own in _names(statement):
            now = there.get(own)
            if own in known or own not in there:
                continue
            if isinstance(statement, ast.ClassDef):
                yield from _changed(statement.body, now, f"{name}.{own}", known)
            if getattr(now, "__module__", None) == MAIN or _is_other(statement, now):
                yield f"{name}.{own}", now


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_other(statement: ast.stmt, now: Any) -> bool:
    """Return whether a value is not the one that a statement writes out."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    try:
        written = ast.literal_eval(statement.value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return {type(now), type(written)} <= {*WRITTEN_OUT} and repr(now) != repr(written)


def _changed_by(tree: ast.Module) -> Iterator[str]:
    """The names that a module sets twice, sets in other modules, or changes in place."""
    nodes = [*ast.walk(tree)]
    stored = (n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    yield from (name for name, times in Counter(stored).items() if times > 1)
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield _last_name(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield _last_name(node.func.value)


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]
