"""Showing a user the frames of their own code, and nothing of ours."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

_OURS = str(Path(__file__).parent)
_LIBRARIES = tuple(
    str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "purelib", "platlib")
)


def user_frames(error: BaseException, files: Sequence[str] = ()) -> str:
    """The traceback, frames of this package, of libraries and of Python itself left out."""
    named = {str(Path(file).resolve()) for file in files}
    frames = traceback.extract_tb(error.__traceback__)
    shown = [f for f in frames if _is_users(f.filename, named)]
    last = traceback.format_exception_only(type(error), error)
    if not shown and not isinstance(error, SyntaxError):
        shown = list(frames)  # our own bug: show all that we know
    return "".join([*traceback.format_list(shown), *last]).rstrip()


def _is_users(filename: str, named: set[str]) -> bool:
    path = str(Path(filename).resolve())
    if path in named:
        return True
    return not filename.startswith("<") and not path.startswith((_OURS, *_LIBRARIES))
