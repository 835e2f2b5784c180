"""The check of `ablate doctor` of Ray: whether a cluster answers, with one version on all hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ablate.commands.doctor.finding import FAIL, OK, Finding
from ablate.trial.provenance.environment import versions

if TYPE_CHECKING:
    from ablate.tune.cluster.hosts import Host

SAME = ("ablate", "torch", "numpy", "ray", "pyarrow")  # versions that all hosts must share
ONE_IMAGE = "Give driver and workers one image: other versions may compute other numbers."


def cluster(address: str) -> Iterator[Finding]:
    """Check the cluster at this address; an empty one: there is none."""
    if address in ("", "local"):
        yield Finding(OK, "no cluster set: a study starts Ray on this machine")
        return
    from ablate.tune.cluster.hosts import hosts

    yield from compare(hosts(address), versions())


def compare(hosts: Sequence[Host], ours: Mapping[str, str]) -> list[Finding]:
    """Return a finding for the cluster, and one for each host with other versions."""
    cpus, gpus = sum(host.cpus for host in hosts), sum(host.gpus for host in hosts)
    findings = [Finding(OK, f"{len(hosts)} hosts with {cpus:g} CPUs and {gpus:g} GPUs for trials")]
    for host in hosts:
        other = [
            f"{each} {host.versions.get(each, 'missing')} (here {ours.get(each, 'missing')})"
            for each in SAME
            if host.versions.get(each) != ours.get(each)
        ]
        if other:
            findings.append(Finding(FAIL, f"{host.name} has {', '.join(other)}", ONE_IMAGE, 7))
    return findings
