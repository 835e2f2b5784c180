"""The looks of a running study: what waits for one, when it is due, and what it decides.

A look is made once every result up to it is there. What it decides follows from the journals of
these alone, so that a study that was killed makes the same looks again and decides the same.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ablate.config.identity import digest
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.store.replication import counted, plural
from ablate.store.store import Store
from ablate.store.study_record import InterimLook, StudyRecord
from ablate.study.looked import without
from ablate.study.planned import Plan, PlannedSearch

if TYPE_CHECKING:
    from ablate.compare.judged import Judged
    from ablate.compare.table.rows import Comparison


class LooksAhead:
    """The looks that a study has yet to make; without one before its end, nothing waits."""

    def __init__(self, record: StudyRecord) -> None:
        self._pair = record.replication.pair
        looks = record.every_look
        self._ahead = [*looks.planned] if looks.are_several else []
        self.held: set[str] = set()  # trials that wait for the next look

    @property
    def next(self) -> int | None:
        """The number of pairs at the next look; None if none is ahead."""
        return self._ahead[0] if self._ahead else None

    def passed(self, record: StudyRecord) -> set[str]:
        """Take in that the next look was made; return the trials that waited for it.

        Once every arm is decided there is nothing further to look at.
        """
        del self._ahead[0]
        if all(arm.stopped_at is not None for arm in record.arms):
            self._ahead.clear()
        held, self.held = self.held, set()
        return held

    def is_released(self, seed_index: int) -> bool:
        """Return whether trials of this seed may start before the next look."""
        return self.next is None or self._pair(seed_index) < self.next

    def may_search(self, search: PlannedSearch) -> bool:
        """Return whether a search may start before the next look."""
        if "seed_index" in search.model:
            return self.is_released(search.model["seed_index"])
        return self.next is None or search.repeat < self.next

    def released(self, record: StudyRecord) -> set[str]:
        """The planned trials that may start before the next look."""
        return {trial.id for trial in record.trials if self.is_released(trial.seed_index)}

    def due(self, plan: Plan, status: Mapping[str, Status], settled: Collection[int]) -> int | None:
        """Return the number of pairs of the next look if its results are all there.

        `status`: of the trials that have started. `settled`: positions of the searches whose
        winners' trials are planned.
        """
        if self.next is None:
            return None
        running = (None, Status.RUNNING)
        ended = all(status.get(one) not in running for one in self.released(plan.record))
        searches = (at for at, search in enumerate(plan.searches) if self.may_search(search))
        return self.next if ended and all(at in settled for at in searches) else None


def look_at(plan: Plan, store: Store, num: int) -> tuple[Plan, set[str]]:
    """Look at the first `num` pairs; return the plan after it, and the arms that train no more.

    A look on record that saw the same table is this look.
    """
    from ablate.compare.judged import Judged
    from ablate.compare.table.provenance import contents_of

    record, pair = plan.record, plan.record.replication.pair
    look = InterimLook(num=num, first_seed=record.first_seed)
    earlier = (one for one in record.made if one.num < num)
    then = replace(record, made=(*earlier, look))  # without later looks of an earlier run
    seen = {trial.id for trial in record.trials if pair(trial.seed_index) < num}
    known = journals.labelled(
        journals.read_all(store, seen), {trial.id: trial for trial in plan.trials}
    )
    summary = Judged(then, known)
    plan = with_look(plan, look, digest(contents_of(summary)))
    training = {arm.name for arm in record.arms if arm.stopped_at is None}
    stopped = training - _needed(plan, summary)
    return without(plan, stopped, num), stopped


def with_look(plan: Plan, look: InterimLook, table: str) -> Plan:
    """Return the plan with a look on its record, unless one there saw the same table."""
    record = plan.record
    if any(replace(one, time="") == replace(look, table=table) for one in record.made):
        return plan
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return replace(
        plan, record=replace(record, made=(*record.made, replace(look, table=table, time=now)))
    )


def with_last_look(plan: Plan, table: str) -> Plan:
    """Return the plan with the look at its end on record."""
    looks = plan.record.every_look
    if looks.are_several or plan.record.replication.untestable:
        return plan  # the planned looks are there, or the table gives no verdict
    return with_look(plan, InterimLook(num=looks.pairs, first_seed=plan.record.first_seed), table)


def _needed(plan: Plan, summary: Judged) -> set[str]:
    """The arms that train on: those that are not decided, and those that these are compared with or
    start from."""
    compared = [arm for arm in summary.arms if not arm.is_base and arm.stopped_at is None]
    needed = [arm.name for arm in compared if not _is_decided(arm.comparison)]
    if summary.effects and not all(map(_is_decided, summary.effects.effects)):
        return {arm.name for arm in summary.arms}  # effects are of all arms
    inherit = plan.scale.search.inherit if plan.scale.search else {}
    for name in needed:  # grows while it is read
        others = [plan.record.arm(name).against or plan.record.base_arm]
        others += [inherit[name].arm] if name in inherit else []
        needed += [other for other in others if other not in needed]
    return set(needed)


def _is_decided(comparison: Comparison | None) -> bool:
    return comparison is not None and comparison.verdict.decided


def described(num: int, stopped: Collection[str], record: StudyRecord) -> str:
    """What a look came to, in a sentence."""
    unit = record.every_look.unit
    seen = f"looked at {counted(num, unit)}"
    if not stopped:
        return f"{seen}: no arm is decided so far"
    names = ", ".join(arm.name for arm in record.arms if arm.name in stopped)
    return f"{seen}: {names} {'trains' if len(stopped) == 1 else 'train'} no more {plural(unit)}"
