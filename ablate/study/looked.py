"""Looks at a study: those on its record, and what follows from one: the arms that it decided train
no more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ablate.errors import DamagedError
from ablate.store import glance, study_record
from ablate.store.store import Store
from ablate.store.study_record import InterimLook, StudyRecord
from ablate.study.planned import Plan


def with_history(plan: Plan, store: Store) -> Plan:
    """Return the plan with the looks on record, and the looks that were planned before the first.

    They count if these are the same trials: of the seeds, searches and settings on record. Looks
    at other seeds are kept as well, so that a table can name them.
    """
    before = _recorded(plan.record, store)
    if before is None or before.replication.untestable:
        return plan  # without a verdict, nothing was looked at
    record, same = plan.record, _is_continued(before, plan)
    made = before.made
    if same and (num := before.every_look.pairs) not in [look.num for look in made]:
        # A study from before looks were recorded was looked at when it was whole.
        now = record.every_look
        changed = (now.planned, now.pairs) != (before.every_look.planned, num)
        made = (
            *made,
            *(
                [InterimLook(num=num, first_seed=before.first_seed)]
                if changed and _is_whole(before, store)
                else []
            ),
        )
    if not same:
        made = tuple(look for look in made if look.first_seed != record.first_seed)
    if not any(look.first_seed == record.first_seed for look in made):
        return replace(plan, record=replace(record, made=made))
    planned = before.every_look.planned
    planned = record.looks if planned == record.every_look.planned else planned
    return replace(plan, record=replace(record, made=made, looks=planned))


def _recorded(record: StudyRecord, store: Store) -> StudyRecord | None:
    if not study_record.exists(store, record.key):
        return None
    try:
        return study_record.read(store, record.key)
    except DamagedError:
        return None  # this run writes it again


def _is_continued(before: StudyRecord, plan: Plan) -> bool:
    """Return whether a record and a plan share results, or searches that lead to them."""
    results = {trial.id for trial in before.trials if trial.final}
    searches = {search.key for search in before.searches if search.key}
    now = {trial.id for trial in plan.record.trials if trial.final}
    return bool(results & now or searches & {search.key for search in plan.searches})


def _is_whole(record: StudyRecord, store: Store) -> bool:
    """Return whether every result of a recorded study has an outcome."""
    results = [trial.id for trial in record.trials if trial.final]
    ends = glance.ends(store, results)
    ended = all(search.ended or search.chosen for search in record.searches)
    return ended and all(ends.get(one) is not None for one in results)


def without(plan: Plan, arms: Collection[str], num: int) -> Plan:
    """Return the plan without what these arms would have trained beyond `num` pairs."""
    record, pair = plan.record, plan.record.replication.pair
    planned = tuple(t for t in record.trials if t.arm not in arms or pair(t.seed_index) < num)
    left = {trial.id for trial in planned}
    gone = {trial.id for trial in record.trials} - left
    stopped = (replace(a, stopped_at=num) if a.name in arms else a for a in record.arms)
    return replace(
        plan,
        trials=tuple(trial for trial in plan.trials if trial.id not in gone),
        record=replace(record, trials=planned, arms=tuple(stopped)),
    )
