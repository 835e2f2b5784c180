"""Of a file that makes a study, the statements that trials may depend on.

Those that make or run the study, and those that only they read, change no trial: another arm, seed
or budget asks for nothing to be trained again.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

STUDY_WORDS = ("Study", "run")  # of ablate: whoever calls one of them makes or runs a study


def of_trials(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements that count: all of them, if the file makes no study."""
    words = _words(body)
    gone = [each for each in body if _may_go(each) and words & _called(each)]
    if not gone:
        return body
    kept = [each for each in body if each not in gone]
    while more := [each for each in kept if _may_go(each) and reads(each) & _bound(gone)]:
        gone += more
        kept = [each for each in kept if each not in more]
    return _without_unread(kept, {name for each in gone for name in reads(each)})


def reads(node: ast.AST) -> set[str]:
    """The names that a statement reads, with those that its functions read when they are called."""
    names = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    return {each.id for each in names if not isinstance(each.ctx, ast.Store)}


def _words(body: Sequence[ast.stmt]) -> set[str]:
    """How the file calls what makes or runs a study: `Study`, `ablate.run`, ..."""
    words: set[str] = set()
    for node in (node for each in body for node in ast.walk(each)):
        if isinstance(node, ast.ImportFrom) and is_ablate(node.module or ""):
            words |= {a.asname or a.name for a in node.names if a.name in STUDY_WORDS}
        elif isinstance(node, ast.Import):
            packages = [a.asname or "ablate" for a in node.names if is_ablate(a.name)]
            words |= {f"{package}.{word}" for package in packages for word in STUDY_WORDS}
    return words


def is_ablate(module: str) -> bool:
    """Return whether a module is ablate's."""
    return module.partition(".")[0] == "ablate"


def _called(statement: ast.stmt) -> set[str]:
    """What a statement calls, under the names that it has there."""
    functions = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    return {ast.unparse(f) for f in functions if isinstance(f, ast.Name | ast.Attribute)}


def _may_go(statement: ast.stmt) -> bool:
    """Return whether a statement may be the study's alone. A decorator registers what trials run,
    and imports are looked into by themselves."""
    is_import = isinstance(statement, ast.Import | ast.ImportFrom)
    return not is_import and not getattr(statement, "decorator_list", None)


def _bound(statements: Iterable[ast.stmt]) -> set[str]:
    return {name for each in statements for name in _names_bound(each)}


def _names_bound(statement: ast.stmt) -> Iterator[str]:
    """The names to which a statement at the top of a file gives values."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from map(_name_here, statement.names)
    else:
        names = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
        yield from (each.id for each in names if isinstance(each.ctx, ast.Store))


def _name_here(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _without_unread(kept: list[ast.stmt], of_study: set[str]) -> list[ast.stmt]:
    """Leave out what only the study reads: definitions, values and imports, one after another."""
    while True:
        counts = Counter(name for each in kept for name in reads(each))
        left = [each for each in kept if not _is_unread(each, counts, of_study)]
        if len(left) == len(kept):
            return [each for whole in kept for each in _imported(whole, counts, of_study)]
        of_study = of_study.union(*(reads(each) for each in kept if each not in left))
        kept = left


def _is_unread(statement: ast.stmt, counts: Counter[str], of_study: set[str]) -> bool:
    """Return whether a statement only defines what the study reads, and nothing else does."""
    if not _may_go(statement) or not _only_defines(statement):
        return False
    own = reads(statement)  # a function may call itself
    bound = {*_names_bound(statement)}
    return bound <= of_study and all(counts[name] == (name in own) for name in bound)


def _only_defines(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Name) for target in statement.targets)
    if isinstance(statement, ast.AnnAssign):
        return isinstance(statement.target, ast.Name)
    return isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _imported(statement: ast.stmt, counts: Counter[str], of_study: set[str]) -> Iterator[ast.stmt]:
    """A statement; of an import, only the names that trials may read. An import of which nobody
    reads anything is there for what it does."""
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        yield statement
        return
    names = [alias for alias in statement.names if not _is_known(statement, alias)]
    read = [alias for alias in names if counts[_name_here(alias)]]
    if any(_name_here(alias) in of_study for alias in names) or read:
        names = read
    if isinstance(statement, ast.ImportFrom) and names:
        yield ast.ImportFrom(statement.module, names, statement.level)
    elif names:
        yield ast.Import(names)


def _is_known(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    """Return whether a name is of ablate, or of `__future__`."""
    if isinstance(statement, ast.Import):
        return is_ablate(alias.name)
    module = "" if statement.level else statement.module or ""
    return module == "__future__" or is_ablate(module)
