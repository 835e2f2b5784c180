"""Every pod against the restricted Pod Security Standard and what we promise beyond it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.manifests import (
    PLAIN,
    PLATFORMS,
    ROOT,
    TREE,
    VARIANTS,
    Pod,
    amount,
    build,
    objects,
    of_administrators,
    of_kind,
    pods,
    together,
    variant,
)

SAFE_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
LIMITED = ("memory", "ephemeral-storage")
TOKEN_PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"


def all_pods() -> list[tuple[str, Pod]]:
    plain = [(name, pod) for name in PLAIN for pod in pods(objects(name))]
    return plain + [(name, pod) for name in PLATFORMS for pod in pods(together(name))]


@pytest.fixture(scope="module")
def every_pod(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Pod]]:
    folder = tmp_path_factory.mktemp("variants")
    others = [(name, pod) for name in VARIANTS for pod in pods(variant(name, folder))]
    return [*all_pods(), *others]


def findings(pod: Pod) -> list[str]:
    """How a pod violates the restricted standard and our own."""
    spec = pod.spec
    found = [f"host {key}" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    context = spec.get("securityContext", {})
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        found.append("seccomp")
    if context.get("runAsNonRoot") is not True or not context.get("runAsUser", 0) > 0:
        found.append("root")
    if set(context) & {"sysctls", "seLinuxOptions", "windowsOptions", "appArmorProfile"}:
        found.append("options of the host")
    for volume in spec.get("volumes", []):
        if not set(volume) - {"name"} <= SAFE_VOLUMES:
            found.append(f"volume {volume['name']}")
        if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
            found.append(f"volume {volume['name']} without a limit")
    if spec.get("automountServiceAccountToken") is not False:
        found.append("service account's token")
    if spec.get("enableServiceLinks") is not False:
        found.append("service links")
    for container in pod.containers:
        found += [f"{container['name']}: {what}" for what in _container_findings(container)]
    return found


def _container_findings(container: Mapping[str, Any]) -> list[str]:
    context = container.get("securityContext", {})
    found = []
    if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
        found.append("privileges")
    if context.get("capabilities") != {"drop": ["ALL"]}:
        found.append("capabilities")
    if context.get("readOnlyRootFilesystem") is not True:
        found.append("writable root")
    if context.get("runAsUser", 1) == 0 or context.get("runAsNonRoot") is False:
        found.append("root")
    if "seccompProfile" in context or "procMount" in context:
        found.append("weaker than its pod")
    if any("hostPort" in port for port in container.get("ports", [])):
        found.append("host port")
    resources = container.get("resources", {})
    if not {"cpu", *LIMITED} <= set(resources.get("requests", {})):
        found.append("requests")
    found += [f"{name} limit" for name in LIMITED if name not in resources.get("limits", {})]
    if not re.search(r"@sha256:|:[^:/]*\d[^:/]*$", container["image"]):
        found.append(f"image {container['image']} without a version")
    return found


@pytest.mark.slow
def test_restricted(every_pod: list[tuple[str, Pod]]) -> None:
    assert len(every_pod) > 30
    found = {(where, pod.name): findings(pod) for where, pod in every_pod}
    assert {key: what for key, what in found.items() if what} == {}


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (("spec", "hostNetwork"), True, "host hostNetwork"),
        (("spec", "automountServiceAccountToken"), True, "service account's token"),
        (("spec", "securityContext"), {}, "seccomp"),
        (("container", "securityContext"), {}, "mlflow: capabilities"),
        (("container", "image"), "postgres", "mlflow: image postgres without a version"),
        (("container", "resources"), {}, "mlflow: memory limit"),
        (("container", "resources"), {}, "mlflow: ephemeral-storage limit"),
    ],
)
def test_the_check_itself(place: tuple[str, str], value: object, told: str) -> None:
    (pod,) = (each for each in pods(objects("kuberay")) if each.name == "mlflow")
    target: Any = pod.spec if place[0] == "spec" else pod.spec["containers"][0]
    target[place[1]] = value
    assert told in findings(pod)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_namespace_enforces_it(platform: str) -> None:
    (namespace,) = of_kind(objects(platform), "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_only_the_autoscaler_has_a_token(every_pod: list[tuple[str, Pod]]) -> None:
    holders = {
        container["name"]
        for _, pod in every_pod
        for container in pod.containers
        for mount in container.get("volumeMounts", [])
        if mount["mountPath"].startswith(TOKEN_PLACE) or _has_token(pod, mount["name"])
    }
    assert holders == {"autoscaler"}


def _has_token(pod: Pod, volume: str) -> bool:
    (found,) = (
        (each for each in pod.spec["volumes"] if each["name"] == volume)
        if any(each["name"] == volume for each in pod.spec.get("volumes", []))
        else ({},)
    )
    sources = found.get("projected", {}).get("sources", [])
    return any("serviceAccountToken" in source for source in sources)


def test_mounts_have_their_volumes(every_pod: list[tuple[str, Pod]]) -> None:
    for where, pod in every_pod:
        volumes = {volume["name"] for volume in pod.spec.get("volumes", [])}
        for container in pod.containers:
            mounts = container.get("volumeMounts", [])
            assert {mount["name"] for mount in mounts} <= volumes, (where, pod.name)
            assert any(mount["mountPath"] == "/tmp" for mount in mounts)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_services_are_inside(platform: str) -> None:
    for service in of_kind(objects(platform), "Service"):
        assert service["spec"]["type"] == "ClusterIP"
    (quota,) = of_kind(objects(platform), "ResourceQuota")
    assert quota["spec"]["hard"]["services.loadbalancers"] == "0"
    assert quota["spec"]["hard"]["services.nodeports"] == "0"
    assert not of_kind(objects(platform), "Ingress")


@pytest.mark.slow
def test_the_limit_of_a_pod_has_room_for_its_temporary_volumes(every_pod) -> None:
    """Otherwise a pod is evicted for what it was told that it may write."""
    for where, pod in every_pod:
        volumes = [volume.get("emptyDir") for volume in pod.spec.get("volumes", [])]
        room = sum(amount(volume["sizeLimit"]) for volume in volumes if volume)
        limits = [c["resources"]["limits"]["ephemeral-storage"] for c in pod.spec["containers"]]
        assert sum(map(amount, limits)) > room, (where, pod.name)


def images_by_others(found: Sequence[Mapping[str, Any]]) -> set[str]:
    images = {container["image"] for pod in pods(found) for container in pod.containers}
    return {image for image in images if not image.startswith("ablate:")}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_without_a_digest_the_image_says_what_to_do(platform: str) -> None:
    """No runtime takes such a name, so its pod's events show it."""
    (image,) = images_by_others(together(platform))
    (command,) = re.findall(r"^postgres@sha256:REQUIRED, run '(.*)'$", image)
    assert command in (TREE / "README.md").read_text().splitlines()
    assert (ROOT / command.removeprefix("sh ")).is_file()


def found_digests(tmp_path: Path, tool: str, answer: str, **more: str) -> Any:
    """Run the script in a copy of the tree, where `docker` or `skopeo` answers so."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / tool).write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\necho {answer}\n')
    (programs / tool).chmod(0o755)
    for name in ("sh", "dirname", "grep", "sed", "mv"):
        (programs / name).symlink_to(shutil.which(name) or name)
    shutil.copytree(TREE, tmp_path / "k8s")
    script = ["sh", str(tmp_path / "k8s" / "find-digests.sh")]
    environment = {"PATH": str(programs), **more}
    return subprocess.run(script, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize(
    ("tool", "image"), [("docker", "postgres"), ("skopeo", "mirror.example/postgres")]
)
def test_the_script_fills_in_the_digest(tmp_path: Path, tool: str, image: str) -> None:
    digest = f"sha256:{64 * 'a'}"
    done = found_digests(tmp_path, tool, digest, POSTGRES=f"{image}:17-bookworm")
    assert done.returncode == 0, done.stderr
    assert f"{image}:17-bookworm" in (tmp_path / "asked").read_text()
    rendered = build(tmp_path / "k8s" / "overlays" / "kuberay")
    assert images_by_others(rendered) == {f"{image}@{digest}"}


def test_the_script_asks_for_the_image_that_the_tree_names(tmp_path: Path) -> None:
    found_digests(tmp_path, "docker", "any")
    (named,) = {c["image"] for pod in pods(build(TREE / "base")) for c in pod.containers} - {
        "ablate"
    }
    assert named in (tmp_path / "asked").read_text().split()


def test_the_script_changes_nothing_without_a_digest(tmp_path: Path) -> None:
    done = found_digests(tmp_path, "docker", "latest")
    assert done.returncode == 1
    assert "the registry gave no digest of postgres:17-bookworm, but 'latest'" in done.stderr
    file = Path("components", "images", "kustomization.yaml")
    assert (tmp_path / "k8s" / file).read_bytes() == (TREE / file).read_bytes()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_only_the_namespace_needs_an_administrator(platform: str) -> None:
    """What else belongs to no namespace is apart, and said to need one."""
    outside = {item["kind"] for item in together(platform) if "namespace" not in item["metadata"]}
    assert outside <= {"Namespace"}
    apart = of_administrators()
    assert {item["kind"] for item in apart} == {"ClusterQueue", "ResourceFlavor"}
    assert "administrator" in (TREE / "overlays" / "kueue" / "for-administrators.yaml").read_text()
