"""The user's code, sent to workers: the files next to a study, as Ray's working directory.

It contains the Python and TOML files of the study's folder and of the packages in it; no hidden
files, environments or data. Technique files from other folders are included too. A worker finds a
file by its name in the parcel, whatever its path was on the driver.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ablate.config.identity import digest
from ablate.errors import StudyError

SUFFIXES = (".py", ".toml")
MOST_FILES, MOST_BYTES = 2000, 20_000_000


def pack(study_file: str, techniques: Sequence[str], folder: Path) -> dict[str, str]:
    """Copy what workers need to `folder`; return technique file's path -> its name there."""
    folder.mkdir()
    study_folder = Path(study_file).resolve().parent if study_file else None
    if study_folder is not None and study_folder.is_dir():
        _copy(study_folder, folder)
    return {path: _placed(Path(path), study_folder, folder) for path in techniques}


def _copy(study_folder: Path, folder: Path) -> None:
    num_files = num_bytes = 0
    for file in _files(study_folder):
        num_files, num_bytes = num_files + 1, num_bytes + file.stat().st_size
        if num_files > MOST_FILES or num_bytes > MOST_BYTES:
            raise StudyError(
                f"{study_folder} has more than {MOST_FILES} files or {MOST_BYTES // 10**6} MB of "
                "Python and TOML, which would be sent to every worker. Put the study and what it "
                "needs into a separate folder."
            )
        _put(file, folder / file.relative_to(study_folder))


def _files(study_folder: Path) -> Iterator[Path]:
    for path in sorted(study_folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_file() and path.suffix in SUFFIXES:
            yield path
        elif (path / "__init__.py").is_file():
            yield from _files(path)


def _placed(file: Path, study_folder: Path | None, folder: Path) -> str:
    """The file's name in the parcel; a file from another folder is copied into it."""
    name = Path(digest(str(file))) / file.name
    if study_folder is not None and file.is_relative_to(study_folder):
        name = file.relative_to(study_folder)
    if not (folder / name).exists():
        _put(file, folder / name)
    return name.as_posix()


def _put(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)
    os.utime(target, (0, 0))  # Ray names a parcel by a hash of its contents


def unpacked(modules: Mapping[str, str]) -> dict[str, str]:
    """On a worker, path on the driver -> path here. Ray starts workers in the parcel's folder."""
    return {path: str(Path.cwd() / name) for path, name in modules.items()}
