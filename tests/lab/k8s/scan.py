"""`make test-cluster`: checkov on every pod, which finds what is explained here and nothing else.

Not among the usual tests: checkov needs an environment of its own, as its pins are narrow.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.k8s.test_policy import all_pods

# What checkov finds and why it stays. Nothing else may be found.
EXPLAINED = {
    "CKV_K8S_11": "no CPU limits: a throttled server stalls others; quotas bound the namespace",
    "CKV_K8S_15": "images pinned by version are pulled once; our own is loaded, not pulled",
    "CKV_K8S_35": "MLflow, Optuna and Ray read their secrets from the environment",
    "CKV_K8S_40": "uids below 10000 are those that the official images own their files as",
    "CKV_K8S_43": "our own image is built and pushed by its user, who names it: see README",
    "CKV_K8S_8": "liveness: KubeRay injects Ray's probes; a submitter ends by itself",
    "CKV_K8S_9": "readiness: KubeRay injects Ray's probes; a submitter ends by itself",
    "CKV_K8S_21": "an artefact of the scan: pods are rendered without their namespace",
    "CKV2_K8S_6": "an artefact of the scan: it sees pods without the NetworkPolicies",
}


def test_checkov(tmp_path: Path) -> None:
    """checkov reads pods, not the operator's objects: it gets the pods that they would create."""
    checkov = shutil.which("checkov")
    if checkov is None:
        pytest.skip("checkov is not installed")
    for where, pod in all_pods():
        metadata = {"name": pod.name, "labels": dict(pod.labels)}
        text = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(pod.spec)}
        (tmp_path / f"{where}-{pod.name}.yaml".replace("/", "-")).write_text(yaml.safe_dump(text))
    scan = [checkov, "--framework", "kubernetes", "--skip-download", "--compact", "-o", "json"]
    done = subprocess.run(
        [*scan, "-d", str(tmp_path)], capture_output=True, text=True, timeout=240, check=False
    )
    report = json.loads(done.stdout)
    failed = {check["check_id"] for check in report["results"]["failed_checks"]}
    assert report["summary"]["passed"] > 100
    assert failed == set(EXPLAINED)
