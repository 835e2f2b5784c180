"""`make test-cluster`: the manifests and the README's commands on a real Kubernetes API.

etcd, kube-apiserver and its controllers run on loopback, without nodes: objects are admitted and
stored, controllers make pods, quotas count them, and no pod runs. The operators are stood in for by
their CustomResourceDefinitions, and the tests create the pods that KubeRay would.

Not among the usual tests, for the servers are built from source first, which takes minutes.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lab.k8s import servers
from tests.lab.k8s.servers import ControlPlane, Key, key, wait
from tests.support.manifests import (
    PLATFORMS,
    TREE,
    VARIANTS,
    Pod,
    amount,
    asked,
    objects,
    of_administrators,
    pods,
    secrets,
    together,
    variant,
)
from tests.support.places import ROOT

pytestmark = pytest.mark.timeout(servers.BUILD_SECONDS + 300)
README = (TREE / "README.md").read_text()
UPGRADING = "Upgrading, passwords, backing up"
NEEDED = ("kubectl", "openssl", "setpriv", "timeout")


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder, reason = servers.programs()
    if folder is None:
        pytest.skip(reason)
    with ControlPlane(folder, tmp_path_factory.mktemp("plane")) as found:
        found.create(servers.definitions())
        served = ("get", "raycluster,rayjob,clusterqueue,localqueue,resourceflavor")
        wait(lambda: found.run(*served).returncode == 0, "the operators' kinds are not served")
        yield found


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane, empty before and after."""
    yield plane
    plane.kubectl("delete", "namespace", "ablate", "--ignore-not-found")
    plane.kubectl("delete", "clusterqueue,resourceflavor", "--all")


def commands(title: str, platform: str) -> list[str]:
    """A section's commands that ask only the API server, for one of the overlays."""
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.M | re.S)
    text = "".join(re.findall(r"```sh\n(.*?)```", section, re.S)).replace("\\\n", " ")
    nodes = r"github.com|exec|wait|logs|rollout|port-forward|docker|^ray|^export|^ *--"
    lines = [line.split("  #")[0].strip() for line in text.splitlines()]
    chosen = [line for line in lines if "kubectl" in line and not re.search(nodes, line)]
    assert chosen
    return [line.replace("overlays/kuberay", f"overlays/{platform}") for line in chosen]


def follow(cluster: ControlPlane, lines: Sequence[str]) -> list[str]:
    """Run commands; what each printed."""
    printed = []
    for line in lines:
        done = cluster.shell(line)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        printed.append(done.stdout)
    return printed


def deploy(cluster: ControlPlane, platform: str) -> list[str]:
    """An overlay and its study by the README's commands, after what an administrator applies."""
    if platform == "kueue":
        (file,) = re.findall(r"`(k8s/\S+for-administrators.yaml)`", README)
        cluster.kubectl("apply", "-f", str(ROOT / file))
    return follow(cluster, commands("With KubeRay", platform))


def deployed(platform: str) -> list[dict[str, Any]]:
    """All objects that are there afterwards."""
    return [*(of_administrators() if platform == "kueue" else ()), *together(platform)]


def applied(cluster: ControlPlane) -> dict[Key, Mapping[str, Any]]:
    """What `kubectl apply` left in the cluster."""
    note = "kubectl.kubernetes.io/last-applied-configuration"
    return {
        name: item
        for name, item in cluster.everything().items()
        if note in item["metadata"].get("annotations", {})
        and "ownerReferences" not in item["metadata"]  # controllers copy annotations
    }


def lost(wanted: Any, found: Any, place: str = "") -> list[str]:
    """Where an object in the cluster differs from the one that was applied; additions are fine."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            each
            for name, value in wanted.items()
            for each in lost(value, found.get(name), f"{place}.{name}")
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [
            each
            for index, (one, other) in enumerate(zip(wanted, found, strict=True))
            for each in lost(one, other, f"{place}[{index}]")
        ]
    return [] if wanted == found or (wanted in ({}, []) and not found) else [place]


def check_complete(cluster: ControlPlane, wanted: Sequence[Mapping[str, Any]]) -> None:
    """The cluster has exactly these objects, and all of their fields."""
    found = applied(cluster)
    assert set(found) == {key(item) for item in wanted}
    places = {p for item in wanted for p in lost(item, found[key(item)], item["kind"])}
    assert places <= {f"{kind}.apiVersion" for kind in servers.OLDER}


def create_pods(cluster: ControlPlane, items: Sequence[Mapping[str, Any]], bound: int) -> None:
    """Create the pods that KubeRay would: as few (0) or as many (1) as it may."""
    made = [pod for pod in pods(items) if pod.kind in ("Ray", "RayJob")]
    each = [_as_object(pod, f"{pod.name}-{n}") for pod in made for n in range(pod.count[bound])]
    if each:  # `kueue` has no standing cluster
        cluster.create(each)


def _as_object(pod: Pod, name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ablate", "labels": dict(pod.labels)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(pod.spec)}


def used(cluster: ControlPlane) -> dict[str, float]:
    """What the server's quota has counted."""
    quota = json.loads(cluster.kubectl("-n", "ablate", "get", "quota", "ablate", "-o", "json"))
    return {name: _plain(text) for name, text in quota.get("status", {}).get("used", {}).items()}


def _plain(text: str) -> float:
    return amount(text.replace("k", "000"))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_overlay(cluster: ControlPlane, platform: str) -> None:
    """From an empty cluster and back by the README's commands; a second apply changes nothing."""
    before = set(cluster.everything())
    deploy(cluster, platform)
    check_complete(cluster, deployed(platform))
    known = _contents(applied(cluster))
    for folder in (TREE / "overlays" / platform, TREE / "overlays" / platform / "study"):
        assert cluster.kubectl("diff", "-k", str(folder)) == ""
        cluster.kubectl("apply", "-k", str(folder))
    assert _contents(applied(cluster)) == known
    follow(cluster, commands("Tearing down", platform))
    kept = before | {key(item) for item in deployed(platform) if item in of_administrators()}
    gone = lambda: set(cluster.everything()) == kept  # noqa: E731
    wait(gone, f"left: {set(cluster.everything()) - kept}")


def _contents(found: Mapping[Key, Mapping[str, Any]]) -> dict[Key, list[Any]]:
    """All of the objects, except what the server and controllers note about them."""
    return {
        name: [
            item["metadata"]["uid"],
            item["metadata"].get("labels"),
            item.get("spec"),
            item.get("data"),
        ]
        for name, item in found.items()
    }


@pytest.mark.parametrize("platform", PLATFORMS)
def test_quota(cluster: ControlPlane, platform: str) -> None:
    """The server counts what we compute, takes the pods of the largest study, and no GPU more."""
    deploy(cluster, platform)
    create_pods(cluster, objects(platform), 0)
    create_pods(cluster, objects(f"{platform}/study"), 1)
    least, most = asked(objects(platform), 0), asked(objects(f"{platform}/study"), 1)
    expected = {name: pytest.approx(least[name] + most[name]) for name in least}
    counted = lambda: expected.items() <= used(cluster).items()  # noqa: E731
    wait(counted, f"wanted {expected}; {used(cluster)}")
    more = {"nvidia.com/gpu": "9"}
    refused = cluster.run("create", "-f", "-", stdin=json.dumps(bare_pod("greedy", more)))
    assert "exceeded quota: ablate" in refused.stderr
    assert "requests.nvidia.com/gpu=9" in refused.stderr


def bare_pod(name: str, limits: Mapping[str, str]) -> dict[str, Any]:
    container = {"name": "injected", "image": "any:1", "resources": {"limits": dict(limits)}}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    return _as_object(Pod(name, "Pod", {}, spec), name)


def test_injected_containers_get_limits(cluster: ControlPlane) -> None:
    """A quota refuses containers without requests: the LimitRange fills them in."""
    deploy(cluster, "kuberay")
    cluster.create([bare_pod("injected", {})])
    found = json.loads(cluster.kubectl("-n", "ablate", "get", "pod", "injected", "-o", "json"))
    assert found["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "64Mi"},
        "limits": {"memory": "512Mi", "ephemeral-storage": "1Gi"},
    }


@pytest.mark.parametrize("name", VARIANTS)
def test_variant(cluster: ControlPlane, name: str, tmp_path: Path) -> None:
    """What the README tells to change."""
    found = variant(name, tmp_path)
    for part in ("kuberay", "kuberay/study"):
        cluster.kubectl("apply", "-k", str(tmp_path / name / "overlays" / part))
    check_complete(cluster, found)


def test_secrets(cluster: ControlPlane) -> None:
    """A second run overwrites nothing, and the way to new passwords changes all of them."""
    *_, password = deploy(cluster, "kuberay")
    before = _secrets(cluster)
    assert set(before) >= set(secrets())
    (create,) = (line for line in commands("With KubeRay", "kuberay") if "make-secrets" in line)
    assert "already exists" in cluster.shell(create).stderr
    assert _secrets(cluster) == before
    logins = json.loads(base64.b64decode(before["ablate-mlflow-users"]["logins.json"]))
    assert logins["reader"]["password"] == password.strip() != ""
    (replace,) = (line for line in commands(UPGRADING, "kuberay") if "make-secrets" in line)
    follow(cluster, [replace])
    after = _secrets(cluster)
    assert all(after[name] != before[name] for name in secrets())


def _secrets(cluster: ControlPlane) -> dict[str, dict[str, str]]:
    found = json.loads(cluster.kubectl("-n", "ablate", "get", "secret", "-o", "json"))
    return {item["metadata"]["name"]: item.get("data", {}) for item in found["items"]}


def test_upgrade_of_mlflow(cluster: ControlPlane) -> None:
    """The switch of the init container, set and taken back."""
    deploy(cluster, "kuberay")
    switch, back = (line for line in commands(UPGRADING, "kuberay") if "set env" in line)
    assert cluster.shell(switch).returncode == 0
    assert {"name": "UPGRADE", "value": "1"} in _prepare(cluster)["env"]
    assert cluster.shell(back).returncode == 0
    check_complete(cluster, deployed("kuberay"))
    assert "UPGRADE" not in str(_prepare(cluster))


def _prepare(cluster: ControlPlane) -> Mapping[str, Any]:
    found = json.loads(cluster.kubectl("-n", "ablate", "get", "deploy", "mlflow", "-o", "json"))
    return found["spec"]["template"]["spec"]["initContainers"][0]


def test_the_server_knows_kuberays_schemas(cluster: ControlPlane) -> None:
    deploy(cluster, "kuberay")
    ray = ("-n", "ablate", "patch", "raycluster", "ablate", "--type=merge", "-p")
    assert "headGroupSpec" in cluster.run(*ray, '{"spec": {"headGroupSpec": 1}}').stderr
