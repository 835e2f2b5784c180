"""`make test-node`: k8s/overlays/plain on a real node, whose pods are then killed.

A kubelet, containerd and runc run the pods of the overlay with an image of `k8s/image.sh`. However
a study is disturbed, it ends with the results of a local run, bit for bit. It needs root, and an
hour where nothing is in the cache; minutes after that.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.node.node import NEEDED, STORE, Node, num_epochs, results, wait_for
from tests.support.places import ROOT

pytestmark = pytest.mark.timeout(4 * 3600)
README = (ROOT / "k8s" / "README.md").read_text()
LAPTOP = ("studies/digits_cnn.py", "--workers", "2")


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    missing = [program for program in NEEDED if shutil.which(program) is None]
    assert not missing, f"not installed: {', '.join(missing)}"
    with Node() as running:
        yield running


@pytest.fixture(scope="session")
def applied(node: Node) -> Node:
    """The overlay, by the page's own commands."""
    [section] = re.findall(r"^## In eight commands\n(.*?)^## ", README, re.M | re.S)
    for command in "".join(re.findall(r"```sh\n(.*?)```", section, re.S)).splitlines():
        print(command)
        if "port-forward" in command:
            assert node.answers(command, "http://127.0.0.1:5000/health")
        elif "image" not in command:
            node.shell(command)
        if command == "kubectl apply -k k8s/overlays/plain":
            node.answer_names()
    return node


def locally(folder: Path, *words: str) -> dict[str, Any]:
    """The results of a study on this machine, without Ray."""
    command = [sys.executable, "-m", "ablate", "study", *words, "--local", "--workspace", folder]
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return results(folder / "store")


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return locally(tmp_path_factory.mktemp("laptop"), LAPTOP[0])


def force(node: Node, pod: str) -> None:
    node.kubectl("delete", "pod", pod, "--force", "--grace-period=0")


def drivers(node: Node) -> list[str]:
    return node.kubectl("get", "pods", "-l", "job-name=study", "-o", "name").split()


def drain(node: Node) -> None:
    """Ask every pod to leave, as for a new kernel; and take the node back."""
    node.kubectl("drain", "ablate-node", "--ignore-daemonsets", "--delete-emptydir-data", "--force")
    node.kubectl("uncordon", "ablate-node")


DISTURBED = {
    "nothing": lambda node: None,
    "a worker": lambda node: force(node, "worker-0"),
    "the head": lambda node: force(node, "head-0"),
    "the driver": lambda node: force(node, drivers(node)[0].removeprefix("pod/")),
    "mlflow": lambda node: force(node, "mlflow-0"),
    "the node drained": drain,
}


def test_the_first_study_is_that_of_a_local_run(applied: Node, tmp_path: Path) -> None:
    found = results(STORE)
    assert found == locally(tmp_path, "studies/doc_layer_mix.py", "--scale", "smoke")


@pytest.mark.parametrize("what", DISTURBED)
def test_the_results_are_those_of_a_local_run(
    applied: Node, undisturbed: dict[str, Any], what: str
) -> None:
    applied.kubectl("delete", "job", "study", "--ignore-not-found", "--wait")
    for part in STORE.iterdir():
        shutil.rmtree(part) if part.is_dir() else part.unlink()
    start = time.monotonic()
    applied.start(*LAPTOP)
    wait_for(lambda: num_epochs(STORE) >= 8, "eight epochs")
    print(f"{what}: after {time.monotonic() - start:.0f} s and {num_epochs(STORE)} epochs")
    DISTURBED[what](applied)
    wait_for(applied.done, "the end of the study")
    print(f"{what}: done after {time.monotonic() - start:.0f} s, {len(drivers(applied))} drivers")
    assert results(STORE) == undisturbed
