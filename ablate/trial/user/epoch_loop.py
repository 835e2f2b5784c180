"""The loop over `run.epochs` in the source of a task's function: what one pass leaves to the next.

A name is carried if the loop assigns it, and the next pass, or what follows the loop, may read it
before it is assigned again. The analysis is the usual one of live variables, with two allowances
for what people write: an inner loop runs at least once, and two `if`s on the same condition agree.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ablate.errors import TrialError

Block = Sequence[ast.stmt]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
# Methods that make an object new, whatever it was.
RENEWING = ("clear", "reset", "zero_", "fill_", "copy_", "seed", "manual_seed")


@dataclass(frozen=True)
class EpochLoop:
    """What a loop over `run.epochs` does with the function's variables."""

    line: int  # in the file
    carried: frozenset[str]  # assigned in it, and read before that in the next pass or after it
    read: frozenset[str]  # in it or in functions inside the function, and not assigned in it
    renewed: frozenset[str]  # made new at the start of each pass, by `x.clear()` or the like


def epoch_loop(function: Callable[..., Any]) -> EpochLoop | None:
    """The function's loop over `run.epochs`; None without one, or without a source."""
    tree, first = _source(function)
    for path in _loops(tree):
        loop = path[-1][0]
        one, rest = _Pass(), _Pass()
        one.block(loop.body, set())
        rest.block([*loop.orelse, *(each for _, after in reversed(path) for each in after)], set())
        stored = _stored(loop.body)
        # The first function of the tree is the task's own.
        inside = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)][1:]
        elsewhere = _nonlocal(inside)
        # A `nonlocal` name is carried unless each pass of the loop assigns it before it is read.
        carried = stored & (one.exposed | rest.exposed) | elsewhere - (stored - one.exposed)
        read = _loaded(loop.body) | _loaded(inside)
        return EpochLoop(
            line=first + loop.lineno - 1,
            carried=frozenset(carried - _stored([loop.target])),
            read=frozenset(read - stored),
            renewed=frozenset(one.renewed),
        )
    return None


def check_yields_last(function: Callable[..., Any]) -> None:
    """Refuse code after the yield in a loop over `run.epochs`: a resumed trial would skip it.

    The state is saved at the yield, and a resumed trial starts with the next epoch.
    """
    tree, first = _source(function)
    for path in _loops(tree):
        line = _after_yield(path[-1][0].body)
        if line is not None:
            file = inspect.getsourcefile(function)
            raise TrialError(
                f"{file}:{first + line - 1}: this follows the yield of an epoch, and would be "
                "skipped when a trial resumes. Put the yield last in the loop."
            )


def _source(function: Callable[..., Any]) -> tuple[ast.Module, int]:
    """A function's syntax tree and its first line; an empty tree where there is no source."""
    try:
        # Decorators may wrap the function, and a method or an inner function is indented.
        lines, first = inspect.getsourcelines(inspect.unwrap(function))
        return ast.parse(textwrap.dedent("".join(lines))), first
    except (OSError, TypeError, SyntaxError):
        return ast.Module([], []), 1


def _loops(tree: ast.Module) -> Iterator[list[tuple[Any, Block]]]:
    """Yield each loop over `run.epochs`, as a path of (statement, the statements after it)."""

    def within(block: Block, path: list[tuple[Any, Block]]) -> Iterator[list[tuple[Any, Block]]]:
        for number, statement in enumerate(block):
            here = [*path, (statement, block[number + 1 :])]
            if isinstance(statement, ast.For) and _over_epochs(statement.iter):
                yield here
            is_function = isinstance(statement, FUNCTIONS)
            for inner in _blocks(statement):
                yield from within(inner, [] if is_function else here)

    yield from within(tree.body, [])


def _blocks(statement: ast.AST) -> Iterator[Block]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _over_epochs(iterated: ast.expr) -> bool:
    calls = (node for node in ast.walk(iterated) if isinstance(node, ast.Call))
    return any(isinstance(c.func, ast.Attribute) and c.func.attr == "epochs" for c in calls)


def _after_yield(body: Block) -> int | None:
    """The line of the first statement that runs after a yield in this block, if any."""
    for statement, following in itertools.zip_longest(body, body[1:]):
        yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(statement))
        if yields and following is not None:
            return following.lineno
        if yields and isinstance(statement, ast.If | ast.With | ast.Try):
            for block in (statement.body, getattr(statement, "orelse", [])):
                line = _after_yield(block)
                if line is not None:
                    return line
    return None


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that are assigned here, and not in functions or comprehensions inside."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif not isinstance(node, (*FUNCTIONS, *COMPREHENSIONS)):
            found |= _stored(ast.iter_child_nodes(node))
    return found


def _loaded(nodes: Iterable[ast.AST]) -> set[str]:
    names = (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _nonlocal(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        name
        for node in nodes
        for inner in ast.walk(node)
        if isinstance(inner, ast.Nonlocal)
        for name in inner.names
    }


class _Pass:
    """Reads statements in the order in which they run."""

    def __init__(self) -> None:
        self.exposed: set[str] = set()  # names that may be read before they are assigned
        self.renewed: set[str] = set()
        self._when: dict[str, set[str]] = {}  # a condition -> what is assigned if it holds

    def block(self, statements: Block, assigned: set[str]) -> set[str]:
        """Read a block; return what is assigned after it."""
        for statement in statements:
            assigned = self._statement(statement, assigned)
        return assigned

    def _statement(self, node: ast.stmt, assigned: set[str]) -> set[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return assigned | {node.name}
        if isinstance(node, ast.If):
            return self._if(node, assigned)
        if isinstance(node, ast.Match):
            self._expression(node.subject, assigned)
            ends = [self.block(case.body, assigned | _stored([case])) for case in node.cases]
            return set.intersection(*ends)
        if isinstance(node, ast.Try):
            # A handler may run after any statement of the body: what it assigns does not count.
            after = self.block([*node.body, *node.orelse], set(assigned))
            for handler in node.handlers:
                self.block(handler.body, assigned | ({handler.name} if handler.name else set()))
            return self.block(node.finalbody, after)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = (alias.asname or alias.name.partition(".")[0] for alias in node.names)
            return assigned | set(names)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith):
            assigned = set(assigned)
            for head in _head(node):
                self._expression(head, assigned)
            # An inner loop is taken to run at least once: its body's names are assigned after it.
            return self.block([*node.body, *getattr(node, "orelse", ())], assigned)
        return self._simple(node, set(assigned))

    def _simple(self, node: ast.stmt, assigned: set[str]) -> set[str]:
        new = _renewed(node) - assigned - self.exposed
        self.renewed |= new
        assigned |= new
        # `x += 1` reads a name that the syntax tree only stores.
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self._read(node.target.id, assigned)
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        value = getattr(node, "value", None)
        for part in (value, *targets) if value is not None else ast.iter_child_nodes(node):
            if part is not None:
                self._expression(part, assigned)
        return assigned

    def _if(self, node: ast.If, assigned: set[str]) -> set[str]:
        assigned = set(assigned)
        self._expression(node.test, assigned)
        condition = ast.dump(node.test)
        yes = self.block(node.body, assigned | self._when.get(condition, set()))
        no = self.block(node.orelse, set(assigned))
        if _leaves(node.body):  # what follows runs only if the condition does not hold
            return no
        if _leaves(node.orelse):
            return yes
        # A later `if` on the same condition may read what this one assigned.
        self._when[condition] = self._when.get(condition, set()) | yes
        return yes & no

    def _read(self, name: str, assigned: set[str]) -> None:
        if name not in assigned:
            self.exposed.add(name)

    def _expression(self, node: ast.AST, assigned: set[str]) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._read(node.id, assigned)
            else:
                assigned.add(node.id)
        elif isinstance(node, ast.NamedExpr):
            self._expression(node.value, assigned)
            assigned.add(node.target.id)
        elif isinstance(node, COMPREHENSIONS):
            # The names of a comprehension are its own: they are not assigned after it.
            inner = set(assigned)
            for generator in node.generators:
                for part in (generator.iter, generator.target, *generator.ifs):
                    self._expression(part, inner)
            parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
            for part in parts:
                self._expression(part, inner)
        elif not isinstance(node, ast.Lambda):  # a lambda's body does not run here
            for child in ast.iter_child_nodes(node):
                self._expression(child, assigned)


def _head(node: Any) -> Iterator[ast.expr]:
    """The expressions of a loop or a `with`, in the order in which they run."""
    if isinstance(node, ast.While):
        yield node.test
    elif isinstance(node, ast.For | ast.AsyncFor):
        yield from (node.iter, node.target)
    else:
        for item in node.items:
            yield item.context_expr
            if item.optional_vars is not None:
                yield item.optional_vars


def _leaves(block: Block) -> bool:
    return bool(block) and isinstance(block[-1], LEAVING)


def _renewed(node: ast.stmt) -> set[str]:
    """The name in `x.clear()` or `x[:] = ...`, if the statement is one of these."""
    renewed: ast.expr | None = None
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Subscript):
        renewed = target.value if ast.unparse(target.slice) in (":", "...") else None
    elif isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        renewed = call.func.value if call.func.attr in RENEWING else None
    if not isinstance(renewed, ast.Name):
        return set()
    # `x.copy_(2 * x)` reads what `x` was, and so makes nothing new.
    loads = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == renewed.id]
    return {renewed.id} if len(loads) == 1 else set()
