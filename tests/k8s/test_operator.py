"""What KubeRay 1.7 refuses beyond its schemas, and what its clusters need to be hard to kill."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import ray

from ablate.trial.run import SAVE_SECONDS
from tests.support.manifests import (
    PLATFORMS,
    RENDERED,
    objects,
    of_administrators,
    of_kind,
    pods,
    ray_specs,
    together,
    variant,
)

CLUSTERS = tuple(name for name in RENDERED if name != "kueue")
NODE_NOTICE = 30  # seconds between a spot node's notice and its end


@pytest.fixture(params=CLUSTERS)
def spec(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    (found,) = ray_specs(objects(request.param))
    return found


def _groups(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


def _main(group: Mapping[str, Any]) -> Mapping[str, Any]:
    return group["template"]["spec"]["containers"][0]


def _settings() -> Mapping[str, str]:
    (found,) = (
        item
        for item in of_kind(objects("kuberay"), "ConfigMap")
        if item["metadata"]["name"] == NAME
    )
    return found["data"]


NAME = "ray-settings"


def test_version_is_the_one_installed(spec: Mapping[str, Any]) -> None:
    assert spec["rayVersion"] == ray.__version__
    assert tuple(map(int, spec["rayVersion"].split("."))) >= (2, 52)  # for tokens


def test_token(spec: Mapping[str, Any]) -> None:
    assert spec["authOptions"] == {"mode": "token", "secretName": "ablate-ray"}
    assert _settings()["RAY_AUTH_MODE"] == "token"


def test_ray_start_params_are_text(spec: Mapping[str, Any]) -> None:
    for group in _groups(spec):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        assert "labels" not in group["rayStartParams"]


def test_resources_are_set_once(spec: Mapping[str, Any]) -> None:
    for group in _groups(spec):
        in_params = {"num-cpus", "num-gpus", "memory", "resources"} & set(group["rayStartParams"])
        assert not (in_params and group.get("resources"))


def test_head_works_on_nothing_and_is_inside(spec: Mapping[str, Any]) -> None:
    head = spec["headGroupSpec"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    assert head["serviceType"] == "ClusterIP"
    assert not head.get("enableIngress")
    assert "nvidia.com/gpu" not in _main(head)["resources"].get("limits", {})


def test_grace_is_longer_than_a_checkpoint(spec: Mapping[str, Any]) -> None:
    for group in _groups(spec):
        grace = group["template"]["spec"]["terminationGracePeriodSeconds"]
        assert grace >= 4 * SAVE_SECONDS


def test_a_spot_workers_grace_is_shorter_than_its_nodes(tmp_path: Path) -> None:
    """By the patch of the README, in the standing cluster and in that of a study."""
    for spec in ray_specs(variant("spot", tmp_path)):
        *others, gpu = (group["template"]["spec"] for group in _groups(spec))
        assert 4 * SAVE_SECONDS <= gpu["terminationGracePeriodSeconds"] < NODE_NOTICE
        assert gpu["nodeSelector"] and len(gpu["tolerations"]) == 2
        assert not any("nodeSelector" in pod for pod in others)


def test_driver_and_workers_see_the_same_folders(spec: Mapping[str, Any]) -> None:
    """The store is mounted where the settings say, and the workspace can be written."""
    settings = _settings()
    for group in _groups(spec):
        mounted = {mount["mountPath"] for mount in _main(group)["volumeMounts"]}
        assert settings["ABLATE_STORE"] in mounted
        for name in ("ABLATE_WORKSPACE", "HOME"):
            assert any(settings[name].startswith(place) for place in mounted)


def test_a_study_has_the_cluster_of_its_platform() -> None:
    standing, study = ray_specs(together("kuberay"))
    assert study == standing


def test_kueue() -> None:
    """A queued job: its queue exists, and all its requests are covered."""
    platform, (job,) = objects("kueue"), objects("kueue/study")
    (local,) = of_kind(platform, "LocalQueue")
    (cluster,) = of_kind(of_administrators(), "ClusterQueue")
    (flavor,) = of_kind(of_administrators(), "ResourceFlavor")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == local["metadata"]["name"]
    assert job["metadata"]["namespace"] == local["metadata"]["namespace"]
    assert local["spec"]["clusterQueue"] == cluster["metadata"]["name"]
    (group,) = cluster["spec"]["resourceGroups"]
    (quota,) = group["flavors"]
    assert quota["name"] == flavor["metadata"]["name"]
    assert {each["name"] for each in quota["resources"]} == set(group["coveredResources"])
    for pod in pods([job]):
        for container in pod.spec["containers"]:
            assert set(container["resources"]["requests"]) <= set(group["coveredResources"])


@pytest.mark.parametrize("platform", PLATFORMS)
def test_workers_flag_fits_the_cluster(platform: str) -> None:
    """The study's `--workers` requests as many as its cluster can run, of one GPU each."""
    (job,) = objects(f"{platform}/study")
    asked = int(re.findall(r"--workers (\d+)", job["spec"]["entrypoint"])[0])
    groups = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    gpus = "nvidia.com/gpu"
    slots = [g["maxReplicas"] * int(_main(g)["resources"]["limits"].get(gpus, 0)) for g in groups]
    assert asked == sum(slots)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_one_image_throughout(platform: str) -> None:
    """Driver and workers of different versions would not be the same trial."""
    ours = {
        container["image"]
        for pod in pods(together(platform))
        for container in pod.containers
        if container["image"].startswith("ablate")
    }
    assert ours == {"ablate:0.2.0-cuda"}
