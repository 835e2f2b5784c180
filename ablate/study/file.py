"""Loads a study from its file, with errors that show the user's lines, not those of the package."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from ablate.config.plugins import plugins
from ablate.errors import AblateError, StudyError, TechniqueError, unknown
from ablate.public import HOMES, REMOVED, imported
from ablate.study.study import Study
from ablate.trial.user.beside import find_beside
from ablate.trial.user.user_code import executed, line_of

_PACKAGE = Path(__file__).parents[1]
# As Python words a wrong call: `Arm.__init__() got an unexpected keyword argument 'x'`.
_WRONG_CALL = re.compile(
    r"(?P<word>\w+?)(\.__init__)?\(\) "
    r"(?P<what>got an unexpected|got multiple|missing|takes) (?P<details>.*)"
)


def shipped() -> dict[str, Path]:
    """Return the file of each study that comes with the package or a plug-in, by name."""
    folders = (_PACKAGE / "studies", _PACKAGE.parent / "studies")  # of a wheel, of a checkout
    own = next(filter(Path.is_dir, folders), folders[-1])  # neither: its glob finds nothing
    others = [plugin.folder / "studies" for plugin in plugins()]
    return {file.stem: file for each in (*others, own) for file in sorted(each.glob("*.py"))}


def load(path: str | Path) -> Study:
    """Execute a file, or the shipped one of that name; check and return its `study`."""
    file = _find(path)
    module = _execute(file)
    study = getattr(module, "study", None)
    if not isinstance(study, Study):
        others = [name for name, value in vars(module).items() if isinstance(value, Study)]
        hint = f" It has a Study called '{others[0]}'; call it `study`." if others else ""
        raise StudyError(f"{file}: no `study = Study(...)` in this file.{hint}")
    name, techniques = study.name or file.stem, tuple(_techniques(study, file))
    try:
        return replace(study, file=str(file), name=name, techniques=techniques)
    except StudyError as error:
        raise StudyError(f"{file}: {error}") from None


def _find(path: str | Path) -> Path:
    file, names = Path(path), shipped()
    if file.is_file():
        return file
    if str(path) in names:
        return names[str(path)]
    near = [str(other) for other in sorted(file.parent.glob("*.py"))]
    is_name = not file.suffix and file.name == str(path)
    raise StudyError(unknown("study file", str(path), [*near, *(names if is_name else ())]))


def _techniques(study: Study, file: Path) -> Iterator[str]:
    """Yield the paths of the files, relative to the study's, that register custom techniques."""
    for name in study.techniques:
        path = file.parent / name
        if not path.is_file():
            others = sorted(other.name for other in path.parent.glob("*.py") if other != file)
            raise StudyError(unknown("file of techniques", name, others, str(file)))
        yield str(path.resolve())


def _execute(file: Path) -> ModuleType:
    source = file.read_bytes()
    find_beside(file, source)
    try:
        return executed(file, f"ablate_study.{file.stem}", source)
    except TechniqueError as error:
        cause = error.__context__  # `executed` raises `from None`, which leaves the context
        raise (_explain(cause, file) if isinstance(cause, TypeError) else None) or error from None


def _explain(error: TypeError, file: Path) -> AblateError | None:
    """Explain a wrong call of a class for studies; return None for any other TypeError."""
    match = _WRONG_CALL.match(str(error))
    if match is None or match["word"] not in HOMES:
        return None
    parameters = inspect.signature(imported(match["word"])).parameters
    where, names = f"{file}:{line_of(error, file)}", list(parameters)
    quoted = re.findall(r"'(\w+)'", match["details"])
    if match["what"] == "missing":
        return StudyError(f"{where}: {match['word']} needs {', '.join(quoted)}.")
    if match["what"] == "got an unexpected" and quoted:
        if instead := REMOVED.get(f"{match['word']}.{quoted[0]}"):
            gone = f"{match['word']} has no {quoted[0]} now"
            return StudyError(f"{where}: {gone}. Instead: {instead}.")
        return StudyError(unknown(f"field of {match['word']}", quoted[0], names, where))
    return StudyError(
        f"{where}: {match['word']} {match['what']} {match['details']}. "
        f"Its fields are: {', '.join(names)}."
    )
