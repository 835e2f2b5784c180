"""Had training settled? What the last epoch still brought, beside the difference of two arms.

Arms that still improve by as much as they differ may change places with further epochs: their
difference is of this number of epochs. It is a note, and no test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ablate.compare.table.rows import ArmSummary
from ablate.compare.text.figures import changed
from ablate.config.metrics import Metric
from ablate.results.spread import mean
from ablate.store.journal import Journal

SHARE = 0.25  # of the difference
MOST_NAMED = 4  # arms in the note
VALID = "valid"


def note(found: Iterable[Unsettled], metric: Metric) -> Iterator[str]:
    """The compared arms whose last epochs, and their base's, improved by much of the difference."""
    told = []
    for each in found:
        own, other = _named(each.arm, metric, each.own), _named(each.other, metric, each.theirs)
        told.append(f"{own}, {other}; their difference is {_shown(metric, each.apart)}")
    if told:
        more = len(told) - MOST_NAMED
        noun = "arm" if more == 1 else "arms"
        left = f". {more} more {noun} likewise" if more > 0 else ""
        yield f"Still improving, in the last epoch: {'. '.join(told[:MOST_NAMED])}{left}."


class Unsettled(NamedTuple):
    """How much the last epoch improved an arm, and the arm that it is compared with."""

    arm: ArmSummary
    other: ArmSummary
    own: float
    theirs: float
    apart: float


def unsettled(
    arms: Iterable[ArmSummary], journals: Mapping[str, Journal], metric: Metric
) -> Iterator[Unsettled]:
    """The compared arms whose last epochs, and their base's, improved by much of the difference."""
    by_name = {arm.name: arm for arm in arms}
    base = next((name for name, arm in by_name.items() if arm.is_base), "")
    for arm in by_name.values():
        other = by_name.get(arm.against or base)
        if arm.comparison is None or other is None:
            continue
        own, theirs = (last_epoch(each, journals, metric) for each in (arm, other))
        if own is None or theirs is None:
            continue
        apart = arm.comparison.difference.mean
        if max(0.0, -own) + max(0.0, -theirs) > SHARE * abs(apart):
            yield Unsettled(arm, other, own, theirs, apart)


def last_epoch(arm: ArmSummary, journals: Mapping[str, Journal], metric: Metric) -> float | None:
    """How the validation loss changed in the last epoch: the mean over an arm's seeds."""
    changes = [_change(trial, journals, metric) for trial in arm.trials]
    known = [change for change in changes if change is not None]
    return mean(known) if known else None


def _change(trial: str, journals: Mapping[str, Journal], metric: Metric) -> float | None:
    """The change of a trial; if it trained nothing, that of the trial that it judges."""
    journal = journals.get(trial)
    while journal is not None and not journal.epochs and journal.trial.parent_ids():
        journal = journals.get(journal.trial.parent_ids()[0])
    if journal is None:
        return None
    losses = [metric.loss_of(epoch.metrics, VALID) for epoch in journal.epochs]
    *_, before, after = [None, None, *losses]
    shown = metric.loss_of(journal.metrics, VALID)
    if shown is not None and shown != after and shown in losses:
        return 0.0  # its numbers are those of its best epoch: those after it brought nothing
    return None if before is None or after is None else after - before


def _named(arm: ArmSummary, metric: Metric, change: float) -> str:
    """The arm and its change; the other of the pair may be the one that still improves."""
    return f"{arm.name} {_shown(metric, change)}{' (worse)' if change > 0 else ''}"


def _shown(metric: Metric, difference: float) -> str:
    return changed(metric, metric.change(difference), None, metric.digits)
