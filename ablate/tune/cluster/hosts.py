"""What the hosts of a cluster have, by a small task on each."""

from __future__ import annotations

from dataclasses import dataclass

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ablate.trial.provenance.environment import versions
from ablate.tune.cluster.session import Fleet, connected

SECONDS = 40.0


@dataclass(frozen=True)
class Host:
    """A host, with what Ray sees of it and the versions of its packages."""

    name: str
    cpus: float
    gpus: float
    versions: dict[str, str]


def hosts(address: str) -> list[Host]:
    """Ask every host of the cluster at an address, as a study would."""
    with connected(Fleet(address=address)):
        nodes = [node for node in ray.nodes() if node["Alive"]]
        task = ray.remote(num_cpus=0)(_versions)
        on = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
        asked = [task.options(scheduling_strategy=strategy).remote() for strategy in on]
        return [
            Host(
                node["NodeManagerAddress"],
                node["Resources"].get("CPU", 0.0),
                node["Resources"].get("GPU", 0.0),
                found,
            )
            for node, found in zip(nodes, ray.get(asked, timeout=SECONDS), strict=True)
        ]


def _versions() -> dict[str, str]:
    """A function without a cache, as Ray wants one."""
    return versions()
