"""Every rendered object against its schema, strictly: a misspelt field is refused."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from jsonschema import Draft202012Validator
from yamllint import linter
from yamllint.config import YamlLintConfig

from tests.support.manifests import (
    PLAIN,
    RENDERED,
    SCHEMAS,
    TREE,
    VARIANTS,
    Pod,
    objects,
    of_administrators,
    pods,
    variant,
)

VERSION = "1.34.0"

# Kueue's schemas are not available here: the fields of its v1beta2 that we use, from memory.
KUEUE = {
    "ResourceFlavor": set(),
    "ClusterQueue": {"namespaceSelector", "queueingStrategy", "resourceGroups"},
    "LocalQueue": {"clusterQueue"},
}


@pytest.mark.parametrize("path", sorted(TREE.rglob("*.yaml")), ids=lambda path: path.name)
def test_lint(path: Path) -> None:
    config = YamlLintConfig(file=str(TREE / ".yamllint.yaml"))
    assert list(linter.run(path.read_text(), config)) == []


def check(item: dict[str, Any]) -> None:
    """Raise if an object breaks its schema."""
    group = item["apiVersion"].split("/")[0]
    if group == "ray.io":
        errors = list(_ray(f"{item['apiVersion']}/{item['kind']}").iter_errors(item))
        assert not errors, errors[0]
    elif group == "kueue.x-k8s.io":
        assert set(item) <= {"apiVersion", "kind", "metadata", "spec"}
        assert set(item.get("spec", {})) == KUEUE[item["kind"]]
    else:
        kubernetes_validate.validate(item, VERSION, strict=True)


@cache
def _ray(key: str) -> Draft202012Validator:
    schema = json.loads(SCHEMAS.read_text())[key]
    known = {"apiVersion": {}, "kind": {}, "metadata": {"x-kubernetes-preserve-unknown-fields": 1}}
    return Draft202012Validator(
        _closed({**schema, "properties": {**schema["properties"], **known}})
    )


def _closed(schema: Any) -> Any:
    """The schema, in which every object refuses fields that it does not name."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    is_object = isinstance(schema.get("properties"), dict)
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
    if is_object and not open_ended and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed


@pytest.mark.slow
@pytest.mark.parametrize("name", (*PLAIN, *RENDERED))
def test_overlay(name: str) -> None:
    found = objects(name)
    assert found
    for item in found:
        check(item)


def test_what_is_for_administrators() -> None:
    for item in of_administrators():
        check(item)
        assert "namespace" not in item["metadata"]


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_variant(name: str, tmp_path: Path) -> None:
    for item in variant(name, tmp_path):
        check(item)


@pytest.mark.parametrize("name", RENDERED)
def test_pods(name: str) -> None:
    """The pods inside the operator's objects too, as pods."""
    for pod in pods(objects(name)):
        kubernetes_validate.validate(_as_pod(pod), VERSION, strict=True)


def _as_pod(pod: Pod) -> dict[str, Any]:
    metadata = {"name": pod.name, "labels": dict(pod.labels)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(pod.spec)}


@pytest.mark.parametrize("place", ["spec", "headGroupSpec", "container"])
def test_the_check_itself(place: str) -> None:
    """A typo is noticed wherever it is."""
    item = next(item for item in objects("kuberay") if item["kind"] == "RayCluster")
    spec = item["spec"]
    head = spec["headGroupSpec"]
    places = {
        "spec": spec,
        "headGroupSpec": head,
        "container": head["template"]["spec"]["containers"][0],
    }
    places[place]["imagePullPolcy"] = "Always"
    with pytest.raises(AssertionError, match="imagePullPolcy"):
        check(item)


def test_the_check_itself_on_a_deployment() -> None:
    item = next(item for item in objects("kuberay") if item["kind"] == "Deployment")
    item["spec"]["template"]["spec"]["automountServiceAcountToken"] = False
    with pytest.raises(kubernetes_validate.ValidationError):
        check(item)


@pytest.mark.parametrize("name", RENDERED)
def test_names(name: str) -> None:
    """Names are valid for the API server, in our namespace, and unique."""
    namespaceless = {"Namespace"}
    seen = set()
    for item in objects(name):
        label = item["metadata"]["name"]
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", label)
        expected = None if item["kind"] in namespaceless else "ablate"
        assert item["metadata"].get("namespace") == expected, (item["kind"], label)
        assert (item["kind"], label) not in seen
        seen.add((item["kind"], label))


def test_components_are_all_rendered() -> None:
    """Every component is in an overlay or in a variant."""
    texts = [path.read_text() for path in (TREE / "overlays").rglob("kustomization.yaml")]
    named = "\n".join([*texts, *(text for _, text in VARIANTS.values())])
    for path in (TREE / "components").rglob("kustomization.yaml"):
        component = path.parent.relative_to(TREE).as_posix()
        assert re.search(rf"{component}\b", named), component


def test_kustomize_is_installed() -> None:
    """Without one all of these tests would be skipped."""
    if not (shutil.which("kubectl") or shutil.which("kustomize")):
        pytest.skip("neither kustomize nor kubectl is installed: nothing was rendered")
    assert len(objects("kuberay")) > 20
