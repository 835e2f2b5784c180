"""`make test-cluster`: the manifests and the README's commands on a real Kubernetes API.

etcd, kube-apiserver and its controllers run on loopback, without nodes: objects are admitted and
stored, controllers make pods, quotas count them, and no pod runs. The operators are stood in for by
their CustomResourceDefinitions, and the tests create the pods that KubeRay would.

Not among the usual tests, for the servers are built from source first, which takes minutes.
"""

from __future__ import annotations

import base64
import itertools
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
    QUEUED,
    TREE,
    VARIANTS,
    Pod,
    amount,
    asked,
    objects,
    pods,
    secrets,
    variant,
)

pytestmark = pytest.mark.timeout(servers.BUILD_SECONDS + 300)
README = (TREE / "README.md").read_text()
NEEDED = ("kubectl", "openssl", "setpriv", "timeout")
PAIRS = tuple(itertools.permutations(PLATFORMS, 2))
CLAIM = "PersistentVolumeClaim"


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
    nodes = r"github.com|exec|wait|logs|rollout|port-forward|docker|^kind|^ray|^export|^ *--"
    lines = [line.split("  #")[0].strip() for line in text.splitlines()]
    chosen = [line for line in lines if "kubectl" in line and not re.search(nodes, line)]
    assert chosen
    return [re.sub(r"k8s/overlays/(cpu|gpu)", f"k8s/overlays/{platform}", each) for each in chosen]


def follow(cluster: ControlPlane, lines: Sequence[str]) -> list[str]:
    """Run commands; what each printed."""
    printed = []
    for line in lines:
        done = cluster.shell(line)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        printed.append(done.stdout)
    return printed


def deploy(cluster: ControlPlane, platform: str) -> list[str]:
    return follow(cluster, commands("In ten commands", platform))


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
    """From an empty cluster by the README's commands, and back to it by the README's commands."""
    before = cluster.everything()
    deploy(cluster, platform)
    check_complete(cluster, objects(platform))
    cluster.kubectl("apply", "-k", str(TREE / "overlays" / platform / "study"))
    check_complete(cluster, [*objects(platform), *objects(f"{platform}/study")])
    follow(cluster, commands("Tearing down", platform))
    gone = lambda: cluster.everything().keys() == before.keys()  # noqa: E731
    wait(gone, f"left: {cluster.everything().keys() - before.keys()}")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_second_apply_changes_nothing(cluster: ControlPlane, platform: str) -> None:
    """kubectl calls some objects "configured", whose lists it sends again, and none differs."""
    deploy(cluster, platform)
    study = str(TREE / "overlays" / platform / "study")
    cluster.kubectl("apply", "-k", study)
    before = _contents(applied(cluster))
    for folder in (str(TREE / "overlays" / platform), study):
        assert cluster.kubectl("diff", "-k", folder) == ""
        cluster.kubectl("apply", "-k", folder)
    assert _contents(applied(cluster)) == before


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
    deploy(cluster, "cpu")
    cluster.create([bare_pod("injected", {})])
    found = json.loads(cluster.kubectl("-n", "ablate", "get", "pod", "injected", "-o", "json"))
    assert found["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "64Mi"},
        "limits": {"memory": "512Mi", "ephemeral-storage": "1Gi"},
    }


@pytest.mark.parametrize("name", VARIANTS)
def test_variant(cluster: ControlPlane, name: str, tmp_path: Path) -> None:
    """What the README tells to add for one's own services and a bucket."""
    found = variant(name, tmp_path)
    cluster.kubectl("apply", "-k", str(tmp_path / name))
    check_complete(cluster, found)


def test_secrets(cluster: ControlPlane) -> None:
    """They are stored as the script prints them; a second run overwrites nothing."""
    deploy(cluster, "cpu")
    before = _data(cluster)
    assert {name for kind, _, name in before if kind == "Secret"} >= set(secrets())
    (create,) = (line for line in commands("In ten commands", "cpu") if "make-secrets" in line)
    assert "already exists" in cluster.shell(create).stderr
    assert _data(cluster) == before


def test_password_of_the_reader(cluster: ControlPlane) -> None:
    printed = deploy(cluster, "cpu")
    assert re.fullmatch(r"[0-9a-f]{24}\n", printed[-1])
    wanted = ("get", "secret", "ablate-mlflow-users", "-o", "jsonpath={.data.logins\\.json}")
    logins = base64.b64decode(cluster.kubectl("-n", "ablate", *wanted))
    assert json.loads(logins)["reader"]["password"] == printed[-1].strip()


def test_upgrade_of_mlflow(cluster: ControlPlane) -> None:
    """The switch of the init container, set and taken back."""
    deploy(cluster, "cpu")
    switch, back = (line for line in commands("Upgrading", "cpu") if "set env" in line)
    assert cluster.shell(switch).returncode == 0
    assert {"name": "UPGRADE", "value": "1"} in _prepare(cluster)["env"]
    assert cluster.shell(back).returncode == 0
    check_complete(cluster, objects("cpu"))
    assert "UPGRADE" not in str(_prepare(cluster))


def _prepare(cluster: ControlPlane) -> Mapping[str, Any]:
    found = json.loads(cluster.kubectl("-n", "ablate", "get", "deploy", "mlflow", "-o", "json"))
    return found["spec"]["template"]["spec"]["initContainers"][0]


def test_the_server_refuses_what_it_should(cluster: ControlPlane) -> None:
    """A claim's other access mode, and a field that KubeRay does not know."""
    deploy(cluster, "cpu")
    claim = ("-n", "ablate", "patch", "pvc", "ablate-store-one-node", "--type=merge", "-p")
    assert "immutable" in cluster.run(*claim, '{"spec": {"accessModes": ["ReadWriteMany"]}}').stderr
    ray = ("-n", "ablate", "patch", "raycluster", "ablate", "--type=merge", "-p")
    assert "headGroupSpec" in cluster.run(*ray, '{"spec": {"headGroupSpec": 1}}').stderr


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=lambda each: each)
def test_change_of_overlay(cluster: ControlPlane, old: str, new: str) -> None:
    """Afterwards the cluster has the new overlay, no leftover of the old one, and all data."""
    deploy(cluster, old)
    cluster.kubectl("apply", "-k", str(TREE / "overlays" / old / "study"))
    data = _data(cluster)
    assert len(data) > 12
    lines = commands("Changing the overlay", new)
    assert len(lines) == 3 and "queue.yaml" in lines[-1]
    queue_is_over = old in QUEUED and new not in QUEUED
    follow(cluster, lines if queue_is_over else lines[:-1])
    kept = [item for item in objects(old) if item["kind"] == CLAIM]
    names = {key(item) for item in objects(new)}
    check_complete(cluster, [*objects(new), *(item for item in kept if key(item) not in names)])
    assert data.items() <= _data(cluster).items()


def _data(cluster: ControlPlane) -> dict[Key, str]:
    """Claims, Secrets and what owns volumes, each with its identity."""
    return {
        name: item["metadata"]["uid"]
        for name, item in cluster.everything().items()
        if name[0] in (CLAIM, "Secret", "StatefulSet") and name[1] == "ablate"
    }
