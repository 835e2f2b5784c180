"""The build stage of `k8s/Dockerfile` copies all that pip needs; `make test-image` builds it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.places import ROOT

BUILD = "from setuptools import build_meta; build_meta.build_wheel({!r})"


def copied(stage: str) -> list[tuple[str, ...]]:
    """Return the words of each COPY from the checkout in one stage of the Dockerfile."""
    text = (ROOT / "k8s" / "Dockerfile").read_text()
    [body] = re.findall(rf"^FROM \S+ AS {stage}$(.*?)(?=^FROM |\Z)", text, re.S | re.M)
    return [tuple(words.split()) for words in re.findall(r"^COPY (?!--from)(.*)$", body, re.M)]


def context(folder: Path) -> Path:
    """Lay a folder out as the build stage does."""
    for *sources, target in copied("build"):
        for name in sources:
            if (ROOT / name).is_dir():
                leave_out = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, folder / target, ignore=leave_out)
            else:
                shutil.copy(ROOT / name, folder / target)
    return folder


def test_the_build_stage_has_all_that_the_package_is_built_from(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    command = [sys.executable, "-c", BUILD.format(str(tmp_path))]
    done = subprocess.run(command, cwd=context(source), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    [wheel] = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"ablate/cli.py", "ablate/studies/doc_layer_mix.py"} <= names
    assert any(name.startswith("ablate/search_spaces/") for name in names)


def test_the_context_holds_all_that_the_dockerfile_copies():
    """An entry of the ignore file that hides a copied path fails a build, and only there."""
    ignored = (ROOT / "k8s" / "Dockerfile.dockerignore").read_text().split()
    shown = {line[1:] for line in ignored if line.startswith("!")}
    sources = {name for stage in ("build", "cpu") for words in copied(stage) for name in words[:-1]}
    assert sources <= shown
