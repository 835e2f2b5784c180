"""Finding search-space files by name."""

from __future__ import annotations

from pathlib import Path

from ablate.config.plugins import plugins
from ablate.errors import SpaceError, unknown

FOLDER = "search_spaces"


def folders(near: Path | None = None) -> list[Path]:
    """List the folders searched for bare names.

    They are those of the working directory and its parents, those next to the study and above it,
    the shipped one, and those of plug-ins.
    """
    here = Path.cwd()
    starts = [here, *here.parents]
    if near is not None:
        study_folder = near.resolve().parent
        starts += [study_folder, *study_folder.parents]
    package = Path(__file__).parents[1]
    starts += [package.parent, package]  # in a checkout, in an installed wheel
    starts += [plugin.folder for plugin in plugins()]
    candidates = dict.fromkeys(start / FOLDER for start in starts)
    return [folder for folder in candidates if folder.is_dir()]


def find(name: str, near: Path | None) -> Path:
    """Return the path of the file that a study at `near` calls `name`."""
    study_folder = [near.resolve().parent] if near is not None else []
    if name.endswith(".toml") or "/" in name:
        candidates = [Path(name), *(folder / name for folder in study_folder)]
    else:
        own = [*study_folder, Path.cwd()]
        candidates = [folder / f"{name}.toml" for folder in (*folders(near), *own)]
    for path in candidates:
        if path.is_file():
            return path
    names = sorted({path.stem for folder in folders(near) for path in folder.glob("*.toml")})
    raise SpaceError(unknown("search space", name, names))


def here() -> list[Path]:
    """List the TOML files of the working folder, which may be spaces of studies next to them."""
    return sorted(path for path in Path.cwd().glob("*.toml") if path.name != "pyproject.toml")
