"""Where search-space files are found by name."""

from __future__ import annotations

from pathlib import Path

from ablate.errors import SpaceError, unknown

FOLDER = "search_spaces"


def folders(near: Path | None = None) -> list[Path]:
    """Where bare names are looked up: from here upwards, beside the study, in the checkout."""
    here = Path.cwd()
    starts = [here, *here.parents]
    if near is not None:
        beside = near.resolve().parent
        starts += [beside, *beside.parents]
    starts.append(Path(__file__).parent.parent)
    candidates = dict.fromkeys(start / FOLDER for start in starts)
    return [folder for folder in candidates if folder.is_dir()]


def find(name: str, near: Path | None) -> Path:
    beside = [near.resolve().parent] if near is not None else []
    if name.endswith(".toml") or "/" in name:
        candidates = [Path(name), *(folder / name for folder in beside)]
    else:
        candidates = [folder / f"{name}.toml" for folder in (*folders(near), *beside)]
    for path in candidates:
        if path.is_file():
            return path
    names = sorted({path.stem for folder in folders(near) for path in folder.glob("*.toml")})
    raise SpaceError(unknown("search space", name, names))
