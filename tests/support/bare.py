"""An empty environment that has a wheel of ours, and nothing but what the wheel asks for.

`python -m tests.support.bare` prints what each extra weighs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from ablate.errors import DISTRIBUTION
from tests.support import places


def required(*extras: str) -> set[str]:
    """The distributions that this project needs with these extras, and what they need."""
    project = tomllib.loads((places.ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    todo = [Requirement(f"{DISTRIBUTION}[{','.join(extras)}]")]
    known: dict[str, Requirement] = {}
    while todo:
        each = todo.pop()
        if str(each) in known:
            continue
        known[str(each)] = each
        if each.name == DISTRIBUTION:
            named = [text for extra in each.extras for text in optional[extra]]
            todo += map(Requirement, [*project["dependencies"], *named])
        else:
            todo += _asked(metadata.requires(each.name) or [], each.extras)
    return {each.name for each in known.values()} - {DISTRIBUTION}


def _asked(texts: list[str], extras: set[str]) -> Iterator[Requirement]:
    for each in map(Requirement, texts):
        named = [{"extra": extra} for extra in (*extras, "")]
        if each.marker is None or any(map(each.marker.evaluate, named)):
            yield each


def megabytes(distributions: set[str]) -> float:
    """What the files of installed distributions weigh."""
    each = map(metadata.distribution, distributions)
    paths = (Path(str(d.locate_file(file))) for d in each for file in d.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def installed(wheel: Path, folder: Path, *extras: str) -> Path:
    """Make the environment, of links to what is installed here, and let pip install the wheel,
    which may look nowhere else; return the environment's Python."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/*/site-packages")
    for name in required(*extras):
        distribution = metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(distribution.locate_file(top))))
    python = folder / "bin" / "python"
    wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    command = [*pip, "--quiet", "--no-index", "--no-compile", wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return python


def ran(python: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run that Python with nothing of this environment's."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(python), *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    for extras in ((), ("query",), ("page",), ("study",), ("lm",), ("all",)):
        print(f"{megabytes(required(*extras)):7,.0f} MB", *extras)
