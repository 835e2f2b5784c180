"""How long a study's cluster lives, by the rules of KubeRay and Kueue that no schema states.

Restated from sources under Apache-2.0 that no test here can run, as read on 2026-11-26:

- KubeRay, ray-operator/controllers/ray/utils/validation.go, with the fields of 1.7
  (`validateDeletionConfiguration` and what it calls), and its feature gates of the same age:
  RayJobDeletionPolicy is on by default since 1.6. preRunningDeadlineSeconds has no gate.
- Kueue, pkg/controller/jobs/rayjob/rayjob_webhook.go and pkg/controller/jobs/raycluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.k8s.test_schemas import check
from tests.support.manifests import RENDERED, objects

STUDIES = tuple(name for name in RENDERED if name.endswith("/study"))
STATUSES = {"jobStatus", "jobDeploymentStatus"}
PARTS = ("DeleteWorkers", "DeleteCluster", "DeleteSelf")  # each goes no earlier than the one before
QUEUE, TTL = "kueue.x-k8s.io/queue-name", "ttlSecondsAfterFinished"
MINUTE, DAY, WEEK = 60, 86400, 604800


def study(name: str) -> dict[str, Any]:
    (job,) = objects(name)
    return job


def status(rule: Mapping[str, Any]) -> str:
    return " ".join(str(rule["condition"].get(each, "")) for each in sorted(STATUSES)).strip()


def times(job: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """(status, policy) -> seconds, of a job's deletion rules."""
    rules = job["spec"].get("deletionStrategy", {}).get("deletionRules", [])
    return {
        (status(rule), rule["policy"]): rule["condition"].get("ttlSeconds", 0) for rule in rules
    }


def in_order(found: Mapping[tuple[str, str], int]) -> bool:
    return all(
        [*each] == sorted(each)
        for on in {on for on, _ in found}
        for each in [[found[on, part] for part in PARTS if (on, part) in found]]
    )


def checks(job: Mapping[str, Any]) -> dict[str, object]:
    """Each reason for which KubeRay or Kueue would refuse a job -> whether it does."""
    spec, found = job["spec"], times(job)
    strategy = spec.get("deletionStrategy", {})
    rules, shutdown = strategy.get("deletionRules", []), spec.get("shutdownAfterJobFinishes", False)
    scaled = spec["rayClusterSpec"].get("enableInTreeAutoscaling", False)
    queued = QUEUE in job["metadata"]["labels"]
    return {
        "rules beside shutdownAfterJobFinishes": rules and shutdown,
        "rules beside onSuccess": rules and len(strategy) > 1,
        "an empty strategy": "deletionStrategy" in spec and len(strategy) == 0,
        "seconds that nothing uses": spec.get(TTL, 0) > 0 and not shutdown,
        "not one status": any(len(STATUSES & set(rule["condition"])) != 1 for rule in rules),
        "one rule twice": len(found) != len(rules),
        "the whole before its part": not in_order(found),
        "DeleteWorkers beside the autoscaler": scaled and "DeleteWorkers" in {p for _, p in found},
        "queued without shutdownAfterJobFinishes": queued and not shutdown,
        "queued with an autoscaler": queued and scaled,
    }


def refusals(job: Mapping[str, Any]) -> list[str]:
    return [told for told, is_wrong in checks(job).items() if is_wrong]


@pytest.mark.parametrize("name", STUDIES)
def test_it_is_not_refused(name: str) -> None:
    job = study(name)
    check(job)
    assert refusals(job) == []


def change_rules(change: Callable[[list[Any]], object]) -> Callable[[Any], object]:
    return lambda job: change(job["spec"]["deletionStrategy"]["deletionRules"])


WORKERS = {"condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 0}, "policy": "DeleteWorkers"}
WRONG: dict[str, tuple[str, Callable[[Any], object]]] = {
    "rules beside shutdownAfterJobFinishes": (
        "kuberay",
        lambda job: job["spec"].update(shutdownAfterJobFinishes=True),
    ),
    "rules beside onSuccess": (
        "kuberay",
        lambda job: job["spec"]["deletionStrategy"].update(onSuccess={"policy": "DeleteSelf"}),
    ),
    "an empty strategy": ("kuberay", lambda job: job["spec"].update(deletionStrategy={})),
    "seconds that nothing uses": (
        "kuberay",
        lambda job: job["spec"].update(ttlSecondsAfterFinished=9),
    ),
    "not one status": (
        "kuberay",
        change_rules(lambda rules: rules[0]["condition"].update(jobDeploymentStatus="Failed")),
    ),
    "one rule twice": ("kuberay", change_rules(lambda rules: rules.append(rules[0]))),
    "the whole before its part": (
        "kuberay",
        change_rules(lambda rules: rules.append({**WORKERS, "policy": "DeleteSelf"})),
    ),
    "DeleteWorkers beside the autoscaler": (
        "kuberay",
        change_rules(lambda rules: rules.append(WORKERS)),
    ),
    "queued without shutdownAfterJobFinishes": (
        "kueue",
        lambda job: [job["spec"].pop(each) for each in ("shutdownAfterJobFinishes", TTL)],
    ),
    "queued with an autoscaler": (
        "kueue",
        lambda job: job["spec"]["rayClusterSpec"].update(enableInTreeAutoscaling=True),
    ),
}


@pytest.mark.parametrize("told", WRONG)
def test_the_check_itself(told: str) -> None:
    platform, spoil = WRONG[told]
    job = study(f"{platform}/study")
    spoil(job)
    assert refusals(job) == [told]


def test_every_check_has_a_wrong_job() -> None:
    assert set(checks(study("kuberay/study"))) == set(WRONG)


@pytest.mark.parametrize("name", STUDIES)
def test_no_cluster_is_older_than_a_week(name: str) -> None:
    """Its driver goes on after the deadline, until the cluster is deleted."""
    job = study(name)
    spec = job["spec"]
    last = max([*times(job).values(), spec.get(TTL, 0)])
    assert 0 < spec["preRunningDeadlineSeconds"] < spec["activeDeadlineSeconds"] <= WEEK - last
