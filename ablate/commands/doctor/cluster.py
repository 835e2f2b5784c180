"""The check of `ablate doctor` of Ray: of a cluster, by a small task on every host.

It connects in a separate process, which can be killed if the cluster does not answer.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ablate.commands.doctor.finding import FAIL, OK, WARN, Finding
from ablate.trial.provenance.environment import versions

SECONDS = 50.0  # below `examine.PATIENCE_S`, so that the user reads this check's remedy
SAME = ("ablate", "torch", "numpy", "ray", "pyarrow")  # versions that all hosts must share
TOKEN = "RAY_AUTH_TOKEN"
IS_IT_UP = (
    "Is the cluster up, the address right, and this host inside its network? Without a cluster, "
    "unset RAY_ADDRESS; without Ray: --local."
)
WRONG_TOKEN = f"Set RAY_AUTH_MODE=token and {TOKEN} to the cluster's (Secret ablate-ray)."
ONE_IMAGE = "Give driver and workers one image: other versions may compute other numbers."
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


def cluster(address: str) -> Iterator[Finding]:
    """Check the cluster at this address; an empty one: there is none."""
    if address in ("", "local"):
        yield Finding(OK, "no cluster set: a study starts Ray on this machine")
        return
    if address.startswith("ray://"):
        remedy = "Use the address of the cluster itself (HOST:6379), from a machine inside it."
        yield Finding(FAIL, f"{address} is an address of Ray Client", remedy, 5)
        return
    by_token = os.environ.get("RAY_AUTH_MODE", "").lower() == "token"
    if by_token and not os.environ.get(TOKEN) and not _token_file():
        yield Finding(FAIL, "there is no token for Ray", WRONG_TOKEN, 5)
        return
    if ":" in address:  # without a listener, Ray would try for most of a minute
        parts = urlsplit(f"//{address}")
        try:
            # 6379 is the port of `ray start --head`, if it names none.
            socket.create_connection((parts.hostname or "", parts.port or 6379), timeout=8).close()
        except OSError as error:
            yield Finding(FAIL, f"{address} does not answer: {error}", IS_IT_UP, 5)
            return
    command = [sys.executable, "-c", QUERY, address]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        text = f"the Ray at {address} has not answered within {SECONDS:g} s"
        yield Finding(FAIL, text, IS_IT_UP, 5)
        return
    yield from interpret(done.stdout, done.stderr, address)


def _token_file() -> bool:
    path = os.environ.get("RAY_AUTH_TOKEN_PATH") or os.path.expanduser("~/.ray/auth_token")
    return os.path.exists(path)


def interpret(out: str, err: str, address: str) -> list[Finding]:
    """Return the findings from the output of the query."""
    hosts = [line.removeprefix("HOSTS ") for line in out.splitlines() if line.startswith("HOSTS ")]
    if hosts:
        return compare(json.loads(hosts[0]), versions())
    # The last line of a traceback is the error itself.
    last = (err.strip().splitlines() or ["it printed nothing"])[-1][:300]
    if "token" in err.lower() and ("auth" in err.lower() or "invalid" in err.lower()):
        found = f"the Ray at {address} refuses the token: {last}"
        return [Finding(FAIL, found, WRONG_TOKEN, 5)]
    if "Version mismatch" in err:  # Ray accepts only its own versions of Ray and Python
        other = " ".join(err[err.index("Version mismatch") :].split())[:300]
        found = f"the Ray at {address} has other versions: {other}"
        return [Finding(FAIL, found, ONE_IMAGE, 7)]
    found = f"the Ray at {address} does not accept this connection: {last}"
    return [Finding(FAIL, found, IS_IT_UP, 5)]


def compare(hosts: Sequence[Mapping[str, Any]], ours: Mapping[str, str]) -> list[Finding]:
    """Return a finding for the cluster, and one for everything wrong with a host."""
    cpus = sum(host["ray"].get("CPU", 0) for host in hosts)
    gpus = sum(host["ray"].get("GPU", 0) for host in hosts)
    findings = [Finding(OK, f"{len(hosts)} hosts with {cpus:g} CPUs and {gpus:g} GPUs for trials")]
    for host in hosts:
        name, theirs, seen = host["host"], host["versions"], host["ray"].get("GPU", 0)
        other = [
            f"{each} {theirs.get(each, 'missing')} (here {ours.get(each, 'missing')})"
            for each in SAME
            if theirs.get(each) != ours.get(each)
        ]
        if other:
            findings.append(Finding(FAIL, f"{name} has {', '.join(other)}", ONE_IMAGE, 7))
        if host["gpus"] > seen:
            remedy = "Start its Ray with --num-gpus, or name nvidia.com/gpu."
            text = f"{name} has {host['gpus']} GPUs, and Ray sees {seen:g}"
            findings.append(Finding(FAIL, text, remedy, 5))
    if not cpus:  # no failure: a cluster may start with a head that runs no trials
        findings.append(Finding(WARN, "no host has CPUs now", "An autoscaler may start some."))
    return findings
