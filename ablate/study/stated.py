"""Keeps a study to its plan: states it before the first result, and says later what has changed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ablate.compare.judged import ALPHA
from ablate.config.identity import digest
from ablate.store import glance, study_record
from ablate.store.outcome import Status
from ablate.store.replication import counted, plural
from ablate.store.stated import KeptPlan, PlansOf, StatedPlan
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord
from ablate.study.planned import Plan


class Keeping:
    """A plan that is kept, and the arms of which a result has come."""

    def __init__(self, plan: Plan, plans: PlansOf | None) -> None:
        """`plans` is None if nothing is kept, as of a smoke test."""
        self.plan, self._plans = plan, plans
        self.update(plan.record)

    def update(self, record: StudyRecord) -> None:
        """Take in what was planned on the way: what confirms a search's winner."""
        self._arms: dict[str, set[str]] = {}
        for trial in record.trials:
            if trial.final:
                self._arms.setdefault(trial.id, set()).add(trial.arm)

    def finished(self, trial_id: str, status: Status | None) -> None:
        """Note the arms of a trial that has ended with a result."""
        if self._plans is not None and status == Status.COMPLETED:
            arms = self._arms.get(trial_id, ())
            self._plans.note({_digest_of(self.plan, arm): arm for arm in arms})


def keep(plan: Plan, store: Store) -> Keeping:
    """State the plan unless it was stated; else put into its record how it compares."""
    plans = plans_of(plan, store)
    stated = plans.read()
    if plan.record.smoke or (stated is None and _is_older(plan, store)):
        return Keeping(plan, None)
    _note_results(plan, store, plans)
    ever = plans.arms()
    if stated is None or not (ever or stated.registered):
        stated = state(plan, store)
        plans.write(stated)
    kept = compared(plan, stated, ever)
    base = _digest_of(plan, plan.record.base_arm)
    if before := [each for each in plans.before() if base in each.arms()]:
        kept = _of_chosen_base(kept, plan, before, ever)
    return Keeping(replace(plan, record=replace(plan.record, kept_plan=kept)), plans)


def _is_older(plan: Plan, store: Store) -> bool:
    """Return whether the study is on record from before plans were stated: it goes on as it was."""
    key = plan.record.key
    return study_record.exists(store, key) and study_record.read(store, key).kept_plan is None


def plans_of(plan: Plan, store: Store) -> PlansOf:
    """Return where the plan of a study's question is, whatever its scale is called. Of arms as
    listed and of tuned arms the question is not the same."""
    record, base = plan.record, plan.configs[plan.record.base_arm]
    of = [record.question, record.corpus_digest, base.identity, record.first_seed]
    key = digest([*of, "tuned"] if plan.searches else of)
    question = digest([record.question, record.corpus_digest, record.first_seed])
    return PlansOf(store, key, question)


def state(plan: Plan, store: Store, *, registered: bool = False) -> StatedPlan:
    """Return the plan as it is now."""
    record, looks = plan.record, plan.record.every_look
    file = Path(plan.study.file)
    others = [t.id for t in record.trials if t.final and t.arm != record.base_arm]
    searches = {(search.arm, search.repeat): search.words.trials for search in plan.searches}
    return StatedPlan(
        study=record.key,
        question=record.question,
        base_arm=record.base_arm,
        arms={arm.name: _digest_of(plan, arm.name) for arm in record.arms},
        metric=record.metric.name,
        margin=record.margin,
        looks=looks.planned,
        unit=looks.unit,
        alpha=ALPHA,
        num_seeds=record.num_seeds,
        first_seed=record.first_seed,
        searches=tuple(searches.values()),
        corpus_digest=record.corpus_digest,
        file_digest=hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "",
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        results_before=len(_completed(others, store)),
        registered=registered,
    )


def compared(plan: Plan, stated: StatedPlan, ever: Mapping[str, str]) -> KeptPlan:
    """Return how a study compares with its plan; `ever` are the arms that had results."""
    now = {_digest_of(plan, arm.name) for arm in plan.record.arms}
    left_out = tuple(name for arm, name in ever.items() if arm not in now)
    changes = tuple(_changes(plan, stated, left_out)) if ever else ()
    looks = plan.record.every_look
    fewer_or_more = looks.pairs != stated.looks[-1]
    new_metric = plan.record.metric.name != stated.metric
    return KeptPlan(
        time=stated.time,
        hash=stated.hash,
        looks=stated.looks,
        results_before=stated.results_before,
        left_out=left_out,
        changes=changes,
        new_margin=bool(ever) and plan.record.margin not in (None, stated.margin),
        as_planned=not (stated.results_before or (ever and (fewer_or_more or new_metric))),
    )


def _of_chosen_base(
    kept: KeptPlan, plan: Plan, before: Sequence[PlansOf], ever: Mapping[str, str]
) -> KeptPlan:
    """The plan of a base arm that had results under plans of another base: any two of all these
    arms may have been chosen."""
    num = len({*ever, *(arm for each in before for arm in each.arms())})
    pairs = num * (num - 1) // 2 - (len(plan.record.arms) - 1)
    bases = " or ".join(stated.base_arm for each in before if (stated := each.read()))
    change = f"compared with {plan.record.base_arm} instead of {bases}"
    return replace(
        kept, changes=(*kept.changes, change), as_planned=False, other_pairs=max(0, pairs)
    )


def _changes(plan: Plan, stated: StatedPlan, left_out: tuple[str, ...]) -> Iterator[str]:
    """What has changed since the plan was stated, in words."""
    record, looks = plan.record, plan.record.every_look
    if left_out:
        every = len({*stated.arms, *left_out})
        yield f"{len(left_out)} of {every} arms left out ({', '.join(left_out)}; they still count)"
    added = [arm.name for arm in record.arms if _digest_of(plan, arm.name) not in _digests(stated)]
    if added:
        yield f"{counted(len(added), 'arm')} added ({', '.join(added)})"
    if looks.pairs != stated.looks[-1]:
        yield f"{looks.pairs} {plural(looks.unit)} instead of {stated.looks[-1]}"
    if record.metric.name != stated.metric:
        yield f"decided by {record.metric.name} instead of {stated.metric}"
    if record.margin not in (None, stated.margin):
        how = "added" if stated.margin is None else "changed"
        yield f"margin {how} (so `same` is not a test)"


def _digests(stated: StatedPlan) -> set[str]:
    return {*stated.arms.values()}


def _digest_of(plan: Plan, arm: str) -> str:
    """The digest of an arm's config and of its searches, by which an arm of a new name is known."""
    keys = sorted(search.key.partition("/")[2] for search in plan.searches if search.arm == arm)
    return digest([plan.configs[arm].identity, keys])


def _note_results(plan: Plan, store: Store, plans: PlansOf) -> None:
    """Note the arms of this plan that have results on record."""
    of = {trial.id: trial.arm for trial in plan.record.trials if trial.final}
    arms = {of[trial] for trial in _completed([*of], store)}
    plans.note({_digest_of(plan, arm): arm for arm in arms})


def _completed(trials: list[str], store: Store) -> list[str]:
    ends = glance.ends(store, trials)
    return [one for one in trials if ends.get(one) == Status.COMPLETED]
