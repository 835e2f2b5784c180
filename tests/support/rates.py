"""The learning rates of a training whose validation losses are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ablate.config.resolve import resolve
from ablate.lm.model.schedule import Progress

MODEL = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd", "embedding.size": 8}


def rates_by_epoch(values: Mapping[str, Any], losses: Sequence[float]) -> list[float]:
    """The first rate of every epoch, and of the one after the last."""
    config = resolve({**MODEL, **values})
    schedule, highest = config.schedule.make(), config["optimizer"].config.learning_rate
    done = (tuple(losses[:epoch]) for epoch in range(len(losses) + 1))
    return [schedule.learning_rate(highest, Progress(0, 0, losses)) for losses in done]


def rates_by_update(values: Mapping[str, Any], total: int) -> list[float]:
    """The share of the rate at every update of a training, and right after it."""
    schedule = resolve({**MODEL, **values}).schedule.make()
    return [schedule.learning_rate(1.0, Progress(n, total, ())) for n in range(total + 1)]
