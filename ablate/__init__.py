"""Find out which technique really helps, once every variant has had a fair chance.

from ablate import Study, load, run

summary = run("studies/doc_layer_mix.py")
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ablate.moved import Moved
from ablate.public import HOMES, imported

if TYPE_CHECKING:  # for editors and type checkers, which do not execute `imported`
    from ablate.config.data_source import DataConfig as DataConfig
    from ablate.config.data_source import DataSource as DataSource
    from ablate.config.fields import setting as setting
    from ablate.config.metrics import Metric as Metric
    from ablate.config.tasks import task as task
    from ablate.engine.reading import compare as compare
    from ablate.engine.reading import load as load
    from ablate.engine.reading import query as query
    from ablate.engine.reading import report as report
    from ablate.engine.run import run as run
    from ablate.judging.judge import judge as judge
    from ablate.study.designs import factorial as factorial
    from ablate.study.designs import fractional_factorial as fractional_factorial
    from ablate.study.designs import leave_one_out as leave_one_out
    from ablate.study.designs import one_at_a_time as one_at_a_time
    from ablate.study.designs import path as path
    from ablate.study.designs import table as table
    from ablate.study.equal import equal as equal
    from ablate.study.small import smaller as smaller
    from ablate.study.small import smoke as smoke
    from ablate.study.study import Study as Study
    from ablate.study.words import Analyze as Analyze
    from ablate.study.words import Arm as Arm
    from ablate.study.words import Design as Design
    from ablate.study.words import Inherit as Inherit
    from ablate.study.words import Ladder as Ladder
    from ablate.study.words import Scale as Scale
    from ablate.study.words import Search as Search
    from ablate.study.words import Stage as Stage
    from ablate.study.words import recipe as recipe
    from ablate.trial.user.command import task_command as task_command
    from ablate.trial.user.function import Run as Run

# torch reads this before its first tensor: large tensors in huge pages, where Linux has them
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

# First: other finders would follow a moved folder's path, and load its files a second time.
sys.meta_path.insert(0, Moved())

__all__ = list(HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'ablate' has no attribute '{name}'")
    return imported(name)


def __dir__() -> list[str]:
    """The public names, though each is imported on first use."""
    return sorted({*HOMES, *(name for name in globals() if name.startswith("__"))})
