"""Which technique really helps, once every variant had a fair chance?

from ablate import Study, load, run

summary = run("studies/doc_layer_mix.py")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ablate.engine import load, run
    from ablate.study import (
        Arm,
        Budget,
        Design,
        Scale,
        Search,
        Stage,
        Study,
        factorial,
        fractional_factorial,
        grid,
        leave_one_out,
        one_at_a_time,
        path,
        recipe,
        smaller,
        smoke,
        table,
    )

_HOMES = {"run": "ablate.engine", "load": "ablate.engine"}
__all__ = [
    "Arm",
    "Budget",
    "Design",
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
    "smaller",
    "smoke",
    "table",
]


def __getattr__(name: str) -> Any:
    """Everything public, imported when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'ablate' has no attribute '{name}'")
    return getattr(import_module(_HOMES.get(name, "ablate.study")), name)
