"""Reading a study from its file, with errors that show the user's lines and none of ours."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from ablate import study as words
from ablate.errors import AblateError, StudyError, TechniqueError, unknown
from ablate.study import Study
from ablate.user_code import executed, line_of

_WRONG_CALL = re.compile(
    r"(?P<word>\w+?)(\.__init__)?\(\) "
    r"(?P<what>got an unexpected|got multiple|missing|takes) (?P<details>.*)"
)


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
    name, techniques = found.name or file.stem, tuple(_techniques(found, file))
    try:
        return replace(found, file=str(path), name=name, techniques=techniques)
    except StudyError as error:
        raise StudyError(f"{file}: {error}") from None


def _techniques(study: Study, file: Path) -> Iterator[str]:
    """The files beside the study that register its own techniques."""
    for name in study.techniques:
        place = file.parent / name
        if not place.is_file():
            beside = sorted(found.name for found in place.parent.glob("*.py") if found != file)
            raise StudyError(unknown("file of techniques", name, beside, str(file)))
        yield str(place.resolve())


def _executed(file: Path) -> ModuleType:
    try:
        return executed(file, f"ablate_study.{file.stem}")
    except TechniqueError as error:
        cause = error.__context__
        raise (_misspelt(cause, file) if isinstance(cause, TypeError) else None) or error from None


def _misspelt(error: TypeError, file: Path) -> AblateError | None:
    """A wrong call of one of our words, told as such; any other TypeError is the user's."""
    found = _WRONG_CALL.match(str(error))
    word = getattr(words, found["word"], None) if found else None
    if found is None or not callable(word):
        return None
    place, names = f"{file}:{line_of(error, file)}", list(inspect.signature(word).parameters)
    quoted = re.findall(r"'(\w+)'", found["details"])
    if found["what"] == "missing":
        return StudyError(f"{place}: {found['word']} needs {', '.join(quoted)}.")
    if found["what"] == "got an unexpected" and quoted:
        return StudyError(unknown(f"field of {found['word']}", quoted[0], names, place))
    return StudyError(
        f"{place}: {found['word']} {found['what']} {found['details']}. "
        f"Its fields, by name: {', '.join(names)}."
    )
