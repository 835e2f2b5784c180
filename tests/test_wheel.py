"""What `pip install` brings: a wheel is built, unpacked or installed outside the repository, and
used there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from ablate import cli
from ablate.lm.model.native.library import COMPILERS
from ablate.store import journal as journals
from ablate.store.store import Store
from tests.support import bare, places

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

JUDGE = ("judge", "runs.csv", "--arm", "model", "--metric", "acc", "--better", "higher")
# What the referee does without, and a study of plain functions without the first.
HEAVY = ("torch", "ray", "mlflow", "optuna", "duckdb", "jinja2", "safetensors")
RIDGE = """
from dataclasses import dataclass

import numpy as np

from ablate import Arm, Metric, Scale, Study, setting, table, task


@dataclass(frozen=True, kw_only=True)
class Ridge:
    strength: float = setting(0.0, doc="of the pull towards zero", low=0)


@task("ridge", config=Ridge, metrics=Metric("error"))
def train(run):
    draws, state = np.random.default_rng(run.seed), {"w": np.zeros(20), "none": np.zeros(0)}
    inputs = draws.normal(size=(60, 20))
    targets = inputs[:, 0] + draws.normal(size=60)
    for _ in run.epochs(state, draws, total=4, best=True):
        rows = draws.permutation(30)[:20]
        off = inputs[rows] @ state["w"] - targets[rows] + np.random.normal()
        state["w"] -= 0.01 * (inputs[rows].T @ off + run.config.strength * state["w"])
        yield {"valid_error": np.mean((inputs[30:] @ state["w"] - targets[30:]) ** 2)}
    return {"test_error": float(np.mean(state["w"]))}


study = Study(
    question="Does a pull towards zero help a regression?",
    base={"task": "ridge"},
    base_arm="plain",
    design=table(Arm("plain"), Arm("pulled", {"ridge.strength": 3.0})),
    scales={"laptop": Scale(seeds=3)},
)
"""
# Two epochs; then the checkpoint's states and bytes, and the numbers of the trial that goes on.
CUT = """
import sys
from pathlib import Path
sys.path.insert(0, ".")
import ridge
from ablate.config.identity import make_trial
from ablate.config.resolve import resolve
from ablate.store.store import Store
from ablate.trial import checkpoint
from ablate.trial.run import TrialRun

values = {"task": "ridge"}
trial = make_trial(resolve(values), values=values, seed=1, corpus_digest="", reads_test=True)
store = Store(sys.argv[1])
run = TrialRun(trial, store, "data")
while len(run.journal.epochs) < 2:
    run.advance(60)
run.save()
data = store.read(checkpoint.last_key(trial.id))
_, plain = checkpoint.read(store, checkpoint.last_key(trial.id))
again = TrialRun(trial, store, "data")
while not again.advance(60):
    pass
header = 8 + int.from_bytes(data[:8], "little")
print(trial.id, plain["task"]["states"], data[header:].hex(), again.journal.outcome.metrics)
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
    with zipfile.ZipFile(wheel_in(folder)) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def site(source, tmp_path_factory) -> Path:
    return unpacked(source, tmp_path_factory.mktemp("wheel"))


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


def without(python: Path, *names: str, folder: Path) -> bool:
    """Whether that Python can import none of these."""
    script = f"from importlib.util import find_spec; print(*filter(find_spec, {names}))"
    return bare.ran(python, "-c", script, folder=folder).stdout == "\n"


def test_the_referee_weighs_at_most_400_megabytes(site):
    own = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6
    assert bare.megabytes(bare.required()) + own < 400


@pytest.mark.slow
def test_a_bare_wheel_judges(site, tmp_path, monkeypatch, capsys):
    """As with everything installed; what it lacks has a line that installs it."""
    python = bare.installed(wheel_in(site.parent), tmp_path / "bare")
    shutil.copy(places.DOCS / "runs.csv", tmp_path)
    assert without(python, *HEAVY, folder=tmp_path)

    def ablate(*words: str) -> subprocess.CompletedProcess[str]:
        return bare.ran(python, "-m", "ablate", *words, folder=tmp_path)

    monkeypatch.chdir(tmp_path)
    assert cli.main([*JUDGE]) == 0
    assert ablate(*JUDGE).stdout == capsys.readouterr().out
    assert ablate(*JUDGE, "--keep", "mine").returncode == 0
    assert "better" in ablate("table", "mine").stdout
    for command, extra in [
        (("query", "SELECT 1"), "query"),
        ((*JUDGE, "--format", "html"), "page"),
        (("study", "digits_linear"), "study"),
    ]:
        answer = ablate(*command)
        assert answer.returncode == 7
        assert answer.stderr.endswith(f"Install it with: pip install 'ablate-studies[{extra}]'\n")


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_study_of_plain_functions_needs_no_torch(site, tmp_path):
    """Here and over Ray; its trials are cut and go on with the same bits as where torch is."""
    python = bare.installed(wheel_in(site.parent), tmp_path / "bare", "study")
    (tmp_path / "ridge.py").write_text(RIDGE)
    assert without(python, "torch", folder=tmp_path)

    def ablate(*words: str) -> str:
        done = bare.ran(python, "-m", "ablate", *words, folder=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    for options in (("--local", "--workspace", "here"), ("--workspace", "over_ray")):
        assert ablate("study", "ridge.py", *options).startswith("ridge@laptop")
    here, over_ray = (
        (tmp_path / name / "studies" / "ridge@laptop" / "table.md").read_text()
        for name in ("here", "over_ray")
    )
    assert re.sub(r"\d+s of training", "", here) == re.sub(r"\d+s of training", "", over_ray)
    cut = bare.ran(python, "-c", CUT, "cut", folder=tmp_path)
    assert cut.stdout == ran("-c", CUT, "with torch", folder=tmp_path, path=site), cut.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_wheel_runs_a_shipped_study_in_an_empty_folder(site, tmp_path):
    """A copy to edit that builds on another study, with the kernels of the wheel."""
    folder = tmp_path / "empty"
    folder.mkdir()

    def ablate(*words: str) -> str:
        return ran("-c", RUN, *words, folder=folder, path=site)

    shipped = {path.name for path in site.rglob("*.py")}
    assert {file.name for file in places.STUDIES.glob("*.py")} <= shipped
    ablate("studies", "iog_words", "--copy", ".")
    assert [path.name for path in folder.iterdir()] == ["iog_words.py"]
    table = ablate("study", "iog_words.py", "--scale", "smoke", "--seeds", "1", "--local")
    assert table.startswith("iog_words@smoke")
    made = journals.read_all(Store(str(folder / ".ablate" / "store"))).values()
    by_kernels = {
        any(each.startswith("kernels: ") for each in journal.last_attempt.computed_by)
        for journal in made
    }
    assert by_kernels == {any(map(shutil.which, COMPILERS))}


def test_a_source_archive_makes_the_same_wheel(source, site, tmp_path):
    ran("-c", BUILD.format("sdist", str(tmp_path)), folder=source)
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "from", filter="data")
    (folder,) = (tmp_path / "from").iterdir()
    again = unpacked(folder, tmp_path)

    def contents(place: Path) -> set[Path]:
        files = (path.relative_to(place) for path in place.rglob("*") if path.is_file())
        return {path for path in files if path.parts[0] == "ablate" and path.suffix != ".pyc"}

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
