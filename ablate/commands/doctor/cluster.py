"""What `ablate doctor --cluster ADDRESS` finds out about a Ray cluster, asked from inside it.

It connects in a process of its own, which a cluster that does not answer takes with it, and runs
one small task on every host.
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
from ablate.trial.environment import versions

SECONDS = 50.0
MATTER = ("ablate", "torch", "numpy", "ray", "pyarrow")  # in which driver and workers must agree
TOKEN = "RAY_AUTH_TOKEN"
ASK = """
import json, subprocess, sys
import ray

def look():
    from ablate.trial.environment import versions
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
look = ray.remote(num_cpus=0)(look)
places = [On(node["NodeID"], soft=False) for node in hosts]
asked = [look.options(scheduling_strategy=place).remote() for place in places]
found = [
    {"host": node["NodeManagerAddress"], "ray": node["Resources"], **told}
    for node, told in zip(hosts, ray.get(asked, timeout=40))
]
print("FOUND " + json.dumps(found))
"""


def cluster(address: str) -> Any:
    """The check of one cluster."""

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
                [sys.executable, "-c", ASK, address],
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            text = f"the Ray at {address} has not answered within {SECONDS:g} s"
            yield Finding(FAIL, text, "Is the cluster up, and this host inside its network?", 5)
            return
        yield from told(done.stdout, done.stderr, address)

    return check


def _token_file() -> bool:
    place = os.environ.get("RAY_AUTH_TOKEN_PATH") or os.path.expanduser("~/.ray/auth_token")
    return os.path.exists(place)


def told(out: str, err: str, address: str) -> list[Finding]:
    """What the question's answer means."""
    found = [line.removeprefix("FOUND ") for line in out.splitlines() if line.startswith("FOUND ")]
    if found:
        return compared(json.loads(found[0]), versions())
    last = (err.strip().splitlines() or ["it said nothing"])[-1][:300]
    if "token" in err.lower() and ("auth" in err.lower() or "invalid" in err.lower()):
        remedy = f"Set RAY_AUTH_MODE=token and {TOKEN} to the cluster's own (Secret ablate-ray)."
        return [Finding(FAIL, f"the Ray at {address} refuses the token: {last}", remedy, 5)]
    if "Version mismatch" in err:  # Ray itself lets in its own version of Ray and Python alone
        other = " ".join(err[err.index("Version mismatch") :].split())[:300]
        remedy = "Give driver and cluster one image, or install the cluster's versions here."
        return [Finding(FAIL, f"the Ray at {address} has other versions: {other}", remedy, 7)]
    remedy = "Is the cluster up, the address right, and Ray's version the same?"
    return [Finding(FAIL, f"the Ray at {address} does not let us in: {last}", remedy, 5)]


def compared(hosts: Sequence[Mapping[str, Any]], ours: Mapping[str, str]) -> list[Finding]:
    """A line for the cluster, one for each host with something amiss."""
    cpus = sum(host["ray"].get("CPU", 0) for host in hosts)
    gpus = sum(host["ray"].get("GPU", 0) for host in hosts)
    findings = [Finding(OK, f"{len(hosts)} hosts with {cpus:g} CPUs and {gpus:g} GPUs for trials")]
    for host in hosts:
        findings += _versions(host, ours)
        findings += _gpus(host)
    if not cpus:
        findings.append(Finding(WARN, "no host has CPUs now", "An autoscaler may bring some."))
    return findings


def _versions(host: Mapping[str, Any], ours: Mapping[str, str]) -> Iterator[Finding]:
    theirs = host["versions"]
    other = [
        f"{name} {theirs.get(name, 'missing')} (here {ours.get(name, 'missing')})"
        for name in MATTER
        if theirs.get(name) != ours.get(name)
    ]
    if other:
        remedy = "Give driver and workers one image: other versions may compute other numbers."
        yield Finding(FAIL, f"{host['host']} has {', '.join(other)}", remedy, 7)


def _gpus(host: Mapping[str, Any]) -> Iterator[Finding]:
    known, there = host["ray"].get("GPU", 0), host["gpus"]
    if there > known:
        text = f"{host['host']} has {there} GPUs, and Ray sees {known:g}"
        yield Finding(FAIL, text, "Start its Ray with --num-gpus, or name nvidia.com/gpu.", 5)
