"""`ablate doctor --cluster ADDRESS`: checks a Ray cluster by a small task on every host.

It connects in a separate process, which can be killed if the cluster does not answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ablate.commands.doctor.finding import FAIL, OK, WARN, Finding
from ablate.commands.doctor.places import ray_client
from ablate.store.workspace import Workspace
from ablate.trial.provenance.environment import versions

SECONDS = 50.0
SAME = ("ablate", "torch", "numpy", "ray", "pyarrow")  # versions that all hosts must share
TOKEN = "RAY_AUTH_TOKEN"
QUERY = """
import json, subprocess, sys
import ray

def examine():
    from ablate.trial.provenance.environment import versions
    import subprocess
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=10)
        gpus = len(listed.stdout.strip().splitlines()) if listed.returncode == 0 else 0
    except OSError:
        gpus = 0
    return {"versions": versions(), "gpus": gpus}

ray.init(address=sys.argv[1], log_to_driver=False, logging_level="CRITICAL")
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

hosts = [node for node in ray.nodes() if node["Alive"]]
examine = ray.remote(num_cpus=0)(examine)
strategies = [On(node["NodeID"], soft=False) for node in hosts]
tasks = [examine.options(scheduling_strategy=strategy).remote() for strategy in strategies]
results = [
    {"host": node["NodeManagerAddress"], "ray": node["Resources"], **result}
    for node, result in zip(hosts, ray.get(tasks, timeout=40))
]
print("HOSTS " + json.dumps(results))
"""


def cluster(address: str) -> Any:
    """Return the check of one cluster."""

    def check(workspace: Workspace) -> Iterator[Finding]:
        if address.startswith("ray://"):
            yield ray_client("the address", address)
            return
        mode = os.environ.get("RAY_AUTH_MODE", "")
        if mode.lower() == "token" and not os.environ.get(TOKEN) and not _token_file():
            yield Finding(FAIL, "there is no token for Ray", f"Set {TOKEN} (Secret ablate-ray).", 5)
            return
        try:
            done = subprocess.run(
                [sys.executable, "-c", QUERY, address],
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            text = f"the Ray at {address} has not answered within {SECONDS:g} s"
            yield Finding(FAIL, text, "Is the cluster up, and this host inside its network?", 5)
            return
        yield from interpret(done.stdout, done.stderr, address)

    return check


def _token_file() -> bool:
    path = os.environ.get("RAY_AUTH_TOKEN_PATH") or os.path.expanduser("~/.ray/auth_token")
    return os.path.exists(path)


def interpret(out: str, err: str, address: str) -> list[Finding]:
    """Return the findings from the output of the query."""
    hosts = [line.removeprefix("HOSTS ") for line in out.splitlines() if line.startswith("HOSTS ")]
    if hosts:
        return compare(json.loads(hosts[0]), versions())
    last = (err.strip().splitlines() or ["it printed nothing"])[-1][:300]
    if "token" in err.lower() and ("auth" in err.lower() or "invalid" in err.lower()):
        remedy = f"Set RAY_AUTH_MODE=token and {TOKEN} to the cluster's (Secret ablate-ray)."
        return [Finding(FAIL, f"the Ray at {address} refuses the token: {last}", remedy, 5)]
    if "Version mismatch" in err:  # Ray accepts only its own versions of Ray and Python
        other = " ".join(err[err.index("Version mismatch") :].split())[:300]
        remedy = "Give driver and cluster one image, or install the cluster's versions here."
        return [Finding(FAIL, f"the Ray at {address} has other versions: {other}", remedy, 7)]
    remedy = "Is the cluster up, the address right, and Ray's version the same?"
    return [
        Finding(FAIL, f"the Ray at {address} does not accept this connection: {last}", remedy, 5)
    ]


def compare(hosts: Sequence[Mapping[str, Any]], ours: Mapping[str, str]) -> list[Finding]:
    """Return a finding for the cluster, and one for everything wrong with a host."""
    cpus = sum(host["ray"].get("CPU", 0) for host in hosts)
    gpus = sum(host["ray"].get("GPU", 0) for host in hosts)
    findings = [Finding(OK, f"{len(hosts)} hosts with {cpus:g} CPUs and {gpus:g} GPUs for trials")]
    for host in hosts:
        findings += _versions(host, ours)
        findings += _gpus(host)
    if not cpus:
        findings.append(Finding(WARN, "no host has CPUs now", "An autoscaler may start some."))
    return findings


def _versions(host: Mapping[str, Any], ours: Mapping[str, str]) -> Iterator[Finding]:
    theirs = host["versions"]
    other = [
        f"{name} {theirs.get(name, 'missing')} (here {ours.get(name, 'missing')})"
        for name in SAME
        if theirs.get(name) != ours.get(name)
    ]
    if other:
        remedy = "Give driver and workers one image: other versions may compute other numbers."
        yield Finding(FAIL, f"{host['host']} has {', '.join(other)}", remedy, 7)


def _gpus(host: Mapping[str, Any]) -> Iterator[Finding]:
    known, present = host["ray"].get("GPU", 0), host["gpus"]
    if present > known:
        text = f"{host['host']} has {present} GPUs, and Ray sees {known:g}"
        yield Finding(FAIL, text, "Start its Ray with --num-gpus, or name nvidia.com/gpu.", 5)
