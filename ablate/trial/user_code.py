"""Running a user's files, and showing what they raise without the frames of this package."""

from __future__ import annotations

import importlib.util
import re
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from ablate.errors import AblateError, StudyError, TechniqueError, unknown

RAISED = (Exception, SystemExit)  # what a user's code may raise, except Ctrl-C
_OURS = str(Path(__file__).parents[1])
_LIBRARIES = tuple(
    str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib")
)


def executed(file: Path, name: str) -> ModuleType:
    """The module from a user's file. Errors in it are raised with the file's name and line."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise StudyError(f"{file}: not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, RAISED):
            raise
        raise told(error, file) from None
    return module


def told(error: BaseException, file: Path) -> AblateError:
    """An exception raised by a user's file, as an `AblateError`."""
    if isinstance(error, SystemExit):
        return TechniqueError(
            f"{file}:{line_of(error, file)}: sys.exit() ends Python while this file is read. "
            'Remove it, or put it under `if __name__ == "__main__":`.'
        )
    if isinstance(error, SyntaxError):
        own = error.filename is None or _same(error.filename, file)
        place = f"{file if own else error.filename}:{error.lineno or 1}"
        return StudyError(f"{place}: {error.msg}: {(error.text or '').strip()}")
    if isinstance(error, AblateError):
        return type(error)(f"{file}:{line_of(error, file)}: {error}")
    misspelt = re.match(r"cannot import name '(\w+)' from 'ablate' ", str(error))
    if isinstance(error, ImportError) and misspelt is not None:
        import ablate

        place = f"{file}:{line_of(error, file)}"
        return StudyError(unknown("word of ablate", misspelt[1], ablate.__all__, place))
    return raised(error, f"{file}: this file", [str(file)])


def raised(error: BaseException, what: str, files: Sequence[str] = ()) -> TechniqueError:
    """An exception of the user's code."""
    return TechniqueError(f"{what} raised an exception.\n{user_frames(error, files)}")


def line_of(error: BaseException, file: Path) -> int | str:
    """The line of the user's file that raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if _same(frame.filename, file)]
    return lines[-1] or "?" if lines else "?"


def _same(filename: str, file: Path) -> bool:
    return Path(filename).resolve() == file.resolve()


def user_frames(error: BaseException, files: Sequence[str] = ()) -> str:
    """The traceback without frames of this package, of libraries and of Python itself."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = [frame for frame in frames if _is_users(frame.filename, files)]
    last = traceback.format_exception_only(type(error), error)
    if not shown and not isinstance(error, SyntaxError):
        shown = list(frames)  # our own bug: show all that we know
    return "".join([*traceback.format_list(shown), *last]).rstrip()


def _is_users(filename: str, files: Sequence[str]) -> bool:
    path = str(Path(filename).resolve())
    if path in {str(Path(file).resolve()) for file in files}:
        return True
    return not filename.startswith("<") and not path.startswith((_OURS, *_LIBRARIES))
