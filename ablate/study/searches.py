"""The searches of a plan: of each tuned arm's settings, or of how to evaluate a finished model."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from ablate.config.identity import Parent, Trial
from ablate.config.merge import merge
from ablate.config.registry import SAMPLER
from ablate.config.resolve import choice
from ablate.config.streams import derived_seed
from ablate.space import space as spaces
from ablate.space.row import format_value
from ablate.store.study_record import OR
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
from ablate.study.make_record import arm_location
from ablate.study.planned import Plan, PlannedSearch
from ablate.study.words import Arm, Search, Stage, Values

LISTED = 60  # characters of what a trial's sample sets


def plan_searches(
    plan: Plan, words: Search, values: Mapping[str, Values]
) -> tuple[tuple[PlannedSearch, ...], list[str]]:
    """Plan the search of every arm, for every repeat; and notes on what arms do not search."""
    space = _checked_space(plan, words)
    for arm, base in values.items():  # a wrong change is an error now, not in the first trial
        resolve_arm(plan.study, arm, merge(base, words.changes, arm_location(plan.study, arm)))
    arms = {arm: _tuned_arm(plan, find_arm(plan.study, arm), space) for arm in values}
    left = treatments.left_alone(arms)
    searches = tuple(
        PlannedSearch(
            arm=arm,
            repeat=repeat,
            values=base,
            # What is set on purpose wins over what is only left alone.
            fixed={**left[arm], **arms[arm].fixed, **words.rows},
            left=left[arm],
            space=space,
            words=words,
            seed=words.first_seed + repeat,
            column=_column(plan, arm),
            inherits=words.inherit.get(arm),
            waits=arm in words.inherit,
        )
        for repeat in range(words.repeats)
        for arm, base in values.items()
    )
    for search in searches:
        check_inherited(search, arm_location(plan.study, search.arm))
    return searches, [*treatments.notes(arms, left), *_random_notes(searches[0])]


def _random_notes(search: PlannedSearch) -> list[str]:
    """Say so of a sampler whose search ends before it has learnt anything."""
    start_up = getattr(search.sampler.config, "n_startup_trials", 0)
    if search.words.trials > start_up:
        return []
    return [
        f"Each search of {search.words.trials} trials is random: {search.words.sampler} draws its "
        f"first {start_up} at random (n_startup_trials, in options=)."
    ]


def _checked_space(plan: Plan, words: Search) -> spaces.Space:
    """Return the space of a search, after the checks that are the same for every arm."""
    choice(SAMPLER, words.sampler, words.options, f"{plan.study.file or plan.study.name}: search")
    space = find_space(plan.study, words.space)
    space.check()
    check_rows(space, words.rows)
    return space


def _column(plan: Plan, arm: str) -> str:
    return column_for(plan.scale, find_arm(plan.study, arm).recipe or plan.study.base)


def _tuned_arm(plan: Plan, arm: Arm, space: spaces.Space) -> treatments.TunedArm:
    own, kind = _set_values(plan, arm), plan.configs[arm.name].kind
    base = base_values(plan.study, plan.scale, arm.recipe or plan.study.base, arm.rows)
    return treatments.TunedArm(
        space=space.at(_column(plan, arm.name)) if space.corpora else space,
        own=own,
        fixed={**own, **scale_values(plan.scale, kind, base), **arm.changes},
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
    space = _checked_space(plan, words)
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
        # An evaluation has its model's seed; a training a large one: confirmations count from 1.
        seed=search.model.get("seed", derived_seed("search", search.seed, index) % 2**31),
        evaluates=bool(search.parents),
        reads_test=False,
        parents=search.parents,
        stage=search.stage,
        sampled=_listed(search, sampled),
        keep="nothing",
    )


def searched_rows(search: PlannedSearch) -> dict[str, str]:
    """Return field -> name of each row that a search varies.

    A row that sets no field itself has that of the first row tied to it.
    """
    over = search.inherits.over if search.inherits else None
    rows: dict[str, str] = {}
    for row in search.space.open_rows(search.column if search.space.corpora else None):
        tied = (other.field for other in search.space.rows if other.same_as == row.name)
        field = row.field or next(filter(None, tied), None)
        is_free = not search.fixed.keys() & {*row.keys} and (over is None or row.name in over)
        if field and is_free:  # rows of different conditions may set one field
            rows[field] = f"{rows[field]}{OR}{row.name}" if field in rows else row.name
    return rows


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
