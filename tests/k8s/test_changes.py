"""One overlay can be applied after another: no field differs that an API server never changes.

`make test-cluster` applies each after each other on a real API server.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.manifests import (
    PLATFORMS,
    RENDERED,
    TREE,
    VARIANTS,
    amount,
    claims,
    objects,
    of_kind,
    together,
    variant,
)

README = (TREE / "README.md").read_text()
LABEL = "app.kubernetes.io/part-of"
MUTABLE = {"replicas", "template", "updateStrategy", "minReadySeconds", "ordinals"}


def fixed(item: Mapping[str, Any]) -> Any:
    """What can never change of an object after it was created."""
    spec = item.get("spec", {})
    if item["kind"] == "PersistentVolumeClaim":
        return spec
    if item["kind"] == "StatefulSet":
        return {name: value for name, value in spec.items() if name not in MUTABLE}
    if item["kind"] == "Deployment":
        return spec["selector"]
    if item["kind"] == "Service":
        return spec.get("clusterIP")
    return item.get("immutable")


@pytest.mark.parametrize(("old", "new"), [*itertools.combinations(PLATFORMS, 2)])
def test_one_overlay_after_another(old: str, new: str) -> None:
    before = {(item["kind"], item["metadata"]["name"]): item for item in together(old)}
    after = {(item["kind"], item["metadata"]["name"]): item for item in together(new)}
    both = before.keys() & after.keys()
    assert ("Deployment", "mlflow") in both
    assert [name for name in both if fixed(before[name]) != fixed(after[name])] == []


def test_the_check_itself() -> None:
    """It would notice another access mode, and a larger volume of Postgres."""
    (claim,) = (item for item in of_kind(objects("gpu"), "PersistentVolumeClaim") if is_data(item))
    changed = {**claim, "spec": {**claim["spec"], "accessModes": ["ReadWriteOnce"]}}
    assert fixed(claim) != fixed(changed)
    postgres = next(iter(of_kind(objects("gpu"), "StatefulSet")))
    assert fixed(postgres) != fixed({**postgres, "spec": {"volumeClaimTemplates": []}})


def is_data(item: Mapping[str, Any]) -> bool:
    return item["metadata"]["name"] == "ablate-data"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_mounted_claim_exists(platform: str) -> None:
    """A claim that an overlay's pods mount is one that this overlay makes, and the reverse."""
    made = {
        item["metadata"]["name"] for item in of_kind(objects(platform), "PersistentVolumeClaim")
    }
    assert set(re.findall(r"'claimName': '([^']+)'", str(together(platform)))) == made


def test_one_node_and_several_have_claims_of_their_own() -> None:
    modes = {
        item["metadata"]["name"]: item["spec"]["accessModes"]
        for platform in PLATFORMS
        for item in of_kind(objects(platform), "PersistentVolumeClaim")
    }
    assert modes == {
        "ablate-backups": ["ReadWriteOnce"],
        "ablate-data": ["ReadWriteMany"],
        "ablate-store": ["ReadWriteMany"],
        "ablate-data-one-node": ["ReadWriteOnce"],
        "ablate-store-one-node": ["ReadWriteOnce"],
    }


def test_quota_has_room_for_the_claims_of_two_overlays() -> None:
    every = {
        item["metadata"]["name"]: item for name in PLATFORMS for item in claims(objects(name))
    }.values()
    stored = sum(amount(item["spec"]["resources"]["requests"]["storage"]) for item in every)
    for platform in PLATFORMS:
        (quota,) = of_kind(objects(platform), "ResourceQuota")
        assert stored <= amount(quota["spec"]["hard"]["requests.storage"])
        assert len(every) <= amount(quota["spec"]["hard"]["persistentvolumeclaims"])


@pytest.mark.parametrize("name", RENDERED)
def test_label(name: str) -> None:
    """`kubectl apply -l` leaves out what does not have the label."""
    for item in objects(name):
        assert item["metadata"]["labels"][LABEL] == "ablate", item["metadata"]["name"]


@pytest.mark.parametrize("name", VARIANTS)
def test_label_of_variants(name: str, tmp_path: Path) -> None:
    for item in variant(name, tmp_path):
        assert item["metadata"]["labels"][LABEL] == "ablate", item["metadata"]["name"]


def test_what_is_gone_already_does_not_end_the_teardown() -> None:
    """The first command deletes the RayCluster, which the second would ask for again."""
    (section,) = re.findall(r"## Tearing down\n.*?```sh\n(.*?)```", README, re.DOTALL)
    first, second = section.splitlines()
    assert "delete rayjob,raycluster --all" in first
    assert re.search(r"kubectl delete -k \S+ --ignore-not-found$", second)


def test_readme_deletes_what_an_overlay_has_alone() -> None:
    """What one overlay has and another has not is deleted by one of the commands."""
    (section,) = re.findall(r"## Changing the overlay\n.*?```sh\n(.*?)```", README, re.DOTALL)
    assert f"-l {LABEL}=ablate" in section
    kinds = {"RayCluster": "raycluster", "RayJob": "rayjob", "NetworkPolicy": "/NetworkPolicy"}
    queues = (TREE / "overlays" / "kueue" / "queue.yaml").read_text()
    every = {(item["kind"], item["metadata"]["name"]) for p in PLATFORMS for item in together(p)}
    for platform in PLATFORMS:
        own = {(item["kind"], item["metadata"]["name"]) for item in together(platform)}
        for kind, name in every - own:
            kept = kind == "PersistentVolumeClaim"
            assert kept or f"kind: {kind}" in queues or kinds[kind] in section, (kind, name)
