"""What the Kustomize tree renders to, and the pods that would come of it."""

from __future__ import annotations

import copy
import functools
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import places

ROOT = places.ROOT
TREE = ROOT / "k8s"
PLATFORMS = ("kuberay", "kueue")
PLAIN = ("plain", "plain/study", "plain/logins", "plain/logins/study")  # without an operator
RENDERED = tuple(f"{name}{part}" for name in PLATFORMS for part in ("", "/study"))
SCHEMAS = places.SCHEMAS / "kuberay-1.7.0.json"

# What the README tells to add: a name -> the file, and its new lines.
VARIANTS: Mapping[str, tuple[str, str]] = {
    "own-postgres": (
        "overlays/kuberay/kustomization.yaml",
        "  - ../../components/own-postgres\n  - ../../components/downloads\n",
    ),
    "bucket": ("ray/kustomization.yaml", "components: [../components/bucket]\n"),
    "spot": (
        "ray/kustomization.yaml",
        "".join(re.findall(r"```yaml\n(.*?)```", (TREE / "README.md").read_text(), re.S)),
    ),
}


def _command() -> list[str]:
    """A Kustomize: the one in `kubectl` needs no server."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    pytest.skip("neither kustomize nor kubectl is installed")


def build(folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run([*_command(), str(folder)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr  # warnings of deprecated fields
    return list(yaml.safe_load_all(done.stdout))


@functools.cache
def _objects(name: str) -> list[dict[str, Any]]:
    return build(TREE / "overlays" / name)


def of_administrators() -> list[dict[str, Any]]:
    """The objects that belong to no namespace, which only a cluster's administrators can apply."""
    text = (TREE / "overlays" / "kueue" / "for-administrators.yaml").read_text()
    return list(yaml.safe_load_all(text))


def objects(name: str) -> list[dict[str, Any]]:
    """The objects of an overlay, or of its study."""
    return copy.deepcopy(_objects(name))


def together(platform: str) -> list[dict[str, Any]]:
    """All objects of an overlay while a study runs in it."""
    return objects(platform) + objects(f"{platform}/study")


def variant(name: str, folder: Path, platform: str = "kuberay") -> list[dict[str, Any]]:
    """The objects of an overlay and its study with one of VARIANTS, from a copy of the tree."""
    tree = folder / name
    if not tree.exists():
        shutil.copytree(TREE, tree)
        file, text = VARIANTS[name]
        with (tree / file).open("a") as changed:
            changed.write(text)
    return [*build(tree / "overlays" / platform), *build(tree / "overlays" / platform / "study")]


@dataclass(frozen=True)
class Pod:
    """A pod made from an object, with the additions of the operator."""

    name: str
    kind: str
    labels: Mapping[str, str]
    spec: Mapping[str, Any]
    count: tuple[int, int] = (1, 1)  # at least, at most

    @property
    def containers(self) -> list[Mapping[str, Any]]:
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]


def pods(objects: Sequence[Mapping[str, Any]]) -> list[Pod]:
    return [pod for item in objects for pod in _pods_of(item)]


def _pods_of(item: Mapping[str, Any]) -> Iterator[Pod]:
    name, kind, spec = item["metadata"]["name"], item["kind"], item.get("spec", {})
    if kind == "RayCluster":
        yield from _ray_pods(name, spec)
    elif kind == "RayJob":
        yield from _ray_pods(name, spec["rayClusterSpec"])
        template = spec["submitterPodTemplate"]
        yield Pod(f"{name}-submitter", kind, template["metadata"]["labels"], template["spec"])
    elif kind in ("Deployment", "StatefulSet", "Job"):
        template = spec["template"]
        number = spec.get("replicas", 1)
        yield Pod(name, kind, template["metadata"]["labels"], template["spec"], (number, number))
    elif kind == "CronJob":
        template = spec["jobTemplate"]["spec"]["template"]
        yield Pod(name, kind, template["metadata"]["labels"], template["spec"], (0, 1))


def _ray_pods(name: str, spec: Mapping[str, Any]) -> Iterator[Pod]:
    head = copy.deepcopy(spec["headGroupSpec"]["template"]["spec"])
    if spec.get("enableInTreeAutoscaling"):
        options = spec["autoscalerOptions"]
        shared = ("resources", "securityContext", "volumeMounts", "env", "envFrom")
        head["containers"].append(
            {
                "name": "autoscaler",
                "image": head["containers"][0]["image"],
                **{key: options[key] for key in shared if key in options},
            }
        )
    own = spec["headGroupSpec"]["template"]["metadata"]["labels"]
    yield Pod(f"{name}-head", "Ray", {**own, **_ray_labels(name, "head")}, head)
    for group in spec["workerGroupSpecs"]:
        yield Pod(
            f"{name}-{group['groupName']}",
            "Ray",
            _ray_labels(name, "worker"),
            group["template"]["spec"],
            (group["minReplicas"], group["maxReplicas"]),
        )


def _ray_labels(cluster: str, node_type: str) -> dict[str, str]:
    return {
        "ray.io/cluster": cluster,
        "ray.io/node-type": node_type,
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }


def ray_specs(objects: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The cluster specs among objects: of RayClusters and of RayJobs."""
    clusters = [item["spec"] for item in objects if item["kind"] == "RayCluster"]
    return clusters + [
        item["spec"]["rayClusterSpec"] for item in objects if item["kind"] == "RayJob"
    ]


def amount(text: str) -> float:
    """Cores, gibibytes, or a number."""
    number, unit = re.fullmatch(r"([\d.]+)([A-Za-z]*)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"": 1, "m": 1e-3, "Mi": 2**-10, "Gi": 1}[unit]


def asked(objects: Sequence[Mapping[str, Any]], bound: int) -> dict[str, float]:
    """What a quota would count of objects and their pods: the fewest (0) or the most (1)."""
    total: dict[str, float] = dict.fromkeys(COUNTED, 0.0)
    for pod in pods(objects):
        total["pods"] += pod.count[bound]
        for place, name in OF_CONTAINERS:
            total[f"{place}.{name}"] += _of_pod(pod, place, name) * pod.count[bound]
        total["requests.nvidia.com/gpu"] += _of_pod(pod, "requests", GPU) * pod.count[bound]
    for claim in of_kind(objects, "PersistentVolumeClaim"):
        total["persistentvolumeclaims"] += 1
        total["requests.storage"] += amount(claim["spec"]["resources"]["requests"]["storage"])
    return total


GPU = "nvidia.com/gpu"
OF_CONTAINERS = (
    ("requests", "cpu"),
    ("requests", "memory"),
    ("limits", "memory"),
    ("requests", "ephemeral-storage"),
)
COUNTED = (
    "requests.cpu",
    "requests.memory",
    "limits.memory",
    "requests.ephemeral-storage",
    "requests.nvidia.com/gpu",
    "requests.storage",
    "persistentvolumeclaims",
    "pods",
)


def _of_pod(pod: Pod, place: str, name: str) -> float:
    """What a pod asks for: of all containers together, or of the largest one before they start."""

    def of(container: Mapping[str, Any]) -> float:
        return amount(container["resources"].get(place, {}).get(name, "0"))

    first = [of(container) for container in pod.spec.get("initContainers", [])]
    return max([sum(of(container) for container in pod.spec["containers"]), *first])


def of_kind(objects: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [item for item in objects if item["kind"] == kind]


def secrets(tmp_environment: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    """The result of the documented command: Secret -> key -> value."""
    done = subprocess.run(
        ["sh", str(TREE / "make-secrets.sh")],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", **(tmp_environment or {})},
    )
    made = list(yaml.safe_load_all(done.stdout))
    assert all(item["kind"] == "Secret" for item in made)
    return {item["metadata"]["name"]: item["stringData"] for item in made}
