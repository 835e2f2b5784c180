"""What `pip install` brings: a wheel is built, unpacked outside the repository, and used there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from ablate.lm.model.native.library import COMPILERS
from tests.support import places

ROOT = places.ROOT
SOURCES = ("ablate", "search_spaces", "studies", "pyproject.toml", "setup.py", "README.md")
BUILD = "from setuptools import build_meta; build_meta.build_{}({!r})"
# As an installed package runs: nothing that the wheel lacks may come from an editable install.
RUN = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]
from ablate.cli import main
sys.exit(main(sys.argv[1:]))
"""
FIND = """
import ablate
from ablate.space import load
print(ablate.__file__, load("takase2018doc_table2").path, sep="\\n")
"""


def ran(*words: str, folder: Path, path: Path | None = None) -> str:
    """Return the output of a command in a folder, with `path` before everything installed."""
    env = {**os.environ, "PYTHONPATH": str(path or "")}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """Copy the sources: building leaves folders behind."""
    folder = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            leave_out = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=leave_out)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def unpacked(source: Path, folder: Path) -> Path:
    """The wheel that setuptools builds of these sources, as pip lays it out."""
    ran("-c", BUILD.format("wheel", str(folder)), folder=source)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def site(source, tmp_path_factory) -> Path:
    return unpacked(source, tmp_path_factory.mktemp("wheel"))


def test_a_wheel_finds_the_recipes_it_brought(site, tmp_path):
    package, recipe = ran("-c", FIND, folder=tmp_path, path=site).splitlines()
    assert Path(package).parent == site / "ablate"
    assert Path(recipe).is_relative_to(site)


def test_a_wheel_has_every_search_space_and_every_package(site, tmp_path):
    shown = ran("-m", "ablate", "spaces", folder=tmp_path, path=site)
    for file in (ROOT / "search_spaces").glob("*.toml"):
        assert file.stem in shown
    ours = {
        path.relative_to(ROOT)
        for path in (ROOT / "ablate").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {path for path in ours if not (site / path).is_file()} == set()
    assert {path.name for path in site.iterdir() if path.suffix != ".dist-info"} == {"ablate"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_wheel_runs_a_shipped_study_in_an_empty_folder(site, tmp_path, monkeypatch):
    """A copy to edit that builds on another study, with the kernels of the wheel."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "empty"
    folder.mkdir()

    def ablate(*words: str) -> str:
        return ran("-c", RUN, *words, folder=folder, path=site)

    index = ablate("studies")
    assert all(file.stem in index for file in places.STUDIES.glob("*.py"))
    ablate("studies", "iog_words", "--copy", ".")
    assert [path.name for path in folder.iterdir()] == ["iog_words.py"]
    table = ablate("study", "iog_words.py", "--scale", "smoke", "--local")
    assert table.startswith("iog_words@smoke")
    built = [path for path in (tmp_path / "cache" / "ablate").glob("*") if path.is_file()]
    assert bool(built) == any(map(shutil.which, COMPILERS))
    assert "4 trials: 4 done, 0 left" in ablate("plan", "iog_words", "--scale", "smoke")


def test_a_source_archive_makes_the_same_wheel(source, site, tmp_path):
    ran("-c", BUILD.format("sdist", str(tmp_path)), folder=source)
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "from", filter="data")
    (folder,) = (tmp_path / "from").iterdir()
    again = unpacked(folder, tmp_path)

    def contents(place: Path) -> set[Path]:
        files = (path.relative_to(place) for path in place.rglob("*") if path.is_file())
        return {path for path in files if path.parts[0] == "ablate"}

    assert contents(again) == contents(site)


def test_every_file_of_the_package_that_is_no_code_is_declared() -> None:
    """Setuptools leaves out what `package-data` does not name, without a word."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = settings["package-data"]["ablate"]
    package = ROOT / "ablate"
    declared = {path for pattern in patterns for path in package.glob(pattern)}
    is_code = (".py", ".pyc")
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix not in is_code}
    assert not files - declared
