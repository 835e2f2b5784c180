"""Pure: from a study and a scale to the graph of its trials, with stable ids.

A listed arm is a chain for each seed: training, then each stage on the result of the one before. A
tuned arm starts with a search; the winner's values then make the same chains, on seeds that the
search never used. A stage over all seeds builds on an arm's last trials; one with a search finds
out how to evaluate them. The test split is read once, by the last trial of a chain; a chain that
continues another arm's builds on that arm's very trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ablate.config.config import Config
from ablate.config.identity import OFF, Trial
from ablate.config.metrics import BITS_PER_BYTE
from ablate.config.registry import Technique
from ablate.config.tasks import TRAINING, Kind
from ablate.errors import CombinationError, StudyError, unknown
from ablate.store.store import Store
from ablate.store.study_record import SearchRecord, starting_order
from ablate.study.arms import arm_values, find_space, resolve_arm, transferred
from ablate.study.chains import chains, confirm_search
from ablate.study.make_record import arm_location, data_digest, make_record
from ablate.study.own_code import used_code, with_own_file
from ablate.study.planned import Chains, Plan, PlannedSearch
from ablate.study.searches import plan_search_trial, plan_searches, searched_rows
from ablate.study.settings_found import SettingsFound, settings_found
from ablate.study.several import check_single
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Values

TOKENS = ("corpus.level", "corpus.merges", "corpus.joint")  # differ only under bits per byte
MAX_TRIALS = 20_000  # which take about a minute to plan
MAX_SEARCHED = 200_000  # which take about four seconds to foresee


def make_plan(
    study: Study,
    scale_name: str | None = None,
    *,
    data: str,
    command: str = "",
    stores: Sequence[Store] = (),
) -> Plan:
    """Resolve a study at a scale. An error names the arm that it is in.

    `stores` may have the record of the scale that this one takes its settings from.
    """
    from ablate.trial.run import load_own

    load_own(study.techniques)
    name, scale = study.scale(scale_name)
    check_single(name, scale, study.file or study.name or "study")
    arms = _chosen_arms(study, scale)
    _check_size(study, name, scale, arms)  # first, since all else takes time for each arm
    _check_column(study, name, scale, arms)
    found = settings_found(study, name, scale, arms, stores)
    values, configs = _resolved(study, scale, arms, found)
    whole = with_own_file(study, used_code(study, scale, arms, configs))
    if whole is not study:  # executing the file registers its code again: resolve to the new
        study = whole
        load_own(study.techniques)
        values, configs = _resolved(study, scale, arms, found)
    _check_one_corpus(study, scale, configs)
    _check_stages(study, scale, arms, configs)
    record = make_record(study, name, scale, arms, values, configs, data, command)
    _check_stated(study, scale, arms, configs)
    plan = Plan(
        study=study,
        scale_name=name,
        scale=scale,
        record=record,
        configs=configs,
        digests=_other_digests(study, configs, data),
    )
    _check_gpus(plan)
    if found is not None:
        behind = {"settings_of": scale.settings_of, "num_searches": found.num_searches}
        plan = replace(plan, record=replace(record, **behind), repeats=found.num_searches)
    if scale.search is None:
        return _with_listed(plan, arms, values, found)
    searches, notes = plan_searches(plan, scale.search, values)
    notes = (*plan.record.notes, *notes)
    plan = replace(plan, searches=searches)
    records = _search_records(plan, searches)
    return replace(plan, record=replace(plan.record, searches=records, notes=notes))


def code_of(study: Study, scale_name: str | None = None) -> list[Kind | Technique]:
    """Return the user's tasks and techniques that the study's trials need at a scale."""
    from ablate.trial.run import load_own

    load_own(study.techniques)
    name, scale = study.scale(scale_name)
    check_single(name, scale, study.file or study.name or "study")
    arms = _chosen_arms(study, scale)
    return used_code(study, scale, arms, _resolved(study, scale, arms)[1])


def _resolved(
    study: Study, scale: Scale, arms: Sequence[Arm], found: SettingsFound | None = None
) -> tuple[dict[str, dict[str, Any]], dict[str, Config]]:
    """Return every arm's values, and its config: of several winners, that of the first."""
    values = {arm.name: _every_values(study, scale, arm, found)[0] for arm in arms}
    configs = {arm.name: resolve_arm(study, arm.name, values[arm.name]) for arm in arms}
    return values, configs


def _check_stated(
    study: Study, scale: Scale, arms: Sequence[Arm], configs: Mapping[str, Config]
) -> None:
    """Refuse what an arm itself changes, and what would do nothing.

    Asked once the models were built, so that an error in a user's own technique names its place.
    """
    for arm in arms:
        # A search may choose the head, unless the arm or the scale does.
        config, chosen = configs[arm.name], {**scale.changes, **arm.changes}
        if config.kind.assembles and (scale.search is None or "head" in chosen):
            try:
                config.kind.asked.check_stated(config, arm.changes)
            except CombinationError as error:
                raise CombinationError(f"{arm_location(study, arm.name)}: {error}") from None


def _with_listed(
    plan: Plan,
    arms: Sequence[Arm],
    values: Mapping[str, Values],
    found: SettingsFound | None = None,
) -> Plan:
    """Add every arm's chains, once for each winner that it takes over. Shorter ones are made first:
    a longer one may continue from them."""
    made: dict[str, list[Chains]] = {}
    for arm in sorted(arms, key=lambda arm: len(arm.then)):
        read = {p.id for own in made.values() for chain in own for p in chain.planned if p.final}
        every = [values[arm.name]]
        if found is not None:
            every = _every_values(plan.study, plan.scale, arm, found)
        made[arm.name] = [
            chains(plan, arm.name, own, repeat, read=read) for repeat, own in enumerate(every)
        ]
    return with_chains(plan, [chain for arm in arms for chain in made[arm.name]])


def _every_values(
    study: Study, scale: Scale, arm: Arm, found: SettingsFound | None
) -> list[dict[str, Any]]:
    """Return an arm's values: once, or with the settings of each winner that it takes over."""
    own = arm_values(study, scale, arm)
    every = [own] if found is None else found.values(arm.name, own, arm_location(study, arm.name))
    return [transferred(study, scale, values, arm.name) for values in every]


def with_chains(plan: Plan, added: Sequence[Chains]) -> Plan:
    """Return the plan with more trials; one that it already has is not added again."""
    trials = {trial.id: trial for trial in plan.trials}
    planned = {(p.id, p.arm, p.stage): p for p in plan.record.trials}
    searches: list[PlannedSearch] = []
    for chain in added:
        trials |= {trial.id: trial for trial in chain.trials if trial.id not in trials}
        planned |= {(p.id, p.arm, p.stage): p for p in chain.planned}
        searches += chain.searches
    plan = replace(plan, searches=(*plan.searches, *searches))
    records = (*plan.record.searches, *_search_records(plan, searches))
    # Seed by seed, so that a study that stops has whole pairs. The sort is stable.
    every = tuple(sorted(planned.values(), key=lambda planned: planned.seed_index))
    record = replace(plan.record, trials=every, searches=records)
    in_order = [trials[trial_id] for trial_id in starting_order(every)]
    return replace(plan, trials=tuple(in_order), record=record)


def _search_records(plan: Plan, searches: Sequence[PlannedSearch]) -> tuple[SearchRecord, ...]:
    """The records of searches that have not started.

    Arms that differ only in a later stage share one search if it is synchronous, and the trials
    that confirm it up to that stage.
    """
    seen: set[object] = set()
    records = []
    for search in searches:
        chains = confirm_search(plan, search, {})  # no winner yet: nothing is sampled
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
        rows=searched_rows(search),
        **of_all,
    )


def _check_size(study: Study, scale_name: str, scale: Scale, arms: Sequence[Arm]) -> None:
    """Check how many trials are listed, or confirm winners, before they are made."""
    stages = sum(1 + len(scale.stages) + len(arm.then) for arm in arms)
    repeats = scale.search.repeats if scale.search else 1
    num = stages * scale.seeds * repeats
    if num > MAX_TRIALS:
        raise StudyError(
            f"{study.file or study.name}: scale '{scale_name}': {num:,} trials are too many for "
            f"one study. The limit is {MAX_TRIALS:,}. Instead: fewer seeds, arms, stages or "
            "repeats."
        )
    searched = _num_searched(scale, arms)
    if searched > MAX_SEARCHED:
        raise StudyError(
            f"{study.file or study.name}: scale '{scale_name}': searches of {searched:,} trials in "
            f"all are too many for one study. The limit is {MAX_SEARCHED:,}. Instead: fewer trials "
            "a search, arms or repeats."
        )


def _num_searched(scale: Scale, arms: Sequence[Arm]) -> int:
    """How many trials the searches of settings, and of how to evaluate each model, may start."""
    of_settings = scale.search.trials * scale.search.repeats if scale.search else 0
    models = scale.seeds * (scale.search.repeats if scale.search else 1)
    stages = [stage for arm in arms for stage in (*scale.stages, *arm.then)]
    of_models = sum(stage.search.trials for stage in stages if stage.search)
    return of_settings * len(arms) + of_models * models


def _check_column(study: Study, scale_name: str, scale: Scale, arms: Sequence[Arm]) -> None:
    """Check that the scale's column exists in a recipe or in a space that is searched."""
    if scale.column is None:
        return
    stages = (*scale.stages, *(stage for arm in arms for stage in arm.then))
    searches = [scale.search, *(stage.search for stage in stages)]
    bases = [study.base, *(arm.recipe for arm in arms)]
    names = [*bases, *(search.space for search in searches if search)]
    tables = [find_space(study, name) for name in names if isinstance(name, str)]
    columns = dict.fromkeys(column for table in tables for column in table.corpora)
    if scale.column not in columns:
        where = f"{study.file or study.name}: scale '{scale_name}'"
        raise StudyError(unknown("column", scale.column, columns, where))


def _chosen_arms(study: Study, scale: Scale) -> list[Arm]:
    if scale.arms is None:
        return list(study.design.arms)
    chosen = {study.base_arm, *scale.arms}
    return [arm for arm in study.design.arms if arm.name in chosen]


def _check_one_corpus(study: Study, scale: Scale, configs: Mapping[str, Config]) -> None:
    """Check that all arms use the same corpus: results on different ones are never compared. Only
    bits per byte compare tokens of different kinds, over the same bytes."""
    base = configs[study.base_arm].flat
    for arm, config in configs.items():
        for key, value in config.flat.items():
            if not key.startswith("corpus.") or value == base[key]:
                continue
            if why := _not_comparable(study, scale, key, config):
                raise StudyError(
                    f"{arm_location(study, arm)}: {key} = {value!r} is not allowed, since the base "
                    f"arm has {base[key]!r}{why}"
                )


def _not_comparable(study: Study, scale: Scale, key: str, config: Config) -> str:
    """Return why an arm must read what the base arm does, and the way out; else nothing."""
    if key not in TOKENS:
        return ". Instead: use one corpus for all arms of a scale."
    if study.metric != BITS_PER_BYTE.name:
        return (
            ", and only bits per byte compare different tokens. Instead: one kind of tokens for "
            f"all arms, or metric = '{BITS_PER_BYTE.name}'."
        )
    # A smoke run cuts every text, and its numbers mean nothing.
    cut = config.flat.get("corpus.eval_tokens")  # pairs are cut by sentences, in any tokens
    if cut is not None and not scale.smoke:
        return (
            f", and {cut} tokens of each are different text. Instead: leave out corpus.eval_tokens."
        )
    return ""


def _other_digests(study: Study, configs: Mapping[str, Config], data: str) -> dict[str, str]:
    """Return the digest of what an arm reads, for arms that read other tokens than the base arm."""
    base = configs[study.base_arm].data
    others = {arm: config.data for arm, config in configs.items() if config.data != base}
    return {arm: data_digest(study, own, data) for arm, own in others.items() if own is not None}


def _check_stages(
    study: Study, scale: Scale, arms: Sequence[Arm], configs: Mapping[str, Config]
) -> None:
    """Check that what stages and compilers need is there: a language model."""
    for arm in arms:
        kind = configs[arm.name].kind
        if kind.function and scale.compile != OFF:
            raise StudyError(
                f"{arm_location(study, arm.name)}: compile='{scale.compile}' compiles the training "
                f"of ablate's models, and the task '{kind.name}' trains its own. Instead: "
                "torch.compile in the task's function, and no compile in the scale."
            )
        after = [stage.name for stage in (*scale.stages, *arm.then)]
        if kind.function and (after or scale.ensemble):
            raise StudyError(
                f"{arm_location(study, arm.name)}: '{[*after, 'ensemble'][0]}' builds on the "
                f"weights of a language model, and trials of the task '{kind.name}' have none. "
                "Instead: do it in the task's function, as a setting of its config."
            )


def _check_gpus(plan: Plan) -> None:
    """Check that no trial of a language model would leave GPUs idle."""
    if plan.scale.gpus <= 1 or plan.study.runner not in (None, "", TRAINING):
        return
    for arm, config in plan.configs.items():
        if config.kind.assembles:
            raise StudyError(
                f"{arm_location(plan.study, arm)}: gpus={plan.scale.gpus:g} reserves GPUs that a "
                "language model does not use: it trains on one. Instead: gpus=1, so that as many "
                "trials train at once as there are GPUs; or a task of your own that runs torchrun."
            )


def largest_trial(plan: Plan) -> Trial:
    """Return a trial of the arm with the most parameters that builds on no other trial.

    For an arm that is searched, it has the values from before the search.
    """
    sizes = {arm.name: arm.num_parameters or 0 for arm in plan.record.arms}
    searched = [
        plan_search_trial(plan, search, {}, 0) for search in plan.searches if not search.parents
    ]
    trained = [t for t in (*plan.trials, *searched) if not t.parents and sizes.get(t.arm)]
    if not trained:
        raise StudyError(f"{plan.record.key} trains nothing that could be measured.")
    return max(trained, key=lambda trial: sizes[trial.arm])
