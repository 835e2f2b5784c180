"""The searches of a plan: of each tuned arm's settings, or of how to evaluate a finished model."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ablate.config.identity import Parent, Trial, digest
from ablate.config.resolve import merge
from ablate.config.streams import derived_seed
from ablate.space import space as spaces
from ablate.space.row import format_value
from ablate.store.study_record import SearchRecord
from ablate.study import treatments
from ablate.study.arms import (
    base_values,
    column_for,
    find_arm,
    find_space,
    plan_trial,
    resolve_arm,
    scale_values,
)
from ablate.study.inherit import check_inherited, check_rows
from ablate.study.record import arm_location
from ablate.study.words import Arm, Inherit, Search, Stage, Values

if TYPE_CHECKING:
    from ablate.study.plan import Plan

LISTED = 60  # characters of what a trial's sample sets


@dataclass(frozen=True, kw_only=True)
class PlannedSearch:
    """One search of one arm: its starting values, the fixed ones among them, the sampler's seed."""

    arm: str
    repeat: int
    values: Values  # the arm's values, before the search
    fixed: Values  # those set by the arm or the scale: never searched, whatever the space contains
    space: spaces.Space
    words: Search
    seed: int
    parents: tuple[Parent, ...] = ()  # the finished model, in a search of how to evaluate it
    model: Mapping[str, int] = field(default_factory=dict)  # that model's seed and seed_index
    stage: str = "search"
    column: str = ""  # the column of the space, if it has columns
    inherits: Inherit | None = None
    left: Values = field(default_factory=dict)  # fixed because they tell the arms apart
    waits: bool = False  # until the search that it inherits from has a winner

    @property
    def key(self) -> str:
        """A name for the sampler's records that is the same for every equal search."""
        words = self.words
        how = [words.sampler, words.early_stopping, words.synchronous, words.batch, self.seed]
        how += [parent.id for parent in self.parents]
        how += [dict(words.rows)] if words.rows else []
        how += [list(self.inherits.over)] if self.inherits else []
        how += [dict(self.left)] if self.left else []
        hashed = digest([dict(self.values), self.space.identity, dict(words.changes), *how])
        return f"{self.arm}/{self.repeat}/{hashed}"


def plan_searches(
    plan: Plan, words: Search, values: Mapping[str, Values]
) -> tuple[tuple[PlannedSearch, ...], list[str]]:
    """Plan the search of every arm, for every repeat; and notes on what arms do not search."""
    space = find_space(plan.study, words.space)
    space.check()
    check_rows(space, words.rows)
    for arm, base in values.items():
        resolve_arm(plan.study, arm, merge(base, words.changes, arm_location(plan.study, arm)))
    arms = {arm: _tuned_arm(plan, find_arm(plan.study, arm), space) for arm in values}
    location = f"{plan.study.file or plan.study.name}: search"
    left = treatments.left_alone(arms, words.also, location)
    searches = tuple(
        PlannedSearch(
            arm=arm,
            repeat=repeat,
            values=base,
            fixed={**left[arm], **arms[arm].fixed, **words.rows},
            left=left[arm],
            space=space,
            words=words,
            seed=repeat + 1,
            column=_column(plan, arm),
            inherits=words.inherit.get(arm),
            waits=arm in words.inherit,
        )
        for repeat in range(words.repeats)
        for arm, base in values.items()
    )
    for search in searches:
        check_inherited(search, arm_location(plan.study, search.arm))
    return searches, treatments.notes(arms, left)


def _column(plan: Plan, arm: str) -> str:
    return column_for(plan.scale, find_arm(plan.study, arm).recipe or plan.study.base)


def _tuned_arm(plan: Plan, arm: Arm, space: spaces.Space) -> treatments.TunedArm:
    own = _set_values(plan, arm)
    return treatments.TunedArm(
        space=space.at(_column(plan, arm.name)) if space.corpora else space,
        own=own,
        fixed={**own, **scale_values(plan.scale, plan.configs[arm.name].kind), **arm.changes},
        config=plan.configs[arm.name],
    )


def _set_values(plan: Plan, arm: Arm) -> dict[str, Any]:
    """Return what the arm changes, including through the rows that it sets."""
    base = arm.recipe or plan.study.base
    without = base_values(plan.study, plan.scale, base)
    values = base_values(plan.study, plan.scale, base, arm.rows)
    changed = {key: value for key, value in values.items() if without.get(key, values) != value}
    return {**changed, **arm.changes}


def plan_evaluation_search(
    plan: Plan, arm: str, stage: Stage, words: Search, model: Trial, seed_index: int
) -> PlannedSearch:
    """Plan a search of how to evaluate a finished model."""
    space = find_space(plan.study, words.space)
    space.check()
    check_rows(space, words.rows)
    values = merge(dict(model.values), stage.changes)
    resolve_arm(plan.study, arm, merge(values, words.changes, arm_location(plan.study, arm)))
    return PlannedSearch(
        arm=arm,
        repeat=0,
        values=values,
        fixed={**stage.changes, **words.rows},
        space=space,
        words=words,
        seed=1,
        parents=(Parent("member", model.id),),
        model={"seed": model.seed, "seed_index": seed_index},
        stage=f"{stage.name} search",
        column=_column(plan, arm),
    )


def plan_search_trial(plan: Plan, search: PlannedSearch, sampled: Values, index: int) -> Trial:
    """Make the trial for values that a search's sampler suggested."""
    return plan_trial(
        plan,
        merge(merge(search.values, sampled), search.words.changes),
        arm=search.arm,
        seed=search.model.get("seed", derived_seed("search", search.seed, index) % 2**31),
        evaluates=bool(search.parents),
        reads_test=False,
        parents=search.parents,
        stage=search.stage,
        sampled=_listed(search, sampled),
        keep="nothing",
    )


def _listed(search: PlannedSearch, sampled: Values) -> str:
    """A sample's settings, cut at the length of a line: `dropout=0.1, Window=25`."""
    rows = search.space.open_rows(search.column if search.space.corpora else None)
    parts = [
        f"{row.name}={_brief(sampled[row.field])}"
        for row in rows
        if row.field and row.field in sampled and not search.fixed.keys() & {row.field, row.name}
    ]
    return textwrap.shorten(", ".join(parts), LISTED, placeholder=" …")


def _brief(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else format_value(value)


def search_records(plan: Plan, searches: Sequence[PlannedSearch]) -> tuple[SearchRecord, ...]:
    """The records of searches that have not started.

    Arms that differ only in a later stage share one search if it is synchronous, and the trials
    that confirm it up to that stage.
    """
    seen: set[object] = set()
    records = []
    for search in searches:
        chains = plan.confirmations(search, {})  # no winner yet: nothing is sampled
        new = [planned for planned in chains.planned if planned.id not in seen]
        position = {planned.id: at for at, planned in enumerate(new)}
        after = [[position[one] for one in t.parents if one in position] for t in new]
        confirming = {
            "confirming": tuple(planned.epochs for planned in new),
            "confirming_after": tuple(map(tuple, after)),
        }
        same = (search.inherits and search.inherits.arm, *search.key.rsplit("/", 2)[1:])
        shared = search.words.synchronous and same in seen
        records.append(_search_record(search, shared=shared, **confirming))
        seen |= {same, *(planned.id for planned in new)}
    return tuple(records)


def _search_record(search: PlannedSearch, **of_all: Any) -> SearchRecord:
    return SearchRecord(
        arm=search.arm,
        repeat=search.repeat,
        num_trials=search.words.trials,
        seed_index=search.model.get("seed_index"),
        inherits=search.inherits.arm if search.inherits else None,
        over=tuple(search.inherits.over) if search.inherits else (),
        **of_all,
    )
