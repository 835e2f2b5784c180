"""The NetworkPolicies, evaluated: who reaches whom, and that no other flow is possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from tests.support.manifests import PLATFORMS, Pod, of_kind, pods, together, variant

OPERATOR = Pod(
    "operator", "elsewhere", {"app.kubernetes.io/component": "kuberay-operator"}, {"containers": []}
)
STRANGER = Pod("stranger", "elsewhere", {"app": "stranger"}, {"containers": []})
OUTSIDE, METADATA, API_SERVER = "8.8.8.8", "169.254.169.254", "10.96.0.1"

# Flows by role: from, to, port. What is not here must not be possible.
ALLOWED = {
    ("head", "mlflow", 5000),
    ("head", "postgres", 5432),
    ("mlflow", "postgres", 5432),
    ("backup", "postgres", 5432),
    ("operator", "head", 8265),
    ("submitter", "head", 8265),
}
PORTS = (22, 443, 5000, 5432, 6379, 6443, 8080, 8265, 10001)


@dataclass(frozen=True)
class Network:
    """The rules of Kubernetes: a pod no policy selects is open, else only what one allows."""

    policies: Sequence[Mapping[str, Any]]

    def allows(self, source: Pod, target: Pod | str, port: int) -> bool:
        out = self._passes(source, "Egress", "egress", "to", target, port)
        if isinstance(target, str):
            return out
        return out and self._passes(target, "Ingress", "ingress", "from", source, port)

    def _passes(
        self, pod: Pod, kind: str, rules: str, side: str, other: Pod | str, port: int
    ) -> bool:
        if pod.kind == "elsewhere":
            return True  # the policies do not apply to it
        chosen = [
            policy["spec"]
            for policy in self.policies
            if kind in policy["spec"]["policyTypes"]
            and _selects(policy["spec"]["podSelector"], pod.labels)
        ]
        return not chosen or any(
            _peer(rule.get(side), other) and _port(rule.get("ports"), port)
            for spec in chosen
            for rule in spec.get(rules, [])
        )


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    exact = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    for expression in selector.get("matchExpressions", []):
        assert expression["operator"] == "In"
        exact = exact and labels.get(expression["key"]) in expression["values"]
    return exact


def _peer(peers: Sequence[Mapping[str, Any]] | None, other: Pod | str) -> bool:
    if peers is None:
        return True
    return any(_is_peer(peer, other) for peer in peers)


def _is_peer(peer: Mapping[str, Any], other: Pod | str) -> bool:
    if isinstance(other, str):
        return "ipBlock" in peer and _in_block(peer["ipBlock"], other)
    if "ipBlock" in peer:
        return False  # pods are identified by labels here; DNAT to pods comes before this
    if "namespaceSelector" in peer:
        inside = peer["namespaceSelector"] == {}
        return inside and _selects(peer.get("podSelector", {}), other.labels)
    return other.kind != "elsewhere" and _selects(peer["podSelector"], other.labels)


def _in_block(block: Mapping[str, Any], address: str) -> bool:
    inside = [ip_address(address) in ip_network(cidr) for cidr in block.get("except", [])]
    return ip_address(address) in ip_network(block["cidr"]) and not any(inside)


def _port(ports: Sequence[Mapping[str, Any]] | None, port: int) -> bool:
    return ports is None or any(each["port"] == port for each in ports)


def role(pod: Pod) -> str:
    node = pod.labels.get("ray.io/node-type")
    if node in ("head", "worker"):
        return node
    return "submitter" if pod.labels.get("ablate/role") == "submitter" else pod.name


def _network(found: Sequence[Mapping[str, Any]]) -> Network:
    return Network(of_kind(found, "NetworkPolicy"))


def _everyone(found: Sequence[Mapping[str, Any]]) -> list[Pod]:
    return [*pods(found), OPERATOR, STRANGER]


def _flows(found: Sequence[Mapping[str, Any]]) -> set[tuple[str, str, int]]:
    """All flows that are possible between two roles, except those between Ray's own pods."""
    network, everyone = _network(found), _everyone(found)
    return {
        (role(source), role(target), port)
        for source in everyone
        for target in everyone
        for port in PORTS
        if "elsewhere" not in {target.kind} or source.kind != "elsewhere"
        if not {role(source), role(target)} <= {"head", "worker"}
        if network.allows(source, target, port)
    }


@pytest.mark.parametrize("platform", PLATFORMS)
def test_exactly_these_flows(platform: str) -> None:
    assert _flows(together(platform)) == ALLOWED


@pytest.mark.parametrize("platform", PLATFORMS)
def test_ray_talks_to_itself(platform: str) -> None:
    found = together(platform)
    network = _network(found)
    nodes = [pod for pod in pods(found) if role(pod) in ("head", "worker")]
    assert len(nodes) >= 2
    assert all(network.allows(a, b, 34567) for a in nodes for b in nodes)


def test_the_flows_of_plain() -> None:
    found = together("plain")
    network, everyone = _network(found), [*pods(found), STRANGER]
    assert {pod.name for pod in everyone} == {"head", "worker", "mlflow", "study", "stranger"}
    flows = {
        (source.name, target.name, port)
        for source in everyone
        for target in everyone
        for port in PORTS
        if target.kind != "elsewhere" and network.allows(source, target, port)
    }
    ray = ("head", "worker", "study")
    among_ray = {(one, other, port) for one in ray for other in ray for port in PORTS}
    assert flows == among_ray | {("study", "mlflow", 5000)}


def _reached(found: Sequence[Mapping[str, Any]], address: str) -> set[tuple[str, int]]:
    network, ports = _network(found), PORTS
    return {
        (role(p), port) for p in pods(found) for port in ports if network.allows(p, address, port)
    }


@pytest.mark.parametrize("platform", PLATFORMS)
def test_outside(platform: str) -> None:
    """Only a head with an autoscaler, to the API server's ports of private addresses."""
    found = together(platform)
    scaled = platform == "kuberay"
    assert _reached(found, API_SERVER) == ({("head", 443), ("head", 6443)} if scaled else set())
    assert _reached(found, OUTSIDE) == _reached(found, METADATA) == set()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_open_port_is_used(platform: str) -> None:
    """A port that a container declares is reached by a policy's flow, and by nothing else."""
    found = together(platform)
    network, everyone = _network(found), _everyone(found)
    declared = 0
    for pod in pods(found):
        for container in pod.containers:
            for port in container.get("ports", []):
                declared += 1
                callers = [o for o in everyone if network.allows(o, pod, port["containerPort"])]
                assert callers, (pod.name, port)
                assert STRANGER not in callers
    assert declared >= 4


@pytest.mark.parametrize("platform", PLATFORMS)
def test_services_find_their_pods(platform: str) -> None:
    """A Service selects pods of one workload, and its target port is one that they declare."""
    found = together(platform)
    for service in of_kind(found, "Service"):
        chosen = [
            pod
            for pod in pods(found)
            if _selects({"matchLabels": service["spec"]["selector"]}, pod.labels)
        ]
        assert [pod.name for pod in chosen] == [service["metadata"]["name"]]
        declared = {
            port["name"]: port["containerPort"]
            for container in chosen[0].containers
            for port in container.get("ports", [])
        }
        for port in service["spec"]["ports"]:
            assert declared[port["targetPort"]] == port["port"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_names_are_resolved(platform: str) -> None:
    (policy,) = (
        item["spec"]
        for item in of_kind(together(platform), "NetworkPolicy")
        if item["metadata"]["name"] == "names"
    )
    assert policy["podSelector"] == {}
    (rule,) = policy["egress"]
    (resolver,) = rule["to"]
    assert resolver == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    assert {(port["protocol"], port["port"]) for port in rule["ports"]} == {
        ("UDP", 53),
        ("TCP", 53),
    }


def test_bucket(tmp_path: Path) -> None:
    """With the store in a bucket, Ray's pods reach HTTPS, and still no other pod."""
    found = variant("bucket", tmp_path)
    assert _flows(found) == ALLOWED
    assert _reached(found, OUTSIDE) == {("head", 443), ("worker", 443)}
    assert _reached(found, METADATA) == set()


def test_own_postgres(tmp_path: Path) -> None:
    """MLflow and the head reach it, and no worker; the head may download."""
    found = variant("own-postgres", tmp_path)
    assert "postgres" not in str(
        [item["metadata"]["name"] for item in found if item["kind"] != "NetworkPolicy"]
    )
    assert _reached(found, OUTSIDE) == {("mlflow", 5432), ("head", 5432), ("head", 443)}
    assert _reached(found, METADATA) == set()


def test_the_check_itself() -> None:
    """Without the policy that closes everything, other flows are possible, and this notices."""
    found = [
        item
        for item in together("kuberay")
        if item["metadata"]["name"] not in ("nothing", "mlflow") or item["kind"] != "NetworkPolicy"
    ]
    assert ("stranger", "mlflow", 5000) in _flows(found)
