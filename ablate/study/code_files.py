"""Files that register the tasks and techniques which the files of a study do not.

A task or a technique of a module is registered by a file that imports the module. Whatever a script
or a notebook registers is sent by value (`ablate/trial/user/by_value.py`), and the digests of all
that the code uses are a part of the ids of its trials.
"""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ablate.config import registry, tasks
from ablate.config.identity import digest
from ablate.config.registry import Technique
from ablate.config.tasks import MAIN, Kind
from ablate.errors import StudyError, TrialError
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.files import write_whole
from ablate.store.store import Store
from ablate.study.planned import Plan
from ablate.study.study import Study
from ablate.trial.provenance import trust
from ablate.trial.user.user_code import PICKLE

Code = Kind | Technique


class CannotSend(StudyError):
    """A task or a technique that workers cannot be given."""


def with_code_files(study: Study, code: Sequence[Code], folder: Path) -> Study:
    """The study, with files in `folder` that register the code which its own files do not."""
    own = {str(Path(file).resolve()) for file in study.techniques}
    missing = [each for each in code if each.module == MAIN or each.file not in own]
    sent = [each for each in missing if each.module == MAIN]
    # The file of a study imports its modules: workers execute that file.
    imported = [] if study.file else [each for each in missing if each.module != MAIN]
    for each in imported:
        _refuse_changed(each, [Path(each.file).resolve()])
    files = dict.fromkeys(_importer(each, folder) for each in imported)
    if sent:
        files[_sent_by_value(sent, folder)] = None
    return replace(study, techniques=(*study.techniques, *files)) if files else study


def note_on_values(plan: Plan, store: Store) -> str:
    """A note if the trials on record of the study are of other values; empty if they are not."""
    from ablate.trial.user.by_value import header_of

    record = study_record.read(store, plan.record.key)
    journal = next((j for t in record.trials if (j := journals.read(store, t.id))), None)
    files = [] if journal is None else [Path(module) for module in journal.trial.modules]
    before: dict[str, str | None] = {}
    for file in files:
        if file.suffix == PICKLE and file.is_file():
            with file.open("rb") as opened:
                values = header_of(opened.readline())["values"]
            before |= {name: known for own in values.values() for name, known in own.items()}
    code = [own for c in plan.configs.values() for own in (c.kind, *c.techniques)]
    now = {name: known for own in code for name, known in own.values.items()}
    changed = sorted(name for name in before | now if before.get(name) != now.get(name))
    if not before or not now or not changed:
        return ""
    return (
        f"changed since the trials on record: {', '.join(changed)}. These make other trials; those "
        "on record stay in the store."
    )


def _sent_by_value(code: Sequence[Code], folder: Path) -> str:
    """The path of a file with code of this script or notebook, and all that the code uses."""
    from ablate.trial.user import by_value
    from ablate.trial.user.value_digests import Digests

    used = [Digests(*by_value.parts_of(each)) for each in code]
    for each, own in zip(code, used, strict=True):
        _refuse_changed(each, own.module_files)
    code = [replace(each, values=own.by_name) for each, own in zip(code, used, strict=True)]
    for each in code:  # also if nothing can be sent: ids have the digests
        tasks.add(each) if isinstance(each, Kind) else registry.add(each)
    files = {file for own in used for file in own.files}
    contents = None
    known = [by_value.PYTHON, by_value.folder_of(code), *(dict(each.values) for each in code)]
    name = digest([*known, *_texts(files)])
    if any(value is None for own in used for value in own.by_name.values()):
        contents = _pickled(code, used, files)
        name = digest(contents.hex())
    path = (folder / name / f"{_script(code[0])}{PICKLE}").resolve()
    if not _is_trusted(path):  # else it has equal values, from an earlier run
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, contents or _pickled(code, used, files))
        trust.remember([path])
    by_value.keep(path, code)
    return str(path)


def _refuse_changed(code: Code, files: Sequence[Path]) -> None:
    """Refuse code of which a module is not as its file, from which workers import it."""
    from ablate.trial.user.changed_modules import changed_in_modules

    for name, now, file in changed_in_modules(files):
        raise StudyError(
            f"{_where(code)}: the {_called(code)} uses {file.name}, which workers import as it "
            f"is, and {name} was changed after it was imported here: it is {now!r:.60}. Instead: "
            "edit the file, and reload it or start again; or make it a setting or an object of "
            "the script."
        )


def _pickled(code: Sequence[Code], used: Sequence, files: set[str]) -> bytes:
    from ablate.trial.user import by_value

    try:
        return by_value.file_of(code, files)
    except Exception as error:  # as many kinds as there are objects
        raise _cannot_send(code[0], _culprit(used, error)) from None


def _culprit(used: Sequence, error: Exception) -> str:
    """Say which of the values cannot be pickled, and why."""
    from ablate.trial.user.pickler import pickled

    values = {name: value for own in used for name, value in own.values.items()}
    # A function's own globals are pickled with the function: data first.
    for name, value in sorted(values.items(), key=lambda item: callable(item[1])):
        try:
            pickled(value)
        except Exception as why:
            return f"it uses '{name}', of the class {type(value).__qualname__} ({why})"
    return f"it cannot be pickled ({error})"


def _is_trusted(path: Path) -> bool:
    try:
        return bool(trust.checked(path))
    except (OSError, TrialError):
        return False


def _texts(files: set[str]) -> list[str]:
    """The sources of files and cells. A notebook's have other names in every process."""
    return sorted("".join(linecache.getlines(file)) for file in files)


def _script(code: Code) -> str:
    file = Path(code.file)
    return file.stem if file.is_file() else "notebook"


def _importer(code: Code, folder: Path) -> str:
    """A file that imports the module; if Python cannot import it by a name, the module's file."""
    module = code.module
    file = getattr(sys.modules.get(module), "__file__", None)
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(module)
        # A worker that imported by this name must find the same file.
        if spec is not None and spec.origin == file:
            place = f" from {Path(file).name}" if file else ""
            text = f"# Registers the {_called(code)}{place}.\nimport {module}\n"
            # A folder by its contents: a path that a trial's record names never has other code.
            path = (folder / digest(text) / f"import_{module.replace('.', '_')}.py").resolve()
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, text.encode())
            trust.remember([path])
            return str(path)
    if file is None:
        raise _cannot_send(code, f"the module '{module}' has no file")
    return str(Path(file).resolve())


def _called(code: Code) -> str:
    return f"{'task' if isinstance(code, Kind) else code.slot} '{code.name}'"


def _where(code: Code) -> str:
    return ":".join(map(str, code.where)) if isinstance(code, Kind) else code.file or code.place


def _cannot_send(code: Code, why: str) -> CannotSend:
    return CannotSend(
        f"{_where(code)}: the {_called(code)} cannot be sent to workers: {why}. Instead: make the "
        "object inside the function; or put it into a module, and import that here; or run in this "
        "process with local=True (--local)."
    )
