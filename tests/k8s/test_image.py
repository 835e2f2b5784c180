"""`k8s/Dockerfile` copies all that pip needs, and `k8s/image.sh` makes the same image.

`make test-image` builds the one, and `make test-node` runs pods of the other.
"""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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


# What both say in the same words: the user, the folders, pip's environment, the extras of ablate.
SHARED = (
    r"groupadd [^&\n]*\w",
    r"useradd [^&\n]*\w",
    r"install --directory [^&\n]*\w",
    r"-m venv /\S+",
    r"--constraint \S+",
    r"\[[a-z,]+\](?=')",
)


def read(name: str) -> str:
    """The text of one of the two, with each command on a line."""
    return (ROOT / "k8s" / name).read_text().replace("\\\n", " ")


@pytest.mark.parametrize("pattern", SHARED)
def test_both_images_are_made_by_the_same(pattern: str) -> None:
    docker, script = (set(re.findall(pattern, read(name))) for name in ("Dockerfile", "image.sh"))
    assert docker == script != set()


def test_the_script_installs_the_dockerfiles_packages_and_studies() -> None:
    [of_docker] = re.findall(r"--no-install-recommends ([^&]*)&&", read("Dockerfile"))
    [of_script] = re.findall(r"--include=(\S+) bookworm", read("image.sh"))
    assert set(of_docker.split()) <= set(of_script.split(","))
    assert copied("cpu") == [("studies", "studies")]  # to /opt/ablate
    assert 'cp -R studies "$root/opt/ablate/"' in read("image.sh")


def test_the_packed_image_has_the_dockerfiles_settings() -> None:
    settings = runpy.run_path(str(ROOT / "k8s" / "pack_image.py"))["settings"]
    found = settings((ROOT / "k8s" / "Dockerfile").read_text())
    stage = read("Dockerfile").split("FROM ")[2]
    [variables] = re.findall(r"^ENV (.*)$", stage, re.M)
    assert {each.partition("=")[0] for each in found["Env"]} == set(
        re.findall(r"(\w+)=", variables)
    )
    assert found["Env"][0].startswith("PATH=/opt/venv/bin:/usr") and "HOME=/work" in found["Env"]
    assert found["User"] == "1000:1000" and found["WorkingDir"] == "/opt/ablate"
    assert found["Cmd"] == ["ablate", "doctor"] and "ENTRYPOINT" not in stage
