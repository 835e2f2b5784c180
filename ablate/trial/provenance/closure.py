"""All that a trial's numbers come from besides its id: code, packages, files, variables, values.

    {"code": {"train.py": DIGEST, "mylib/layers.py": DIGEST}, "distributions": {"numpy": "2.1.0"},
     "files": {"words.csv": DIGEST}, "variables": {"DEPTH": DIGEST}, "values": {"X": DIGEST}}

Each attempt records its own, under these names. A value whose digest is None cannot be compared.
A trial without code of the user's has none of these: what it runs is ablate's, and its data are
part of its id.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ablate.config.identity import Trial
from ablate.config.tasks import MAIN, Kind
from ablate.redaction import names_a_secret
from ablate.trial.provenance import syntax
from ablate.trial.provenance.imported import Found, is_own
from ablate.trial.provenance.opened import Opened, digest_of
from ablate.trial.user.user_code import times_executed

Closure = dict[str, dict[str, Any]]
CODE, PACKAGES, FILES, VARIABLES, VALUES = "code", "distributions", "files", "variables", "values"
# Variables that say where a program runs, and how fast: they differ between workers.
OF_PLACE = re.compile(
    r"(CUDA|RAY|SLURM|OMP|MKL|ABLATE|MLFLOW|WANDB|XDG)_|(LOCAL_|NODE_)?RANK$|WORLD_SIZE$|MASTER_|"
    r"(HOME|PATH|PYTHONPATH|PWD|USER|LOGNAME|HOSTNAME|TMPDIR|TMP|TEMP|TERM|LANG)$"
)
_seen: dict[tuple[Path, int], syntax.Code] = {}  # file, how often it had been executed


def entries(trial: Trial) -> list[Path]:
    """The user's files that register the trial's task and techniques, or define what they run."""
    config = trial.config
    techniques = (t.file for t in config.techniques if t.is_users)
    task = (config.kind.file, _registering_file(config.kind)) if config.kind.function else ()
    files = (Path(file).resolve() for file in (*sorted(techniques), *task) if file)
    return [*dict.fromkeys(file for file in files if file.is_file() and is_own(str(file)))]


def _registering_file(kind: Kind) -> str:
    """The file of the module whose statement registers a task. Of a script's task it is the task's
    own, since `__main__` is another file in another process."""
    module = sys.modules.get(kind.module) if kind.module != MAIN else None
    return getattr(module, "__file__", None) or ""


def _sent_by_value(trial: Trial) -> set[Path]:
    """The scripts whose code has digests among the values, in the trial's id."""
    code = (trial.config.kind, *trial.config.techniques)
    return {Path(each.file).resolve() for each in code if each.values and each.file}


def folders(trial: Trial) -> list[Path]:
    """The folders in which data of the trial's own code are looked for."""
    return [*dict.fromkeys([*(file.parent for file in entries(trial)), *_command(trial)[1:]])]


def closure(trial: Trial, read: Callable[[Path], syntax.Code] = syntax.read) -> Closure:
    """What such a trial's numbers come from, apart from what only its run can tell."""
    found, scripts, sent = Found(read), Found(read), _sent_by_value(trial)
    for file in entries(trial):
        (scripts if file in sent else found).add(file)
    named = dict(_of_command(trial, found))
    names = found.file_names | scripts.file_names
    named |= dict(_named_in_code(names, folders(trial), found))
    code = (trial.config.kind, *trial.config.techniques)
    values = {name: digest for each in code for name, digest in each.values.items()}
    packages = {**scripts.distributions, **found.distributions}
    read_names = sorted(scripts.variables | found.variables)
    variables = {name: _hidden(name) for name in read_names if _matters(name)}
    parts = (found.code, packages, named, variables, values)
    every = zip((CODE, PACKAGES, FILES, VARIABLES, VALUES), parts, strict=True)
    return {name: dict(part) for name, part in every if part}


def with_opened(trial: Trial, known: Mapping[str, Mapping[str, Any]], opened: Opened) -> Closure:
    """A trial's closure with the files that it has opened: without its outputs."""
    code, files = opened.digests(apart=_imported(trial))
    named = known.get(FILES, {})
    # What changed unheard, a library in C has written.
    outputs = {*opened.written, *filter(opened.is_changed, named.keys() - files.keys())}
    every = {
        # The digest of a module is that of when it was loaded.
        CODE: {**_unknown(code, known.get(CODE, {})), **known.get(CODE, {})},
        FILES: {name: each for name, each in {**files, **named}.items() if name not in outputs},
    }
    return {name: dict(part) for name, part in {**known, **every}.items() if part}


def _imported(trial: Trial) -> set[str]:
    """The user's files that imports in the trial's own files lead to. Those that are not in its
    closure are the study's alone."""
    found = Found(lambda file: (code := first_seen(file))._replace(imports=code.all_imports))
    for file in entries(trial):
        found.add(file)
    return {*map(str, found.files)}


def _unknown(code: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, str]:
    """The files of code that are not known under a shorter name."""
    return {
        name: digest
        for name, digest in code.items()
        if not any(f"/{name}".endswith(f"/{own}") and known[own] == digest for own in known)
    }


def first_seen(file: Path) -> syntax.Code:
    """A file as this process first saw it, since modules that are loaded stay as they are."""
    key = file, times_executed[str(file)]
    if key not in _seen:
        _seen[key] = syntax.read(file)
    return _seen[key]


def _command(trial: Trial) -> list[Any]:
    """The words of the trial's command and its folder; empty if it has none."""
    return [*getattr(trial.config.kind.function, "command", ())]


def _of_command(trial: Trial, found: Found) -> Iterator[tuple[str, str]]:
    """Add the scripts and modules that the trial's command names to what was `found`; yield the
    digests of the other files that it names."""
    if known := _command(trial):
        words, folder = known
        yield from named_by(words, folder, found)


def named_by(words: Sequence[str], folder: Path, found: Found) -> Iterator[tuple[str, str]]:
    """The same of the words of a command, and of what it has a shell run."""
    for before, word in zip(("", *words), words, strict=False):
        file = folder / word.rpartition("=")[2]
        if before == "-c":
            yield from _of_shell(word, folder, found)
        elif not _add_code(before, word, file, folder, found) and _is_beside(file, folder):
            yield file.relative_to(folder).as_posix(), digest_of(file)
            if file.suffix == ".sh":
                yield from _of_shell(_text(file), folder, found, {file})


def _add_code(before: str, word: str, file: Path, folder: Path, found: Found) -> bool:
    """Add the module or script that a word of a command is, if it is one."""
    if before == "-m":
        found.add_module(word, file, script=folder)
        return True
    is_script = file.suffix == ".py" and _is_file(file)
    if is_script:
        found.add(file.resolve(), script=file.resolve().parent)
    return is_script


def _of_shell(
    text: str, folder: Path, found: Found, scripts: Collection[Path] = ()
) -> Iterator[tuple[str, str]]:
    """What a shell is told to run, of Python and of its own. Other files that it names may be what
    it writes."""
    lines = shlex.shlex(text, posix=True, punctuation_chars=True)
    lines.whitespace_split = True
    try:
        words = [*lines]
    except ValueError:  # a quotation without an end
        words = text.split()
    for before, word in zip(("", *words), words, strict=False):
        file = folder / word
        is_code = _add_code(before, word, file, folder, found)
        if (
            not is_code
            and file.suffix == ".sh"
            and file not in scripts
            and _is_beside(file, folder)
        ):
            yield file.relative_to(folder).as_posix(), digest_of(file)
            yield from _of_shell(_text(file), folder, found, {*scripts, file})


def _named_in_code(
    names: Collection[str], folders: Sequence[Path], found: Found
) -> Iterator[tuple[str, str]]:
    """Add the scripts beside the study that its code names to what was `found`; yield the digests
    of other files, named as `"train.parquet"` or `"data" / "train.parquet"`: a program or a library
    in C may open them unheard."""
    for folder in folders:
        places = [folder, *(folder / name for name in names if os.path.isdir(folder / name))]
        for file in (place / name for place in places for name in names):
            if _is_beside(file, folder) and not _add_code("", "", file, folder, found):
                yield file.relative_to(folder).as_posix(), digest_of(file)


def _is_beside(file: Path, folder: Path) -> bool:
    return _is_file(file) and is_own(str(file)) and file.is_relative_to(folder)


def _text(file: Path) -> str:
    return file.read_text(errors="replace")


def _is_file(path: Path) -> bool:
    """Return whether there is such a file; a word too long for a name is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _matters(variable: str) -> bool:
    return not OF_PLACE.match(variable) and not names_a_secret(variable)


def _hidden(variable: str) -> str:
    """A hash of a variable's value, which may be of no concern to readers of a record."""
    value = os.environ.get(variable)
    if value is None:
        return "not set"
    return hashlib.sha256(f"{variable}\0{value}".encode()).hexdigest()[: syntax.DIGITS]
