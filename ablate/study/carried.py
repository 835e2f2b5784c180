"""The code of a task that a script or a notebook registers, as a file that workers execute.

`ablate.run` copies the statement that registers the task, and those that bind the names that it
needs, to a file in the workspace. The driver executes it too, so that a trial runs the same code
with Ray and without. The script itself is not executed again: it would run the study again. Ids of
a notebook's trials have the digest of the copied code, since a cell may be edited and executed
again.

A task or technique of a module that Python imports by its name is registered by a file that imports
it. A technique of the script itself is refused: its class may need anything.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib.util
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ablate.config.identity import digest
from ablate.config.registry import Technique
from ablate.config.tasks import MAIN, Kind, copying, find_kind, revise
from ablate.errors import AblateError, StudyError
from ablate.store.files import write_whole
from ablate.study.statements import Written, cells, literal, of_line, written
from ablate.study.study import Study
from ablate.trial.provenance import trust
from ablate.trial.user.user_code import executed

_copied: list[str] = []  # the tasks whose copies are being executed
_FROM_A_COMMAND = "ablate.trial.user.command"  # it looks for the folder of its script


class Uncarried(StudyError):
    """A task or a technique whose code cannot be sent to workers."""


def carried(study: Study, code: Sequence[Kind | Technique], folder: Path) -> Study:
    """The study, with files in `folder` that register the code which its own files do not."""
    own = {str(Path(file).resolve()) for file in study.techniques}
    missing = [each for each in code if each.file not in own]
    if study.file:  # workers execute it, with the modules that it imports
        missing = [each for each in missing if each.place == MAIN]
    files = dict.fromkeys(  # several may be registered by one file
        _carrier(each, folder) if isinstance(each, Kind) else _importer(each, each.module, folder)
        for each in missing
    )
    return replace(study, techniques=(*study.techniques, *files)) if files else study


def check_not_carrying() -> None:
    """Refuse to run a study while a task's code is executed: it would never end."""
    if _copied:
        raise StudyError(f"the task '{_copied[0]}' needs a statement that runs a study.")


def _carrier(kind: Kind, folder: Path) -> str:
    """The file that registers the task on a worker."""
    origin = (kind.copied or kind).origin
    if origin is None:
        raise _uncarried(kind, "Python does not know the statement that registers it")
    if origin.module != MAIN:
        return _importer(kind, origin.module, folder)
    if not origin.direct:
        raise _uncarried(kind, "it is registered inside a function, and not at the top")
    text = _copy(kind)
    path = _write(
        folder, Path(origin.file).name if _is_script(origin.file) else "notebook.py", text
    )
    _register(kind, path, text)
    return str(path)


def _importer(code: Kind | Technique, module: str, folder: Path) -> str:
    """A file that imports the module; if Python cannot import it by a name, the module's file."""
    if module == MAIN:
        raise _uncarried(code, "this script or notebook registers it")
    file = getattr(sys.modules.get(module), "__file__", None)
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(module)
        # A worker that imported by this name must find the same file.
        if spec is not None and spec.origin == file:
            place = f" from {Path(file).name}" if file else ""
            text = f"# Registers the {_called(code)}{place}.\nimport {module}\n"
            path = str(_write(folder, f"{module.replace('.', '_')}.py", text))
            trust.remember([path])
            return path
    if file is None:
        raise _uncarried(code, f"the module '{module}' has no file")
    return str(Path(file).resolve())


def _write(folder: Path, name: str, text: str) -> Path:
    # A folder by its contents: a path that a trial's record names never has other code.
    path = (folder / digest(text) / name).resolve()
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    return path


def _register(kind: Kind, path: Path, text: str) -> None:
    """Execute the copy here, so that this process runs what workers run."""
    module = f"ablate_user.{path.stem}_{digest(str(path))}"  # as `load_modules` calls it
    before = find_kind(kind.name)
    _copied.append(kind.name)
    try:
        with copying(kind.copied or kind):
            executed(path, module, text.encode())
    except AblateError as error:
        raise _uncarried(kind, f"its code does not stand alone:\n{error}\n") from None
    finally:
        _copied.pop()
    if find_kind(kind.name) is before:  # inside an `if`, for example
        raise _uncarried(kind, "its statement registers it only in this process")
    trust.remember([path])


def _is_script(file: str) -> bool:
    return Path(file).is_file()


def _called(code: Kind | Technique) -> str:
    return f"{'task' if isinstance(code, Kind) else code.slot} '{code.name}'"


def _uncarried(code: Kind | Technique, why: str) -> Uncarried:
    kind = code.copied or code if isinstance(code, Kind) else None
    where = ":".join(map(str, kind.where)) if kind else code.file or code.place
    return Uncarried(
        f"{where}: the {_called(code)} cannot be sent to workers: {why.rstrip('.')}. Instead: "
        "put it into a module, and import that here; or run in this process with local=True "
        "(--local)."
    )


def _copy(kind: Kind) -> str:
    """The text of a file with all that the task needs of the script, or of the cells."""
    origin = (kind.copied or kind).origin
    seed = of_line(origin.file, origin.line) if origin else None
    if origin is None or seed is None:
        raise _uncarried(kind, "Python has no source of it")
    copy = _Copy(kind, cells())
    if kind.function and kind.function.__module__ == _FROM_A_COMMAND:
        here = vars(sys.modules[MAIN]).get("__file__") or Path.cwd() / "notebook"
        copy.add(*written(f"__file__ = {str(Path(here).absolute())!r}"))
    copy.add(seed)
    if _is_script(origin.file):
        return _file(kind, Path(origin.file).name, [*copy.text()])
    # Without comments and layout: an edit of these alone makes no other code.
    texts = [_normal(text) for text in copy.text()]
    revision = _revision(texts)
    revised = f"from ablate.config.tasks import revise\nrevise({kind.name!r}, {revision!r})"
    return _file(kind, "cells of a notebook", [*texts, revised])


def _file(kind: Kind, source: str, texts: Sequence[str]) -> str:
    head = f"# The task '{kind.name}', copied from {source} with what it needs."
    return "\n\n".join([head, *texts]) + "\n"


def _normal(text: str) -> str:
    return ast.unparse(ast.parse(text))


def _revision(texts: Sequence[str]) -> str:
    """The digest of a task's code, wherever the notebook lies."""
    return digest([text for text in texts if not text.startswith("__file__ = ")])


def revise_uncopied(code: Sequence[Kind | Technique]) -> None:
    """Give tasks of cells that cannot be copied, and so run here alone, the digests of their
    functions: of what these use, nothing is known."""
    for kind in (each.copied or each for each in code if isinstance(each, Kind)):
        if kind.place == MAIN and kind.function and kind.origin and not _is_script(kind.file):
            with contextlib.suppress(OSError, TypeError, SyntaxError):
                source = textwrap.dedent(inspect.getsource(kind.function))
                revise(kind.name, _revision([_normal(source)]))


class _Copy:
    """Statements in an order in which they can be executed."""

    def __init__(self, kind: Kind, known: Sequence[Written]) -> None:
        self._kind, self._known = kind, known
        self._values = vars(sys.modules[MAIN])
        self._names, self._seen, self._texts = set[str](), set[str](), list[str]()

    def text(self) -> Iterator[str]:
        """The parts of the file: its imports, then each other statement."""
        futures = (w.text for w in self._known if w.is_future)
        imports = (text for text in self._texts if text.startswith(("import ", "from ")))
        yield "\n".join(dict.fromkeys((*futures, *imports)))
        yield from (text for text in self._texts if not text.startswith(("import ", "from ")))

    def add(self, statement: Written) -> None:
        """Add a statement after what its execution reads, and before what its functions read when
        they are called."""
        if statement.text in self._seen:
            return
        self._seen.add(statement.text)  # now, since two functions may call each other
        for name in sorted(statement.reads):
            self.add_name(name)
        self._texts.append(statement.text)
        for name in sorted(statement.later - statement.reads):
            self.add_name(name)

    def add_name(self, name: str) -> None:
        """Add the statements that give a name of the script its value."""
        is_own = name in self._values and (name == "__file__" or not name.startswith("__"))
        if name in self._names or not is_own:
            return  # a builtin, or a name that this process lacks too
        self._names.add(name)
        for statement in self._binding(name):
            self.add(statement)

    def _binding(self, name: str) -> list[Written]:
        """The statements that give the name the value that it has now."""
        value = literal(name, self._values[name])
        if value is not None:
            return written(value)
        found: list[Written] = []
        for statement in reversed(self._known):
            if name in statement.binds:
                found.insert(0, statement)
                # A statement such as `total += 1` needs the value from before it, too.
                if name not in statement.reads:
                    return found
        starred = [w for w in self._known if w.is_star and self._gives(w, name)]
        if found or starred or hasattr(builtins, name):
            return found or starred[-1:]  # of two that give the name, the later one
        raise _uncarried(self._kind, f"no statement at the top gives '{name}', which it needs")

    def _gives(self, statement: Written, name: str) -> bool:
        [node] = ast.parse(statement.text).body
        module = sys.modules.get(getattr(node, "module", "") or "")
        # `self` stands for a missing name: it is no value of the script.
        return getattr(module, name, self) is self._values[name]
