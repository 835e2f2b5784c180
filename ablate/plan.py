"""Pure: from a study and a scale to the graph of its trials, with stable ids.

A listed arm is, for each seed, a chain: train, then each stage from the weights of the one
before. A tuned arm is a search first; its winner's values then make the same chains, on seeds
the search never saw. An ensemble builds on an arm's last trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ablate import space as spaces
from ablate.config import Config, merge, resolve
from ablate.errors import AblateError, ConfigError, SpaceError, StudyError, unknown
from ablate.identity import TRAINING, Parent, Trial, digest, make_trial
from ablate.streams import derived_seed
from ablate.study import Arm, Scale, Search, Study
from ablate.study_record import ArmRecord, PlannedTrial, SearchRecord, StudyRecord
from ablate.user_code import raised

ENSEMBLE = "ablate.train.evaluation:Evaluation"
Values = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PlannedSearch:
    """One search of one arm: its values, those of them that are fixed, and the sampler's seed."""

    arm: str
    repeat: int
    values: Values  # the arm's, from which a search departs
    fixed: Values  # those that the arm or the scale sets: never searched, whatever the space says
    space: spaces.Space
    words: Search
    seed: int

    @property
    def key(self) -> str:
        """A name for the sampler's own records, the same whenever the question is the same."""
        words = self.words
        how = [words.sampler, words.early_stopping, words.synchronous, words.batch, self.seed]
        named = digest([dict(self.values), self.space.identity, dict(words.changes), *how])
        return f"{self.arm}/{self.repeat}/{named}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A study at a scale, resolved: what is known of its trials before any is run."""

    study: Study
    scale_name: str
    scale: Scale
    record: StudyRecord
    trials: tuple[Trial, ...]  # parents before their children
    planned: tuple[PlannedTrial, ...]
    searches: tuple[PlannedSearch, ...]
    corpus_digest: str
    configs: Mapping[str, Config]  # by arm, before any search

    def confirmations(self, search: PlannedSearch, values: Values) -> Chains:
        """The chains of an arm whose search has chosen its values."""
        return chains(self, search.arm, merge(search.values, values), repeat=search.repeat)

    def search_trial(self, search: PlannedSearch, sampled: Values, index: int) -> Trial:
        """The trial for values that a search's sampler asked for."""
        values = merge(merge(search.values, sampled), search.words.changes)
        seed = derived_seed("search", search.seed, index) % 2**31
        labels = {**_labels(self), "arm": search.arm, "stage": "search", "keep": "nothing"}
        runner = self.study.runner or TRAINING
        return _trial(self, values, seed=seed, reads_test=False, runner=runner, **labels)


@dataclass(frozen=True)
class Chains:
    """Trials for every seed of an arm, and their places in the study."""

    trials: tuple[Trial, ...]
    planned: tuple[PlannedTrial, ...]


def make_plan(
    study: Study,
    scale_name: str | None = None,
    *,
    data: str,
    command: str = "",
    device: str | None = None,
) -> Plan:
    """Resolve a study at a scale. Raises what is wrong with it, by arm."""
    from ablate.data.corpus import corpus_digest
    from ablate.trial import load_modules

    load_modules(study.techniques)
    name, scale = study.scale(scale_name)
    arms = _chosen_arms(study, scale)
    values = {arm.name: arm_values(study, scale, arm) for arm in arms}
    configs = {arm.name: _resolved(study, arm.name, values[arm.name]) for arm in arms}
    _check_one_corpus(study, configs)
    first = configs[study.base_arm]
    plan = Plan(
        study=study,
        scale_name=name,
        scale=scale,
        record=_record(study, name, scale, arms, configs, data, command),
        trials=(),
        planned=(),
        searches=(),
        corpus_digest=corpus_digest(first.corpus, data),
        configs=configs,
    )
    plan = replace(plan, record=replace(plan.record, corpus_digest=plan.corpus_digest))
    if scale.search is None:
        return with_chains(plan, [chains(plan, arm.name, values[arm.name]) for arm in arms])
    return _with_searches(plan, scale.search, values)


def arm_values(study: Study, scale: Scale, arm: Arm) -> dict[str, Any]:
    """An arm's flat values at a scale: base recipe, scale, arm, then the scale's last word."""
    base = _base_values(study, scale, arm.recipe or study.base)
    place = _place_of(study, arm.name)
    values = merge(merge(base, _scale_values(scale), place), arm.changes, place)
    return merge(values, _adapted(study, scale, values), place) if scale.adapt else values


def _adapted(study: Study, scale: Scale, values: Values) -> Values:
    """The scale's last word, which is a function of the user's."""
    adapt = scale.adapt or dict
    what = f"{study.file or study.name}: adapt = {getattr(adapt, '__name__', adapt)}"
    try:
        changes = adapt(dict(values))
    except Exception as error:
        raise raised(error, what, [study.file]) from None
    if not isinstance(changes, Mapping):
        raise StudyError(f"{what} gave {changes!r}. Allowed: a dict of changes.")
    return changes


def with_chains(plan: Plan, added: Sequence[Chains]) -> Plan:
    """The plan with more trials in it; one that is there already is not added again."""
    trials = {trial.id: trial for trial in plan.trials}
    planned = {(p.id, p.arm, p.stage): p for p in plan.planned}
    for chain in added:
        trials |= {trial.id: trial for trial in chain.trials if trial.id not in trials}
        planned |= {(p.id, p.arm, p.stage): p for p in chain.planned}
    every = tuple(sorted(planned.values(), key=lambda place: place.seed_index))
    order: dict[str, int] = {}  # of a trial that arms share: where it is first
    for position, place in enumerate(every):
        order.setdefault(place.id, position)
    record = replace(plan.record, trials=every)
    in_order = tuple(sorted(trials.values(), key=lambda trial: order[trial.id]))
    return replace(plan, trials=in_order, planned=every, record=record)


def chains(plan: Plan, arm: str, values: Values, repeat: int = 0) -> Chains:
    """For every seed: train, then each stage from the weights before it; then the ensemble."""
    made: list[Trial] = []
    planned: list[PlannedTrial] = []
    finals: list[Trial] = []
    first = repeat * plan.scale.seeds
    for index in range(first, first + plan.scale.seeds):
        chain = _chain(plan, arm, values, seed=index + 1)
        made += chain
        finals.append(chain[-1])
        planned += [_place(t, arm, index, final=t is chain[-1]) for t in chain]
    if plan.scale.ensemble and len(finals) > 1:
        together = _ensemble(plan, arm, values, finals)
        made.append(together)
        planned.append(_place(together, arm, first + plan.scale.seeds - 1, final=False))
    return Chains(tuple(made), tuple(planned))


def _chain(plan: Plan, arm: str, values: Values, seed: int) -> list[Trial]:
    own = next(each.stages for each in plan.study.design.arms if each.name == arm)
    later = ((s.name, {**s.changes, **own.get(s.name, {})}) for s in plan.scale.stages)
    stages = [("train", {}), *later]
    chain: list[Trial] = []
    for position, (stage, changes) in enumerate(stages):
        values = merge(values, changes)
        trial = _trial(
            plan,
            values,
            seed=seed,
            parents=(Parent("start", chain[-1].id),) if chain else (),
            reads_test=position == len(stages) - 1,
            runner=plan.study.runner or TRAINING,
            **{**_labels(plan), "arm": arm, "stage": stage},
        )
        chain.append(trial)
    return chain


def _ensemble(plan: Plan, arm: str, values: Values, members: Sequence[Trial]) -> Trial:
    kept = {key: value for key, value in values.items() if not key.startswith("evaluator.")}
    parents = tuple(Parent("member", member.id) for member in members)
    labels = {**_labels(plan), "arm": arm, "stage": "ensemble", "keep": "nothing"}
    return _trial(plan, kept, seed=0, parents=parents, runner=ENSEMBLE, **labels)


def _place(trial: Trial, arm: str, index: int, *, final: bool) -> PlannedTrial:
    return PlannedTrial(
        id=trial.id,
        arm=arm,
        stage=trial.stage,
        seed=trial.seed,
        seed_index=index,
        final=final,
        parents=tuple(trial.parent_ids()),
    )


def _trial(plan: Plan, values: Values, *, seed: int, **more: Any) -> Trial:
    return make_trial(
        _resolved(plan.study, more["arm"], values),
        values=values,
        seed=seed,
        corpus_digest=plan.corpus_digest,
        threads=plan.scale.threads,
        device="cuda" if plan.scale.gpus else "cpu",
        **more,
    )


def _labels(plan: Plan) -> dict[str, Any]:
    study = plan.study
    tags = {"paper": study.paper, "tables": ", ".join(study.tables), "key": plan.record.key}
    return {
        "study": study.name,
        "scale": plan.scale_name,
        "modules": study.techniques,
        "tags": {name: value for name, value in tags.items() if value},
    }


def _with_searches(plan: Plan, search: Search, values: Mapping[str, Values]) -> Plan:
    space = _space(plan.study, search.space)
    space.check()
    changes = {arm.name: arm.changes for arm in plan.study.design.arms}
    for arm, given in values.items():
        _resolved(plan.study, arm, merge(given, search.changes, _place_of(plan.study, arm)))
    searches = tuple(
        PlannedSearch(
            arm=arm,
            repeat=repeat,
            values=arm_values,
            fixed={**_scale_values(plan.scale), **changes[arm]},
            space=space,
            words=search,
            seed=repeat + 1,
        )
        for repeat in range(search.repeats)
        for arm, arm_values in values.items()
    )
    records = tuple(
        SearchRecord(arm=s.arm, repeat=s.repeat, num_trials=search.trials) for s in searches
    )
    return replace(plan, searches=searches, record=replace(plan.record, searches=records))


def _scale_values(scale: Scale) -> dict[str, Any]:
    return {"corpus.name": scale.corpus, **scale.changes}


def _base_values(study: Study, scale: Scale, base: str | Values) -> dict[str, Any]:
    if not isinstance(base, str):
        return dict(base)
    return _space(study, base).values(scale.column or scale.corpus)


def _space(study: Study, name: str) -> spaces.Space:
    """A recipe or a search space that the study names."""
    try:
        return spaces.load(name, near=Path(study.file) if study.file else None)
    except SpaceError as error:
        raise SpaceError(f"{study.file or study.name}: {error}") from None


def _chosen_arms(study: Study, scale: Scale) -> list[Arm]:
    if scale.arms is None:
        return list(study.design.arms)
    chosen = {study.base_arm, *scale.arms}
    return [arm for arm in study.design.arms if arm.name in chosen]


def _resolved(study: Study, arm: str, values: Values) -> Config:
    return resolve(values, _place_of(study, arm))


def _place_of(study: Study, arm: str) -> str:
    """Where an error in an arm's values is."""
    return f"{study.file or study.name or 'study'}: arm '{arm}'"


def _check_one_corpus(study: Study, configs: Mapping[str, Config]) -> None:
    """Numbers of different corpora are never set side by side."""
    base = configs[study.base_arm].flat
    for arm, config in configs.items():
        for key, value in config.flat.items():
            if key.startswith("corpus.") and value != base[key]:
                raise StudyError(
                    f"{_place_of(study, arm)}: {key} = {value!r} is not allowed, since the base "
                    f"arm has {base[key]!r}. Allowed: one corpus for all arms of a scale."
                )


def _record(
    study: Study,
    scale_name: str,
    scale: Scale,
    arms: Sequence[Arm],
    configs: Mapping[str, Config],
    data: str,
    command: str,
) -> StudyRecord:
    corpus = configs[study.base_arm].corpus
    return StudyRecord(
        name=study.name,
        scale=scale_name,
        question=study.question,
        paper=study.paper,
        tables=tuple(study.tables),
        file=study.file,
        command=command,
        corpus=corpus.name,
        corpus_digest="",
        level=corpus.level,
        num_seeds=scale.seeds,
        base_arm=study.base_arm,
        arms=tuple(_arm_record(study, arm, configs[arm.name], data) for arm in arms),
        trials=(),
        published_scale=scale.published,
    )


def _arm_record(study: Study, arm: Arm, config: Config, data: str) -> ArmRecord:
    return ArmRecord(
        name=arm.name,
        num_parameters=_parameters(study, arm, config, data),
        changes=dict(arm.changes),
        published=_published(study, arm),
    )


def _parameters(study: Study, arm: Arm, config: Config, data: str) -> int:
    from ablate.assemble import count_parameters
    from ablate.data.corpus import vocabulary_size

    place = _place_of(study, arm.name)
    try:
        return count_parameters(config, vocabulary_size(config.corpus, data))
    except AblateError as error:
        raise type(error)(f"{place}: {error}") from None
    except Exception as error:
        if study.techniques:
            raise raised(error, f"{place}: a technique", study.techniques) from None
        raise


def _published(study: Study, arm: Arm) -> dict[str, float]:
    """The numbers of the paper's own cell for this arm, by split."""
    if arm.published is None:
        return {}
    from ablate import papers

    model, variant = arm.published
    place = _place_of(study, arm.name)
    try:
        cells = [cell for table in study.tables for cell in papers.cells(study.paper, table)]
    except ConfigError as error:
        raise StudyError(f"{study.file or study.name}: {error}") from None
    if model not in (known := {cell.model: None for cell in cells}):
        raise StudyError(unknown("published model", model, known, place))
    cells = [cell for cell in cells if cell.model == model]
    if variant not in (known := {cell.variant: None for cell in cells}):
        raise StudyError(unknown(f"published variant of {model}", variant, known, place))
    return {
        cell.split: cell.value
        for cell in cells
        if cell.variant == variant and cell.metric == "ppl" and cell.split is not None
    }
