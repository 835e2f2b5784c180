"""Reading a study from its file, with errors that show the user's lines and none of ours."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from dataclasses import fields, replace
from pathlib import Path

from ablate import study as words
from ablate.errors import AblateError, StudyError, TechniqueError, unknown
from ablate.study import Study, check
from ablate.user_code import user_frames


def load(path: str | Path) -> Study:
    """The `study` that a file defines, checked."""
    file = Path(path)
    if not file.is_file():
        near = [str(found) for found in sorted(Path(file.parent).glob("*.py"))]
        raise StudyError(unknown("study file", str(path), near))
    module = _executed(file)
    found = getattr(module, "study", None)
    if not isinstance(found, Study):
        others = [name for name, value in vars(module).items() if isinstance(value, Study)]
        hint = f" It has a Study called '{others[0]}'; call it `study`." if others else ""
        raise StudyError(f"{file}: no `study = Study(...)` in this file.{hint}")
    beside = tuple(str((file.parent / module).resolve()) for module in found.techniques)
    study = replace(found, file=str(path), name=found.name or file.stem, techniques=beside)
    check(study)
    return study


def _executed(file: Path):
    name = f"ablate_study.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise StudyError(f"{file}: not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise StudyError(
            f"{file}:{error.lineno}: {error.msg}: {(error.text or '').strip()}"
        ) from None
    except AblateError as error:
        raise type(error)(f"{file}:{_line(error, file)}: {error}") from None
    except TypeError as error:
        raise _misspelt(error, file) from None
    except Exception as error:
        raise TechniqueError(
            f"{file}: the study raised an exception.\n{user_frames(error, [str(file)])}"
        ) from None
    return module


def _misspelt(error: TypeError, file: Path) -> AblateError:
    """A wrong keyword of one of our words, told as such; any other TypeError is the user's."""
    found = re.match(
        r"(\w+)\.__init__\(\) (got an unexpected keyword argument|missing)", str(error)
    )
    word = getattr(words, found[1], None) if found else None
    place = f"{file}:{_line(error, file)}"
    if word is None or found is None:
        return TechniqueError(
            f"{file}: the study raised an exception.\n{user_frames(error, [str(file)])}"
        )
    quoted = re.findall(r"'(\w+)'", str(error))
    if found[2] == "missing":
        return StudyError(f"{place}: {found[1]} needs {', '.join(quoted)}.")
    return StudyError(
        unknown(f"field of {found[1]}", quoted[0], [f.name for f in fields(word)], place)
    )


def _line(error: BaseException, file: Path) -> int | str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == file]
    return frames[-1].lineno or "?" if frames else "?"
