"""A study that has nothing left to do, recognised before anything heavy is loaded.

A run that completes notes what it was made from and what it made. The same command compares both:
with the study as its file makes it now, and with every file and record as it is now. Only if all of
it is the same has a run nothing to do. Whatever cannot be compared here (a server, a search, the
settings of another study) has no such note, and the whole run looks at it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sqlite3
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import FunctionType
from typing import Any

from ablate.config.identity import digest
from ablate.errors import AblateError
from ablate.space.folders import folders, here
from ablate.store import journal as journals
from ablate.store.files import stamp
from ablate.store.outcome import Status
from ablate.store.study_record import StudyRecord, study_key
from ablate.store.workspace import Workspace, running_driver
from ablate.study.study import Study
from ablate.trial.user.user_code import is_users

SIMPLE = (str, bytes, int, float, bool, complex, type(None))
CODE = (".py", ".toml", ".txt", ".so")  # of this package: what decides how a study is run
VARIABLES = ("ABLATE_", "OMP_", "SOURCE_DATE_EPOCH")
CHANGING = ("driver.json", "finished.json")  # of a study's folder: the lock, and the note itself
LONGEST_PATH = 1000  # of a text in a study that might name a file or a folder
MOST_FILES = 10_000  # in a folder that a study names: to look at more takes too long
LIBRARIES = "site-packages"  # of other environments too: their versions are compared, not files
SQLITE = "sqlite:///"
# Every run of the database that shows the study or one of its trials, with all its tags.
RUNS = """
SELECT r.run_uuid, r.experiment_id, r.status, r.lifecycle_stage, r.end_time,
       (SELECT count(*) FROM metrics m WHERE m.run_uuid = r.run_uuid),
       (SELECT count(*) FROM params p WHERE p.run_uuid = r.run_uuid), t.key, t.value
FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid
WHERE r.experiment_id IN (SELECT experiment_id FROM experiments WHERE name = :name
                          AND lifecycle_stage = 'active')
   OR r.run_uuid IN (SELECT run_uuid FROM tags WHERE value IN (SELECT value FROM json_each(:ids)))
ORDER BY r.run_uuid, t.key
"""


class _Unknown(Exception):
    """Something that this file cannot compare."""


def made_from(study: Study, scale: str | None, workspace: Workspace, command: str) -> str | None:
    """The hash of all that a plan is made from, or None if some of it cannot be compared.

    It is taken before a run, which reads the same files later: an edit in between is noticed.
    """
    if not study.file or workspace.store.folder is None:
        return None
    if not workspace.tracking_uri.startswith(SQLITE):
        return None
    name, chosen = study.scale(scale)
    stages = (*chosen.stages, *(stage for arm in study.design.arms for stage in arm.then))
    if chosen.settings_of or chosen.search or any(stage.search for stage in stages):
        return None
    try:
        described = list(_described(study))
        read = [*_code(), *_read(study, described)]
    except (_Unknown, OSError, RecursionError):
        return None
    places = dataclasses.astuple(workspace)
    variables = [item for item in sorted(os.environ.items()) if item[0].startswith(VARIABLES)]
    here = (os.getcwd(), sys.version, sys.prefix, os.cpu_count())
    return digest(repr((name, command, places, variables, here, described, read)))


def data_of(workspace: Workspace) -> str:
    """The hash of the workspace's corpora, which planning a study downloads and encodes."""
    return digest([*map(list, _stamped(Path(workspace.data)))])


def note(workspace: Workspace, record: StudyRecord, made: str | None, data: str, page: str) -> None:
    """Note that a study is complete, delivered and reported."""
    if made is None:
        return
    # Without a note, the next run only takes longer.
    with suppress(_Unknown, AblateError, OSError, sqlite3.Error):
        plain = {"from": made, "data": data, "made": _made(workspace, record), "page": page}
        workspace.store.write_json(_key(record.key), plain)


def forget(workspace: Workspace, key: str) -> None:
    """Take the note back, since a run begins."""
    if workspace.store.exists(_key(key)):
        workspace.store.delete(_key(key))


def unchanged(
    workspace: Workspace, study: Study, scale: str | None, made: str | None
) -> tuple[StudyRecord, str] | None:
    """The record of a study that has nothing left to do, and its page in MLflow; None if a run has
    to find out."""
    from ablate.store import study_record

    key = study_key(study.name, study.scale(scale)[0])
    try:
        noted = workspace.store.read_json(_key(key)) if made is not None else None
        if noted is None or noted.get("from") != made or running_driver(workspace, key):
            return None
        record = study_record.read(workspace.store, key)
        same = record.key == key and noted.get("data") == data_of(workspace)
        same = same and noted.get("made") == _made(workspace, record)
        return (record, str(noted.get("page", ""))) if same else None
    except (_Unknown, AblateError, OSError, sqlite3.Error):
        return None  # the run says what is wrong


def _key(key: str) -> str:
    return f"studies/{key}/finished.json"


def _made(workspace: Workspace, record: StudyRecord) -> str:
    """The hash of all that a finished study has made: its files, its trials, its records."""
    store, name = Path(str(workspace.store.folder)), record.key
    found = journals.read_all(workspace.store, record.trial_ids())
    ids = sorted(record.trial_ids())
    if any(i not in found or found[i].status != Status.COMPLETED for i in ids):
        raise _Unknown
    kept = dict.fromkeys((workspace.study_folder(name), store / "studies" / name))
    files = [one for folder in kept for one in _hashed(folder)]
    trials = [one for i in ids for one in _stamped(store / "trials" / i)]
    texts = [_hash(store / "trials" / i / "journal.json") for i in ids]
    shown = [(path, size) for path, size, _ in _stamped(workspace.artifacts / name)]
    return digest(repr((files, trials, texts, shown, _runs(workspace, name, ids))))


def _runs(workspace: Workspace, name: str, ids: Sequence[str]) -> list[Any]:
    """The rows of the study's runs in the database, which is only read."""
    path = Path(workspace.tracking_uri.removeprefix(SQLITE))
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        rows = database.execute(RUNS, {"name": name, "ids": json.dumps(ids)}).fetchall()
    recorded = {value for *_, key, value in rows if value in set(ids)}
    if recorded != set(ids):
        raise _Unknown
    return rows


def _described(value: Any) -> Iterator[object]:
    """A value of a study as plain data, the same in every process. A function is described by its
    name and by what it encloses; its code is in a file that is hashed."""
    if isinstance(value, SIMPLE):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value).__qualname__
        for field in dataclasses.fields(value):
            yield field.name
            yield from _described(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield len(value)
        for key, own in value.items():
            yield from _described(key)
            yield from _described(own)
    elif isinstance(value, list | tuple):
        yield type(value).__name__, len(value)
        for own in value:
            yield from _described(own)
    elif isinstance(value, FunctionType):
        yield value.__module__, value.__qualname__
        for own in (value.__defaults__, value.__kwdefaults__):
            yield from _described(own)
        for cell in value.__closure__ or ():
            yield from _described(cell.cell_contents)
    else:
        raise _Unknown


def _read(study: Study, described: Iterable[object]) -> list[object]:
    """The hashes of the files that a study names, or that its file has imported, and of spaces; and
    the stamps of all files in the folders that a study names, as texts may be large."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    own = (file for file in modules if file and LIBRARIES not in file and is_users(file))
    imported = {str(Path(file).resolve()) for file in own}
    texts = {text for text in described if isinstance(text, str) and 0 < len(text) < LONGEST_PATH}
    beside = Path(study.file).resolve().parent
    paths = {path for text in texts if (path := _path(text))}
    named = {str(place / path) for path in paths for place in (Path(), beside)}
    spaces = [path for folder in folders(Path(study.file)) for path in folder.glob("*.toml")]
    files = {study.file, *imported, *named, *map(str, here()), *map(str, spaces)}
    hashes = [(path, _hash(Path(path))) for path in sorted(files) if os.path.isfile(path)]
    return [*hashes, *(one for path in sorted(named) for one in _stamps_in(path))]


def _path(text: str) -> str:
    """What a text of a study would be as a path; the name of a corpus may say that it is one."""
    path = text.removeprefix("folder:")
    return "" if "\0" in path else os.path.expanduser(path)


def _stamps_in(folder: str) -> Iterator[tuple[str, list[int]]]:
    """The stamps of the files below a folder."""
    for number, (path, *_) in enumerate(_stamped(Path(folder))):
        if number == MOST_FILES:
            raise _Unknown
        yield path, stamp(Path(path))


def _code() -> Iterator[object]:
    """The stamps of this package's files, and the versions of all packages."""
    yield from (one for one in _stamped(Path(__file__).parents[1]) if one[0].endswith(CODE))
    for place in sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}):
        yield sorted(name for name in os.listdir(place) if name.endswith("-info"))


def _stamped(folder: Path) -> Iterator[tuple[str, int, int]]:
    """The files below a folder: path, size, time of change."""
    for at, inner, files in os.walk(folder, followlinks=True):
        inner.sort()
        for name in sorted(files):
            stat = os.stat(os.path.join(at, name))
            yield os.path.join(at, name), stat.st_size, stat.st_mtime_ns


def _hashed(folder: Path) -> Iterator[tuple[str, str]]:
    """The files below a folder with their contents, except those that every driver changes."""
    for path, *_ in _stamped(folder):
        if os.path.basename(path) not in CHANGING:
            yield path, _hash(Path(path))


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
