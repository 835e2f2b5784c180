"""The names that users import from `ablate`, and the file that each is defined in."""

from __future__ import annotations

from importlib import import_module
from typing import Any

HOMES = {
    "Analyze": "ablate.study.words",
    "Arm": "ablate.study.words",
    "DataConfig": "ablate.config.data_source",
    "DataSource": "ablate.config.data_source",
    "Design": "ablate.study.words",
    "Inherit": "ablate.study.words",
    "Ladder": "ablate.study.words",
    "Metric": "ablate.config.metrics",
    "Run": "ablate.trial.user.function",
    "Scale": "ablate.study.words",
    "Search": "ablate.study.words",
    "Stage": "ablate.study.words",
    "Study": "ablate.study.study",
    "compare": "ablate.engine.reading",
    "factorial": "ablate.study.designs",
    "fractional_factorial": "ablate.study.designs",
    "judge": "ablate.judging.judge",
    "leave_one_out": "ablate.study.designs",
    "load": "ablate.engine.reading",
    "one_at_a_time": "ablate.study.designs",
    "path": "ablate.study.designs",
    "query": "ablate.engine.reading",
    "recipe": "ablate.study.words",
    "report": "ablate.engine.reading",
    "run": "ablate.engine.run",
    "setting": "ablate.config.fields",
    "equal": "ablate.study.equal",
    "smaller": "ablate.study.small",
    "smoke": "ablate.study.small",
    "table": "ablate.study.designs",
    "task": "ablate.config.tasks",
    "task_command": "ablate.trial.user.command",
}

# Names, fields and techniques that were removed, and the way to write the same now.
REMOVED = {
    "Budget": "Scale(hours=2); a plan says how many trials there are, and what they cost",
    "grid": "factorial(...), or Search(space=...) for a space",
    "Ladder.beyond": "leave it out: savings are carried to ten times the largest rung's compute",
    "Ladder.names": "leave it out: rungs are called by the values of the first field",
    "Scale.budget": "hours=2; a plan says how many trials there are, and what they cost",
    "Scale.fuse": "leave it out: seeds train one by one (with gpus=1/3, three share a GPU)",
    "Scale.processes": "leave it out (several train in a task of your own that runs torchrun)",
    "Scale.share_gpus": "gpus=1/3 for three trials on a GPU, if its memory holds three",
    "Search.also": "leave it out: what an arm sets is searched in no other arm",
    "Search.reduction": "leave it out: one trial in three continues",
    "Search.tokens": "trials=, or the scale's hours=",
    "Stage.control": "one more arm, with the stage without the treatment, that against= names",
    "backbone.rwkv7": "'gated_delta' or 'mamba2'",
    "schedule.linear": "'warmup_stable_decay' with schedule.share = 1, which is the same",
}


def imported(name: str) -> Any:
    """Import a public name on first use: running a study needs packages that words do not."""
    return getattr(import_module(HOMES[name]), name)
