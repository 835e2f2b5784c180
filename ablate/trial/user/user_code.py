"""Running a user's files, and showing what they raise without the frames of this package."""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import re
import sys
import sysconfig
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import cast

from ablate.config.plugins import plugins
from ablate.errors import AblateError, StudyError, TechniqueError, unknown
from ablate.public import HOMES, REMOVED
from ablate.trial.provenance.opened import loading

PICKLE = ".pickle"  # the suffix of code that was sent by value, as `by_value.py` says
times_executed: Counter[str] = Counter()  # in this process, by file
_OURS = str(Path(__file__).parents[2])
_LIBRARIES = tuple(
    str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib")
)


class _Source(SourceFileLoader):
    """Runs the given text, never a compiled file that somebody put into `__pycache__`."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._source, self.path)


def spec_of(file: Path, name: str, source: bytes) -> ModuleSpec:
    """How Python makes the module of a file's `source`."""
    path = str(file.absolute())
    spec = ModuleSpec(name, _Source(name, path, source), origin=path)
    spec.has_location = True  # gives the module its `__file__`
    return spec


def executed(file: Path, name: str, source: bytes | None = None) -> ModuleType:
    """The module from a user's file, or from its `source` as read before. Errors in the file are
    raised with its name and line."""
    if file.suffix != ".py":
        raise StudyError(f"{file}: not a Python file.")
    times_executed[str(file.resolve())] += 1
    spec = spec_of(file, name, file.read_bytes() if source is None else source)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses look their module up by name
    try:
        with loading(file.resolve().parent):
            cast(_Source, spec.loader).exec_module(module)
    except KeyboardInterrupt:  # Ctrl-C; anything else is the file's own
        del sys.modules[name]
        raise
    except BaseException as error:
        del sys.modules[name]
        raise _as_ablate_error(error, file) from None
    return module


def _as_ablate_error(error: BaseException, file: Path) -> AblateError:
    """The error to show for an exception that a user's file raised."""
    location = f"{file}:{line_of(error, file)}"
    if isinstance(error, SystemExit):
        return TechniqueError(
            f"{location}: sys.exit() ends Python while this file is read. "
            'Remove it, or put it under `if __name__ == "__main__":`.'
        )
    if isinstance(error, SyntaxError):
        own = error.filename is None or _same(error.filename, file)
        location = f"{file if own else error.filename}:{error.lineno or 1}"
        return StudyError(f"{location}: {error.msg}: {(error.text or '').strip()}")
    if isinstance(error, AblateError):
        return type(error)(f"{location}: {error}")
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "ablate":
        return StudyError(_failed_import(error, file, location))
    # Such errors come from Python's own parser: a null byte, or too many brackets.
    if not line_of(error, file) and isinstance(error, ValueError | RecursionError | MemoryError):
        return StudyError(f"{file}: Python cannot read this file: {error or 'it is too deep'}.")
    return raised(error, f"{file}: this file", [str(file)])


def _failed_import(error: ImportError, file: Path, location: str) -> str:
    """The message for an import from this package that fails: misspelt, or of an old version."""
    misspelt = re.match(r"cannot import name '(\w+)' from 'ablate' ", error.msg)
    if misspelt and misspelt[1] in REMOVED:
        return f"{location}: ablate has no {misspelt[1]} now. Instead: {REMOVED[misspelt[1]]}."
    if misspelt:
        return unknown("word of ablate", misspelt[1], HOMES, location)
    slots = next(plugin.techniques for plugin in plugins() if plugin.techniques)
    public = importlib.import_module(slots).__all__
    line = linecache.getline(str(file), line_of(error, file))
    names = [name for name in public if re.search(rf"import .*\b{name}\b", line)] or public
    why = error.msg.partition(" (")[0]
    return f"{location}: {why}. Instead: from {slots} import {', '.join(names)}."


def raised(error: BaseException, what: str, files: Sequence[str] = ()) -> TechniqueError:
    """An exception of the user's code."""
    return TechniqueError(f"{what} raised an exception.\n{user_frames(error, files)}")


@contextmanager
def told(what: str, files: Sequence[str] = ()) -> Iterator[None]:
    """Within the block, an exception of the user's code is raised as ours."""
    try:
        yield
    except (AblateError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise raised(error, what, files) from None


def text_of(error: BaseException) -> str:
    """The text of an exception that a user's code raised; its `__str__` may raise another."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as other:
        return f"(its text cannot be shown: str() of it raised {type(other).__name__})"


def line_of(error: BaseException, file: Path) -> int:
    """The line of the user's file that raised an error; 0 if another file did."""
    frames = traceback.extract_tb(error.__traceback__)
    # The last of the file's frames: the call that failed, and not what called it.
    return next((f.lineno or 0 for f in reversed(frames) if _same(f.filename, file)), 0)


def _same(filename: str, file: Path) -> bool:
    return Path(filename).resolve() == file.resolve()


def user_frames(error: BaseException, files: Sequence[str] = ()) -> str:
    """The traceback without frames of this package, of libraries and of Python itself."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = [frame for frame in frames if is_users(frame.filename, files)]
    last = traceback.format_exception_only(type(error), error)
    if not shown and not isinstance(error, SyntaxError):
        shown = list(frames)  # our own bug: show all that we know
    return "".join([*traceback.format_list(shown), *last]).rstrip()


def is_users(filename: str, files: Sequence[str] = ()) -> bool:
    """Return whether a file is the user's: none of this package, of a library or of Python."""
    path = str(Path(filename).resolve())
    if path in {str(Path(file).resolve()) for file in files}:
        return True
    # Names such as <string> and <frozen importlib> are of no file.
    return not filename.startswith("<") and not path.startswith((_OURS, *_LIBRARIES))
