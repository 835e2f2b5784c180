"""The best arm of a study and its settings, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ablate.compare.judged import Judged
from ablate.compare.table import columns
from ablate.compare.table.rows import ArmSummary
from ablate.errors import ConfigError, unknown
from ablate.results.result import result_of
from ablate.store.replication import counted


@dataclass(frozen=True)
class Best:
    """The arm that a table marks as best, and the settings of it; it is False where no arm is."""

    arm: str | None
    reason: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # for a study's base, over its own

    def __bool__(self) -> bool:
        return self.arm is not None

    def __str__(self) -> str:
        settings = ", ".join(f"{name} = {value!r}" for name, value in self.settings.items())
        return f"{self.reason} {f'Settings: {settings}.' if settings else ''}".rstrip()


def best(summary: Judged, name: str | None = None) -> Best:
    """The arm that the table marks as best, which the corrected test decides; or the arm `name`."""
    known = [arm.name for arm in summary.arms]
    if name is not None and name not in known:
        raise ConfigError(unknown("arm", name, known, summary.record.key))
    marked = [arm.name for arm in summary.arms if arm.best]
    if name is not None:
        return _of(summary, name, f"{name}, the arm that was named.")
    if len(known) == 1:
        return _of(summary, known[0], f"{known[0]} is the only arm.")
    if marked:
        why = "is better than every other arm by the corrected test"
        return _of(summary, marked[0], f"{marked[0]} {why}, on {summary.split}.")
    return Best(None, _why_none(summary))


def _of(summary: Judged, name: str, reason: str) -> Best:
    record = summary.record
    changes = next(arm.changes for arm in record.arms if arm.name == name)
    found = summary.found.get(name, {})
    losses = {number: _loss(summary, name, number) for number in found}
    if not found:
        return Best(name, reason, dict(changes))
    chosen = min(losses, key=losses.__getitem__)
    which = "its search"
    if len(found) > 1:
        which = f"the best on validation of its {counted(len(found), 'search')}"
    return Best(name, f"{reason} Settings found by {which}.", {**changes, **found[chosen]})


def _loss(summary: Judged, arm: str, number: int) -> float:
    """The validation loss of a search's winner."""
    for search in summary.record.searches_of(arm):
        own = search.repeat if search.seed_index is None else search.seed_index
        if own == number and search.chosen is not None and search.chosen in summary.journals:
            loss = result_of(summary.journals[search.chosen]).loss(summary.metric, "valid")
            return float("inf") if loss is None else loss
    return float("inf")


def _why_none(summary: Judged) -> str:
    """Why no arm is marked, and which one leads."""
    split, unit = summary.split, summary.unit
    with_values = [arm for arm in summary.arms if split in arm.cells]
    if not with_values:
        return f"No arm has a result on {split} yet."
    leader = min(with_values, key=lambda arm: arm.cells[split].loss)
    mean = columns.mean_and_spread(leader.cells[split], columns.decimals(summary))
    leads = f"{leader.name} leads with a {split} {unit} of {mean}"
    if summary.replication.untestable:
        return f"{leads}, but with a single search for each arm nothing is tested."
    return (
        f"{leads}, but no arm is better than every other one by the corrected test{_but(leader)}."
    )


def _but(leader: ArmSummary) -> str:
    tested = leader.comparison
    return f" ({columns.verdict(leader)} against the base arm)" if tested else ""
