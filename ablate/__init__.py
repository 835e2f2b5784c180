"""Find out which technique really helps, once every variant has had a fair chance.

from ablate import Study, load, run

summary = run("studies/doc_layer_mix.py")
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ablate.config.fields import setting
    from ablate.config.metrics import Metric
    from ablate.config.tasks import task
    from ablate.engine.run import load, run
    from ablate.study.designs import (
        factorial,
        fractional_factorial,
        grid,
        leave_one_out,
        one_at_a_time,
        path,
        table,
    )
    from ablate.study.small import smaller, smoke
    from ablate.study.words import (
        Analyze,
        Arm,
        Budget,
        Design,
        Inherit,
        Scale,
        Search,
        Stage,
        Study,
        recipe,
    )
    from ablate.trial.command import task_command
    from ablate.trial.function import Run

# torch reads this before its first tensor: large tensors in huge pages, where Linux has them
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

_MODULES = (  # those that import the least first
    "ablate.config.tasks",
    "ablate.config.metrics",
    "ablate.config.fields",
    "ablate.study.words",
    "ablate.study.designs",
    "ablate.study.small",
    "ablate.engine.run",
    "ablate.trial.command",
    "ablate.trial.function",
)
__all__ = [
    "Analyze",
    "Arm",
    "Budget",
    "Design",
    "Inherit",
    "Metric",
    "Run",
    "Scale",
    "Search",
    "Stage",
    "Study",
    "factorial",
    "fractional_factorial",
    "grid",
    "leave_one_out",
    "load",
    "one_at_a_time",
    "path",
    "recipe",
    "run",
    "setting",
    "smaller",
    "smoke",
    "table",
    "task",
    "task_command",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: running a study needs packages that words do not."""
    if name not in __all__:
        raise AttributeError(f"module 'ablate' has no attribute '{name}'")
    homes = map(import_module, _MODULES)
    return next(getattr(home, name) for home in homes if hasattr(home, name))
