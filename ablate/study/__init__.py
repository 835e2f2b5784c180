"""The classes and functions that study files use, and the plan of a study's trials."""

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
from ablate.study.words import Arm, Budget, Design, Inherit, Scale, Search, Stage, Study, recipe

__all__ = [
    "Arm",
    "Budget",
    "Design",
    "Inherit",
    "Scale",
    "Search",
    "Stage",
    "Study",
    "factorial",
    "fractional_factorial",
    "grid",
    "leave_one_out",
    "one_at_a_time",
    "path",
    "recipe",
    "smaller",
    "smoke",
    "table",
]
