"""The cores that a study may use on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cores() -> float:
    """Return the cores that this process may use, by its affinity and its container's limit."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = float(len(affinity(0)) if affinity else os.cpu_count() or 1)
    try:  # of Linux containers since cgroup v2: "QUOTA PERIOD" in microseconds
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(cores, int(quota) / int(period))
    except (OSError, ValueError):  # no container, or no limit ("max")
        return cores


def room_for(threads: int) -> int:
    """Return the number of trials with this many threads that run at a time by default."""
    return max(1, int(usable_cores()) // threads)
