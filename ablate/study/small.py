"""Smaller scales: a paper's settings adapted to smaller models, and a run that takes seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ablate.config.tasks import ONE_EPOCH
from ablate.study.words import Scale, Stage, Values


def smaller(
    *, strengths: float = 1, experts: int = 1, but: Sequence[str] = ("mixture_balance",)
) -> Callable[[dict[str, Any]], Values]:
    """Make a scale's `adapt` for smaller models.

    Args:
        strengths: Divide the strengths of all regularizers by this number.
        experts: Divide the numbers of experts of a mixture by this number, and round up.
        but: Names of regularizers whose strengths stay.
    """

    def divide(values: dict[str, Any]) -> Values:
        changes: dict[str, Any] = {
            key: value / strengths
            for key, value in values.items()
            if key.startswith("regularizer.") and key.split(".")[1] not in but
            if type(value) in (int, float)  # True is an int to `isinstance`
        }
        match values.get("head.experts"):
            case int(count):
                changes["head.experts"] = -(-count // experts)
            case list() | tuple() as counts:
                changes["head.experts"] = tuple(-(-count // experts) for count in counts)
        return changes

    return divide


def brief_stage(stage: Stage) -> Stage:
    """Shorten a stage to one epoch, or to two trials of its search."""
    changes = {**stage.changes, **ONE_EPOCH} if stage.trains else stage.changes
    search = stage.search and replace(stage.search, trials=2, changes={})
    return replace(stage, changes=changes, search=search)


def smoke(scale: Scale, **words: Any) -> Scale:
    """Shrink a scale to seconds, to check that everything runs; its results mean nothing.

    Trials are made brief as their kind of task says (one epoch, a small part of the text), unless
    `changes` are given.

    Args:
        scale: The scale to shrink.
        words: Fields of the smaller scale: `smoke(scale, changes={"boost.stages": 1})`.
    """
    search = scale.search and replace(scale.search, trials=2, repeats=1, looks=(), changes={})
    stages = tuple(map(brief_stage, scale.stages))
    words = {"seeds": min(scale.seeds, 2), "looks": (), **words}
    small = replace(scale, smoke=True, brief="changes" not in words)
    return replace(small, stages=stages, search=search, **words)
