"""Chains of trials: for each seed of an arm, training and then each stage, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ablate.config.identity import Parent, Role, StageName, Trial
from ablate.config.merge import merge
from ablate.store.study_record import PlannedTrial
from ablate.study.arms import find_arm, plan_trial, planned_trial
from ablate.study.make_record import arm_stages, measure_values
from ablate.study.planned import Chains, Plan, PlannedSearch
from ablate.study.searches import plan_evaluation_search
from ablate.study.words import Stage, Values


def chains(
    plan: Plan, arm: str, values: Values, repeat: int = 0, read: Collection[str] = ()
) -> Chains:
    """Plan an arm: for every seed, training and each stage; then the stages over all seeds.

    `read`: ids of trials that read the test split anyway, as the last ones of another arm.
    """
    by_seed, together = _split_stages(plan, arm)
    searched = by_seed[-1].search if by_seed else None
    alone = not together  # each seed is a result of its own
    trials: list[Trial] = []
    planned: list[PlannedTrial] = []
    searches: list[PlannedSearch] = []
    finals: list[Trial] = []
    first = repeat * plan.scale.seeds  # every search's winner is confirmed on seeds of its own
    for index in range(first, first + plan.scale.seeds):
        seed = plan.scale.first_seed + index
        chain = _chain(plan, arm, values, by_seed, seed, read, judged=alone)
        trials += chain
        finals.append(chain[-1])
        # With a search to follow, the evaluation that wins is the result.
        last = chain[-1] if alone and not searched else None
        planned += [planned_trial(t, arm, index, final=t is last) for t in chain]
        for measure in _measures(plan, arm, chain[-1]):
            trials.append(measure)
            planned.append(planned_trial(measure, arm, index, final=False))
        if searched:
            how = (by_seed[-1], searched)
            searches.append(plan_evaluation_search(plan, arm, *how, chain[-1], index))
    # A single model is no ensemble.
    if plan.scale.ensemble and alone and not searched and len(finals) > 1:
        together = [Stage("ensemble", kind="evaluate", over="seeds")]
    for stage in together:
        joint = _joint_trial(plan, arm, stage, finals)
        trials.append(joint)
        planned.append(planned_trial(joint, arm, _joint_index(plan, repeat), final=not alone))
    return Chains(tuple(trials), tuple(planned), tuple(searches))


def _split_stages(plan: Plan, arm: str) -> tuple[list[Stage], list[Stage]]:
    """Return an arm's stages after training: those for each seed, and those over all seeds."""
    if not plan.configs[arm].kind.assembles:
        return [], []
    stages = arm_stages(plan.scale, find_arm(plan.study, arm))
    by_seed = [stage for stage in stages if stage.over == "seed"]
    together = [stage for stage in stages if stage.over == "seeds"]
    return by_seed, together


def _joint_index(plan: Plan, repeat: int) -> int:
    """Return a seed index for a trial over all seeds: one that is paired with no seed."""
    repeats = plan.scale.search.repeats if plan.scale.search else plan.repeats
    return repeats * plan.scale.seeds + repeat


def _chain(
    plan: Plan,
    arm: str,
    values: Values,
    stages: Sequence[Stage],
    seed: int,
    read: Collection[str],
    *,
    judged: bool,
) -> list[Trial]:
    """Plan one seed's trials, each built on the one before, without a stage that is searched."""
    listed = [stage for stage in stages if stage.search is None]
    judged = judged and len(listed) == len(stages)
    chain: list[Trial] = []
    for position, stage in enumerate([Stage("train"), *listed]):
        values = merge(values, stage.changes)
        role = "start" if stage.trains else "member"
        more = {
            "arm": arm,
            "seed": seed,
            "parents": (Parent(role, chain[-1].id),) if chain else (),
            "evaluates": not stage.trains,
            "stage": stage.name,
        }
        last = judged and position == len(listed)
        # Another arm may end with this very trial, whose id includes that it reads test. The chain
        # then continues from that trial.
        trial = plan_trial(plan, values, reads_test=True, **more)
        if not last and trial.id not in read:
            trial = plan_trial(plan, values, reads_test=False, **more)
        chain.append(trial)
    return chain


def _measures(plan: Plan, arm: str, trained: Trial) -> list[Trial]:
    """Plan the trial that measures a finished model, if the study measures this arm's models."""
    where = (plan.study, plan.scale, find_arm(plan.study, arm))
    values = measure_values(*where, trained.values)
    if values is None:
        return []
    parents = (Parent(Role.MEMBER, trained.id),)
    more = {"seed": trained.seed, "parents": parents, "stage": StageName.MEASURE}
    return [plan_trial(plan, values, arm=arm, evaluates=True, **more)]


def _joint_trial(plan: Plan, arm: str, stage: Stage, members: Sequence[Trial]) -> Trial:
    """Plan a trial over all seeds of an arm: an evaluation, or the training of one gate."""
    role = "base" if stage.trains else "member"
    return plan_trial(
        plan,
        merge(dict(members[-1].values), stage.changes),
        arm=arm,
        seed=0,
        parents=tuple(Parent(role, member.id) for member in members),
        evaluates=not stage.trains,
        stage=stage.name,
    )


def confirm_search(plan: Plan, search: PlannedSearch, winner: Values) -> Chains:
    """Plan the trials that confirm a search's winner: chains, or an evaluation on test, too."""
    if search.parents:
        return _confirm_evaluation(plan, search, winner)
    values = merge(search.values, winner)
    shorter = [other for other in plan.searches if _is_shorter(plan, other, search)]
    others = (chains(plan, other.arm, values, repeat=search.repeat) for other in shorter)
    read = {planned.id for chain in others for planned in chain.planned if planned.final}
    return chains(plan, search.arm, values, repeat=search.repeat, read=read)


def _is_shorter(plan: Plan, other: PlannedSearch, search: PlannedSearch) -> bool:
    """Return whether another arm has the same search, and fewer stages after it.

    This arm's chains then continue from that arm's last trials.
    """
    # A key is ARM/REPEAT/HASH: all but the arm must be equal.
    if other.key.rsplit("/", 2)[1:] != search.key.rsplit("/", 2)[1:]:
        return False
    return len(find_arm(plan.study, other.arm).then) < len(find_arm(plan.study, search.arm).then)


def _confirm_evaluation(plan: Plan, search: PlannedSearch, winner: Values) -> Chains:
    """Plan the best evaluation that a search found, on the test split as well."""
    trial = plan_trial(
        plan,
        merge(search.values, winner),
        arm=search.arm,
        seed=search.model["seed"],
        parents=search.parents,
        evaluates=True,
        stage=search.stage.removesuffix(" search"),
    )
    planned = planned_trial(trial, search.arm, search.model["seed_index"], final=True)
    return Chains((trial,), (planned,))
