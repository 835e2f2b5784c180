"""The user's own code on its way to workers: the files beside a study, as Ray's working directory.

Python and TOML files travel, of the study's folder and of the packages in it; nothing hidden, no
environments, no data. Files of techniques that lie elsewhere travel too. A worker finds a file by
its name in the parcel, whatever its path was on the driver.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ablate.errors import StudyError
from ablate.identity import digest

SUFFIXES = (".py", ".toml")
MOST_FILES, MOST_BYTES = 2000, 20_000_000


def pack(study_file: str, techniques: Sequence[str], folder: Path) -> dict[str, str]:
    """Copy what workers need into `folder`; path of each technique's file -> its name there."""
    beside = Path(study_file).resolve().parent if study_file else None
    if beside is not None and beside.is_dir():
        _copy(beside, folder)
    return {path: _placed(Path(path), beside, folder) for path in techniques}


def _copy(beside: Path, folder: Path) -> None:
    num_files = num_bytes = 0
    for file in _files(beside):
        num_files, num_bytes = num_files + 1, num_bytes + file.stat().st_size
        if num_files > MOST_FILES or num_bytes > MOST_BYTES:
            raise StudyError(
                f"{beside} has more than {MOST_FILES} files or {MOST_BYTES // 10**6} MB of Python "
                "and TOML, which would travel to every worker. Put the study and what it needs "
                "into a folder of its own."
            )
        _put(file, folder / file.relative_to(beside))


def _files(beside: Path) -> Iterator[Path]:
    for path in sorted(beside.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_file() and path.suffix in SUFFIXES:
            yield path
        elif (path / "__init__.py").is_file():
            yield from _files(path)


def _placed(file: Path, beside: Path | None, folder: Path) -> str:
    """The file's name in the parcel; one that came from elsewhere is put in."""
    inside = beside is not None and file.is_relative_to(beside)
    name = file.relative_to(beside) if inside and beside else Path(digest(str(file))) / file.name
    if not (folder / name).exists():
        _put(file, folder / name)
    return name.as_posix()


def _put(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, place)
    os.utime(place, (0, 0))  # Ray names a parcel by what is in it


def unpacked(modules: Mapping[str, str]) -> dict[str, str]:
    """On a worker: path on the driver -> path here. Ray starts workers in the parcel."""
    return {path: str(Path.cwd() / name) for path, name in modules.items()}
