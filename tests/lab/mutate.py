"""Changes the code in one place at a time and runs its tests: what they let pass is a survivor.

    python -m tests.lab.mutate [--only FOLDER...] [--number N] [--seed N] [--minutes M]
        [--seconds S]

A sample of the possible changes of each folder: a comparison turned, + and - or `and` and `or`
exchanged, a condition negated, a whole number off by one, true and false exchanged. What no run
shows is left alone: flags of dataclasses, `if TYPE_CHECKING`, `flush`, `strict`. Each is made in
a copy of the checkout, where those tests of its folder run until one fails that call something of
the changed file, the quickest first; which they are is learned from one run without any change. (A
test that calls it only from another process is not one of them.) A survivor that changes nothing
that anybody can see is listed in `tests/lab/equivalent.txt` with the reason, and is not sampled.

A development tool: `make mutate`. `make test` does not run it.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import places

TESTS_OF = {  # folder of ablate -> its tests, the quick ones first
    "compare": ("tests/compare", "tests/record/mirror", "tests/commands/test_tasks.py"),
    "tune": ("tests/tune", "tests/lm/commands/test_probe.py"),
    "study": ("tests/study",),
    "store": ("tests/store", "tests/tune/test_schedule.py"),
    "trial": ("tests/trial",),
    "config": ("tests/config", "tests/study/test_file.py"),
    "space": ("tests/space",),
}
DEFAULT = ("compare", "tune")
OURS = ("", ".", str(places.ROOT))
IMPORTED = (
    *("torch._dynamo", "optuna", "pyarrow.parquet", "scipy.stats", "duckdb", "ray.tune"),
    *("hypothesis.strategies", "matplotlib.figure", "pandas"),
)
QUIETLY = ("-x", "-q", "-p", "no:cacheprovider", "--assert=plain")  # only whether they pass counts
WORDS = {True: "noticed ", False: "SURVIVED", None: "no time "}  # the last is not counted
EQUIVALENT = places.TESTS / "lab" / "equivalent.txt"
TURNED = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
SHIFTED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div}  # / also joins paths


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str  # relative to the checkout
    line: int
    before: str
    after: str
    text: str  # of the whole file, changed
    source: str = ""  # of the line, as it was

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}: {self.before}  ->  {self.after}"

    @property
    def key(self) -> str:
        """The name, with the line's text instead of its number: equivalent ones are listed so."""
        return f"{self.file}: {self.source}: {self.before}  ->  {self.after}"


def spots(tree: ast.AST) -> list[tuple[int, int]]:
    """Every change of a file: the position of a node, and which of the node's changes it is."""
    unseen = {id(part) for node in ast.walk(tree) for part in _unseen(node)}
    nodes = [(at, node) for at, node in enumerate(ast.walk(tree)) if id(node) not in unseen]
    return [(at, which) for at, node in nodes for which in range(len(list(changes(node))))]


def _unseen(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node whose changes no run shows."""
    match node:
        case ast.ClassDef(decorator_list=decorators):
            yield from (part for one in decorators for part in ast.walk(one))
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            yield node
        case ast.keyword(arg="flush" | "strict", value=value):
            yield value


def mutant(file: str, text: str, at: int, which: int) -> Mutant:
    """The file with one change made."""
    tree = ast.parse(text)
    node = list(ast.walk(tree))[at]
    before, change = _first_line(node), list(changes(node))[which]
    change(node)
    line = getattr(node, "lineno", 0)
    source = text.splitlines()[line - 1].strip()
    return Mutant(file, line, before, _first_line(node), ast.unparse(tree), source)


def _first_line(node: ast.AST) -> str:
    """Of a statement with a body, what stands before it: `tests/lab/equivalent.txt` has lines."""
    return ast.unparse(node).partition("\n")[0]


def changes(node: ast.AST) -> Iterator:
    """Functions that change a copy of the node in place."""
    match node:
        case ast.Compare(ops=[op]):
            for new in (TURNED.get(type(op)), SHIFTED.get(type(op))):
                if new is not None:
                    yield lambda n, new=new: n.ops.__setitem__(0, new())
        case ast.BoolOp(op=op):
            new = ast.Or if isinstance(op, ast.And) else ast.And
            yield lambda n: setattr(n, "op", new())
        case ast.BinOp(op=op) if type(op) in SWAPPED and not _is_text(node):
            yield lambda n: setattr(n, "op", SWAPPED[type(op)]())
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if not isinstance(
            test, ast.Compare | ast.BoolOp
        ):
            yield lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
        case ast.Constant(value=bool(value)):
            yield lambda n: setattr(n, "value", not value)
        case ast.Constant(value=int(value)):
            yield lambda n: setattr(n, "value", value + 1)


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    texts = (ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp)
    return any(
        isinstance(side, texts) or isinstance(getattr(side, "value", None), str) for side in sides
    )


def sample(folder: str, number: int, rng: random.Random) -> list[Mutant]:
    """Some changes of a folder, without those that nobody can see."""
    texts = {
        str(path.relative_to(places.ROOT)): path.read_text(encoding="utf-8")
        for path in sorted((places.ROOT / "ablate" / folder).rglob("*.py"))
    }
    every = [(file, *spot) for file, text in texts.items() for spot in spots(ast.parse(text))]
    rng.shuffle(every)
    made = (mutant(file, texts[file], at, which) for file, at, which in every)
    known = equivalent()
    return list(itertools.islice((one for one in made if one.key not in known), number))


def equivalent() -> set[str]:
    """The changes that nobody can see; what follows the two bars is the reason."""
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines() if EQUIVALENT.exists() else []
    return {line.partition("  ||  ")[0] for line in lines if line and not line.startswith("#")}


@dataclass(frozen=True)
class Calls:
    """A test, how long it took, and the files of which it called something."""

    test: str
    seconds: float
    files: frozenset[str]


class Callers:
    """A plugin of pytest that writes the `Calls` of every test, fixtures included."""

    def __init__(self, folder: Path, seen: Path) -> None:
        self.start, self.seen = f"{folder}/", seen
        self.files: set[str] = set()
        self.shared: dict[str, set[str]] = {}  # test file -> what its first test's fixtures called
        self.found: list[tuple[str, float, list[str]]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.files, start = set(), time.monotonic()
        sys.setprofile(self._called)
        threading.setprofile(self._called)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            file = item.nodeid.partition("::")[0]
            shared = self.shared.setdefault(file, set(self.files))
            files = sorted(self.files | shared)
            self.found.append((item.nodeid, time.monotonic() - start, files))

    def pytest_sessionfinish(self) -> None:
        self.seen.write_text(json.dumps(self.found))

    def _called(self, frame: Any, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(self.start):
            self.files.add(name.removeprefix(self.start))


class Checkout:
    """A copy of the checkout, in which files are changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".ablate", "*.png")
        shutil.copytree(places.ROOT, folder, ignore=ignored, dirs_exist_ok=True)

    @contextlib.contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.file
        text = path.read_text()
        path.write_text(mutant.text)
        try:
            yield
        finally:
            path.write_text(text)

    def callers(self, tests: list[str], seconds: float) -> list[Calls] | None:
        """Run tests and see what they call; None if one fails or the time ends."""
        with tempfile.NamedTemporaryFile(mode="r", suffix=".json") as seen:
            if self.notices(tests, seconds, Callers(self.folder, Path(seen.name))) is not False:
                return None
            return [Calls(test, took, frozenset(files)) for test, took, files in json.load(seen)]

    def notices(self, tests: list[str], seconds: float, *plugins: Callers) -> bool | None:
        """Return whether a test fails; None if the time ends before the tests do."""
        pid = os.fork()  # with all that was imported, which costs a process of its own seconds
        if pid == 0:
            os._exit(self._run(tests, plugins))
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    return os.waitstatus_to_exitcode(status) != 0
                time.sleep(0.05)
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def _run(self, tests: list[str], plugins: Sequence[Callers]) -> int:
        """Run tests of the copy in this process; 0 if all pass."""
        os.setsid()
        os.chdir(self.folder)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        for name in [name for name in sys.modules if name.split(".")[0] in ("ablate", "tests")]:
            del sys.modules[name]
        sys.path[:] = [str(self.folder), *(path for path in sys.path if path not in OURS)]
        sys.dont_write_bytecode = True
        os.environ |= {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        os.environ["ABLATE_TEST_DATA"] = str(places.DATA)
        try:
            return int(pytest.main([*QUIETLY, *tests], [*plugins]))
        except BaseException:  # a change that ends the process is noticed
            return 1


def tests_of(folder: str) -> list[str]:
    """The tests of a folder, except those that start Ray."""
    return [path for path in _files_of(folder) if not _starts_ray(path)]


def tests_with_ray(file: str) -> list[str]:
    """The tests that start Ray, if the changed file is one of those that drive it."""
    _, folder, *rest = Path(file).parts
    return [path for path in _files_of(folder) if "cluster" in rest and _starts_ray(path)]


def _files_of(folder: str) -> list[str]:
    parts = TESTS_OF.get(folder, (f"tests/{folder}",))
    files = [path for part in parts for path in tests_in(places.ROOT / part)]
    return [str(path.relative_to(places.ROOT)) for path in files]


def _starts_ray(path: str) -> bool:
    return "pytest.mark.cluster" in (places.ROOT / path).read_text()


def tests_in(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("test_*.py"))


def quickest(calls: Sequence[Calls], file: str) -> list[str]:
    """The tests that call something of a file, the quickest first."""
    chosen = sorted((one for one in calls if file in one.files), key=lambda one: one.seconds)
    return [one.test for one in chosen]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.mutate", description=__doc__)
    parser.add_argument("--only", nargs="+", default=DEFAULT, metavar="FOLDER")
    parser.add_argument("--number", type=int, default=40, help="changes of each folder")
    parser.add_argument("--seed", type=int, default=1, help="another seed samples others")
    parser.add_argument("--minutes", type=float, default=120, help="for all of it")
    parser.add_argument("--seconds", type=float, default=400, help="for the tests of one change")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    rates, survived = [], 0
    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="ablate-mutate-") as temporary:
        checkout = Checkout(Path(temporary))
        for folder in options.only:
            chosen = sample(folder, options.number, random.Random(f"{folder} {options.seed}"))
            tried, noticed = 0, 0
            calls = checkout.callers(tests_of(folder), 60 * options.minutes)
            if calls is None:
                parser.exit(2, f"{folder}: its tests fail without any change, or take too long\n")
            for mutant in chosen:
                if time.monotonic() > end:
                    break
                tests = quickest(calls, mutant.file) + tests_with_ray(mutant.file)
                with checkout.changed(mutant):
                    seen = bool(tests) and checkout.notices(tests, options.seconds)
                tried, noticed = tried + (seen is not None), noticed + bool(seen)
                print(WORDS[seen], mutant.name, flush=True)
            survived += tried - noticed
            rates.append(f"{folder}: {noticed} of {tried} noticed ({noticed / max(tried, 1):.0%})")
    print(*rates, sep="\n")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
