"""`ablate`, whose garbage is collected only between the end of Ray's core and that of its process.

Other threads of a driver collect garbage at any time; at this one, Ray ends a process whose garbage
refers to one of Ray's objects.
"""

import gc
import sys
from typing import Any

import ray
from ray._private import worker

from ablate.cli import main

end_ray = ray.shutdown


class Core:
    """Ray's core in this process, after the end of which garbage is collected."""

    def __init__(self, core: Any) -> None:
        self._core = core

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def shutdown_driver(self) -> None:
        self._core.shutdown_driver()
        print("garbage is collected", file=sys.stderr, flush=True)
        gc.collect()


def shutdown(**options: Any) -> None:
    if hasattr(worker.global_worker, "core_worker"):
        worker.global_worker.core_worker = Core(worker.global_worker.core_worker)
    end_ray(**options)


if __name__ == "__main__":
    ray.shutdown = shutdown
    gc.disable()
    sys.exit(main(sys.argv[1:]))
