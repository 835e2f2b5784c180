"""`make test-image`: `k8s/Dockerfile` built without Docker, over a base of Debian's packages.

`buildah` builds the stage `cpu` over a base from debootstrap instead of the official Python image.
pip asks whatever index this machine is set up for. The finished image says its version and runs a
study, as its user. It needs root and takes minutes, so it is not among the usual tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.places import ROOT

BUILD_SECONDS = 3600
pytestmark = pytest.mark.timeout(BUILD_SECONDS)
BASE = "docker.io/library/python:3.11-slim-bookworm"
IMAGE = "localhost/ablate:test-cpu"
NEEDED = {"buildah": "buildah", "debootstrap": "debootstrap"}
PYTHON = "python3,python3-venv,python-is-python3,ca-certificates"


def run(*words: str | Path) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def pip_settings() -> dict[str, str]:
    """Return what this machine's pip is set up with: name of a setting -> value."""
    shown = run(sys.executable, "-m", "pip", "config", "list")
    settings = re.findall(r"^(?:global|user|site|:env:)\.([\w-]+)='(.*)'$", shown, re.MULTILINE)
    return {name: value for name, value in settings if name != "constraint"}


def mounts(settings: dict[str, str], folder: Path) -> Iterator[str]:
    """Yield options that show pip in the image the same indexes, and the same files."""
    file = folder / "pip.conf"
    lines = (f"{name} = {value}" for name, value in settings.items())
    file.write_text("[global]\n" + "\n".join(lines) + "\n")
    yield f"--volume={file}:/etc/pip.conf:ro"
    words = {word for value in settings.values() for word in value.split()}
    places = {urlsplit(word).path if word.startswith("file:") else word for word in words}
    for place in sorted(places):
        if place.startswith("/") and Path(place).exists():
            inside = place.removesuffix("/simple")  # an index refers to files beside it
            yield f"--volume={inside}:{inside}:ro"


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> str:
    missing = [package for name, package in NEEDED.items() if shutil.which(name) is None]
    assert not missing, f"apt-get install {' '.join(missing)}"
    assert os.geteuid() == 0, "debootstrap needs root"
    folder = tmp_path_factory.mktemp("image")
    run("debootstrap", "--variant=minbase", f"--include={PYTHON}", "bookworm", folder / "root")
    container = run("buildah", "from", "scratch").strip()
    run("buildah", "copy", "--quiet", container, folder / "root", "/")
    run("buildah", "commit", "--rm", container, BASE)
    shutil.rmtree(folder / "root")
    command = ("buildah", "build", "--pull-never", "--isolation=chroot", "--network=host")
    file = ROOT / "k8s" / "Dockerfile"
    ignored = f"--ignorefile={file}.dockerignore"
    options = (*mounts(pip_settings(), folder), ignored, f"--file={file}", f"--tag={IMAGE}")
    run(*command, *options, "--target=cpu", ROOT)
    return IMAGE


def in_container(image: str, *words: str) -> str:
    container = run("buildah", "from", "--pull-never", image).strip()
    try:
        return run("buildah", "run", "--isolation=chroot", container, "--", *words)
    finally:
        run("buildah", "rm", container)


def test_the_image_runs_ablate_as_a_user_without_rights(image):
    assert in_container(image, "ablate", "--version").startswith("ablate ")
    assert in_container(image, "id", "-u").strip() == "1000"


def test_the_image_finds_its_studies_and_runs_one(image):
    assert "doc_layer_mix" in in_container(image, "ablate", "studies")
    study = ("ablate", "study", "studies/doc_layer_mix.py", "--scale", "smoke", "--local")
    assert in_container(image, *study).startswith("doc_layer_mix@smoke")
