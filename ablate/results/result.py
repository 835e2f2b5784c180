"""What came of one trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate.config.metrics import SPLITS, Metric, is_usable
from ablate.store.journal import Journal
from ablate.store.numbers import finite
from ablate.store.outcome import Status, is_its_own

MISSING = "missing"
AT_FLOOR = "at floor"  # completed, with a value that the metric's scale has no place for
RAISED = "raised an error"  # it failed by its own code
# Fates that may depend on what the result would have been: the results that are left are a choice.
LOST = (Status.DIVERGED, Status.PRUNED, RAISED)


@dataclass(frozen=True, kw_only=True)
class Result:
    """A trial's outcome, and its cost so far."""

    status: Status | None  # None while it has no outcome
    reason: str | None = None  # why there is no number
    metrics: Mapping[str, Any] = field(default_factory=dict)  # by `Metric.key`
    num_parameters: int | None = None
    tokens: float = 0.0  # trained on, over all its epochs
    seconds: float = 0.0  # of its epochs
    operations: float | None = None  # of its training, estimated; None: not known
    deviations: tuple[float, ...] = ()  # of its items or their clusters
    deviations_of: str = ""

    def loss(self, metric: Metric, split: str) -> float | None:
        """The loss on a split if the trial completed and the value is finite."""
        return metric.loss_of(self.metrics, split) if self.status == Status.COMPLETED else None

    def fate(self, metric: Metric) -> str:
        """What a trial counts as: one that completed with a metric that is no number diverged."""
        if self.status is None:
            return MISSING
        if self.status == Status.FAILED and is_its_own(self.reason):
            return RAISED
        if self.status != Status.COMPLETED:
            return self.status
        for split in SPLITS:
            value = self.metrics.get(metric.key(split))
            if value is not None and ((known := finite(value)) is None or not is_usable(known)):
                return Status.DIVERGED
        return self.status


def result_of(journal: Journal) -> Result:
    """The result in a trial's journal."""
    outcome, tokens = journal.outcome, sum(epoch.tokens or 0 for epoch in journal.epochs)
    return Result(
        status=journal.status,
        reason=outcome and outcome.reason,
        metrics=journal.metrics,
        num_parameters=outcome and outcome.num_parameters,
        tokens=tokens,
        operations=operations_of(journal),
        deviations=(outcome and outcome.deviations) or (),
        deviations_of=(outcome and outcome.deviations_of) or "",
        seconds=max((epoch.seconds or 0.0 for epoch in journal.epochs), default=0.0),
    )


def operations_of(journal: Journal) -> float | None:
    """The estimated operations of a trial's training; 0 of a trial that trained on no token."""
    tokens = sum(epoch.tokens or 0 for epoch in journal.epochs)
    known = (attempt.operations for attempt in reversed(journal.attempts))
    each = next((number for number in known if number is not None), None)
    return each * tokens if each is not None and tokens else None if tokens else 0.0


def results_of(journals: Mapping[str, Journal]) -> dict[str, Result]:
    """Trial -> its result."""
    return {trial_id: result_of(journal) for trial_id, journal in journals.items()}
