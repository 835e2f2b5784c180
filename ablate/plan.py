"""Pure: from a study and a scale to the graph of its trials, with stable ids.

A listed arm is, for each seed, a chain: train, then each stage on what came before. A tuned arm is
a search first; its winner's values then make the same chains, on seeds the search never saw. A
stage over all seeds builds on an arm's last trials; one with a search asks how to evaluate them.
The test split is read once, by the last trial of a chain; a chain that goes on from another arm's
last trial builds on that very trial.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ablate import space as spaces
from ablate.config import Config, merge, resolve
from ablate.errors import SpaceError, StudyError, wrong_value
from ablate.identity import TRAINING, Parent, Trial, digest, make_trial
from ablate.plan_record import place_of, record_of, stages_of
from ablate.space_row import Choices, Range
from ablate.streams import derived_seed
from ablate.study import Arm, Scale, Search, Stage, Study
from ablate.study_record import PlannedTrial, SearchRecord, StudyRecord
from ablate.user_code import raised

EVALUATION = "ablate.train.evaluation:Evaluation"
COUNTING = "ablate.train.counting:Counting"
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
    parents: tuple[Parent, ...] = ()  # the finished model whose evaluation is searched
    place: Mapping[str, int] = field(default_factory=dict)  # its seed and seed_index
    stage: str = "search"
    column: str = ""  # of the space, where it has columns

    @property
    def key(self) -> str:
        """A name for the sampler's own records, the same whenever the question is the same."""
        words = self.words
        how = [words.sampler, words.early_stopping, words.synchronous, words.batch, self.seed]
        how += [parent.id for parent in self.parents]
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
        """What a search's winner is confirmed by: chains, or one evaluation that reads test."""
        if search.parents:
            return _confirmed_evaluation(self, search, values)
        found = merge(search.values, values)
        alike = [other for other in self.searches if _goes_less_far(self, other, search)]
        others = (chains(self, other.arm, found, repeat=search.repeat) for other in alike)
        read = {place.id for chain in others for place in chain.planned if place.final}
        return chains(self, search.arm, found, repeat=search.repeat, read=read)

    def search_trial(self, search: PlannedSearch, sampled: Values, index: int) -> Trial:
        """The trial for values that a search's sampler asked for."""
        values = merge(merge(search.values, sampled), search.words.changes)
        seed = search.place.get("seed", derived_seed("search", search.seed, index) % 2**31)
        labels = {**_labels(self), "arm": search.arm, "stage": search.stage, "keep": "nothing"}
        runner = EVALUATION if search.parents else None
        more = {"parents": search.parents, "runner": runner, **labels}
        return _trial(self, values, seed=seed, reads_test=False, **more)


@dataclass(frozen=True)
class Chains:
    """Trials for every seed of an arm, their places in the study, and searches that follow."""

    trials: tuple[Trial, ...]
    planned: tuple[PlannedTrial, ...]
    searches: tuple[PlannedSearch, ...] = ()


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
        record=record_of(study, name, scale, arms, configs, data, command),
        trials=(),
        planned=(),
        searches=(),
        corpus_digest=corpus_digest(first.corpus, data),
        configs=configs,
    )
    plan = replace(plan, record=replace(plan.record, corpus_digest=plan.corpus_digest))
    if scale.search is None:
        return _listed(plan, arms, values)
    return _with_searches(plan, scale.search, values)


def arm_values(study: Study, scale: Scale, arm: Arm) -> dict[str, Any]:
    """An arm's flat values at a scale: base recipe, scale, arm, then the scale's last word."""
    base = _base_values(study, scale, arm.recipe or study.base, arm.rows)
    place = place_of(study, arm.name)
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


def _listed(plan: Plan, arms: Sequence[Arm], values: Mapping[str, Values]) -> Plan:
    """Every arm's chains. Shorter ones first: a longer one may go on from their last trials."""
    made: dict[str, Chains] = {}
    for arm in sorted(arms, key=lambda arm: len(arm.then)):
        read = {p.id for chain in made.values() for p in chain.planned if p.final}
        made[arm.name] = chains(plan, arm.name, values[arm.name], read=read)
    return with_chains(plan, [made[arm.name] for arm in arms])


def _goes_less_far(plan: Plan, other: PlannedSearch, search: PlannedSearch) -> bool:
    """Whether another arm's search is the same, and its winner has fewer stages to go through:
    the trial that it ends with is one that this arm's chains go on from."""
    if other.key.rsplit("/", 2)[1:] != search.key.rsplit("/", 2)[1:]:
        return False
    return len(_arm(plan.study, other.arm).then) < len(_arm(plan.study, search.arm).then)


def with_chains(plan: Plan, added: Sequence[Chains]) -> Plan:
    """The plan with more trials in it; one that is there already is not added again."""
    trials = {trial.id: trial for trial in plan.trials}
    planned = {(p.id, p.arm, p.stage): p for p in plan.planned}
    searches = list(plan.searches)
    for chain in added:
        trials |= {trial.id: trial for trial in chain.trials if trial.id not in trials}
        planned |= {(p.id, p.arm, p.stage): p for p in chain.planned}
        searches += chain.searches
    every = tuple(sorted(planned.values(), key=lambda place: place.seed_index))
    order: dict[str, int] = {}  # of a trial that arms share: where it is first
    for position, place in enumerate(every):
        order.setdefault(place.id, position)
    in_order = tuple(sorted(trials.values(), key=lambda trial: order[trial.id]))
    asked = tuple(_search_record(search) for search in searches)
    record = replace(plan.record, trials=every, searches=asked)
    more = {"planned": every, "record": record, "searches": tuple(searches)}
    return replace(plan, trials=in_order, **more)


def chains(
    plan: Plan, arm: str, values: Values, repeat: int = 0, read: Collection[str] = ()
) -> Chains:
    """For every seed: train, then each stage on what came before it; then all seeds together.

    `read`: trials that read the test split already, as another arm's last.
    """
    by_seed, together = _stages(plan, arm)
    searched = by_seed[-1].search if by_seed else None
    alone = not together  # each seed is a result of its own
    made: list[Trial] = []
    planned: list[PlannedTrial] = []
    searches: list[PlannedSearch] = []
    finals: list[Trial] = []
    first = repeat * plan.scale.seeds
    for index in range(first, first + plan.scale.seeds):
        chain = _chain(plan, arm, values, by_seed, index + 1, read, judged=alone)
        made += chain
        finals.append(chain[-1])
        last = chain[-1] if alone and not searched else None
        planned += [_place(t, arm, index, final=t is last) for t in chain]
        if searched:
            how = (by_seed[-1], searched)
            searches.append(_evaluation_search(plan, arm, *how, chain[-1], index))
    if plan.scale.ensemble and alone and not searched and len(finals) > 1:
        together = [Stage("ensemble", kind="evaluate", over="seeds")]
    for stage in together:
        joint = _joint(plan, arm, stage, finals)
        made.append(joint)
        planned.append(_place(joint, arm, _after_all(plan, repeat), final=not alone))
    return Chains(tuple(made), tuple(planned), tuple(searches))


def _stages(plan: Plan, arm: str) -> tuple[list[Stage], list[Stage]]:
    """An arm's stages after training: those of each seed, and those over all seeds."""
    if plan.configs[arm].ngram is not None:
        return [], []
    stages = stages_of(plan.scale, _arm(plan.study, arm))
    alone = [stage for stage in stages if stage.over == "seed"]
    together = [stage for stage in stages if stage.over == "seeds"]
    return alone, together


def _arm(study: Study, name: str) -> Arm:
    return next(arm for arm in study.design.arms if arm.name == name)


def _after_all(plan: Plan, repeat: int) -> int:
    """A seed index for what is made of all seeds: paired with none of them."""
    repeats = plan.scale.search.repeats if plan.scale.search else 1
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
    """One seed's trials, each on the one before. A stage with a search is left to the search."""
    done = [stage for stage in stages if stage.search is None]
    judged = judged and len(done) == len(stages)
    chain: list[Trial] = []
    for position, stage in enumerate([Stage("train"), *done]):
        values = merge(values, stage.changes)
        trains = stage.kind == "train"
        role = "start" if trains else "member"
        more = {
            "seed": seed,
            "parents": (Parent(role, chain[-1].id),) if chain else (),
            "runner": None if trains else EVALUATION,
            "keep": "weights" if trains else "nothing",
            **_labels(plan),
            "arm": arm,
            "stage": stage.name,
        }
        last = judged and position == len(done)
        trial = _trial(plan, values, reads_test=True, **more)
        if not last and trial.id not in read:
            trial = _trial(plan, values, reads_test=False, **more)
        chain.append(trial)
    return chain


def _joint(plan: Plan, arm: str, stage: Stage, members: Sequence[Trial]) -> Trial:
    """All seeds of an arm together: judged, or under one gate that is trained for them."""
    trains = stage.kind == "train"
    role = "base" if trains else "member"
    return _trial(
        plan,
        merge(dict(members[-1].values), stage.changes),
        seed=0,
        parents=tuple(Parent(role, member.id) for member in members),
        runner=None if trains else EVALUATION,
        **{**_labels(plan), "arm": arm, "stage": stage.name},
        keep="weights" if trains else "nothing",
    )


def _evaluation_search(
    plan: Plan, arm: str, stage: Stage, words: Search, model: Trial, index: int
) -> PlannedSearch:
    return PlannedSearch(
        arm=arm,
        repeat=0,
        values=merge(dict(model.values), stage.changes),
        fixed=stage.changes,
        space=_space(plan.study, words.space),
        words=words,
        seed=1,
        parents=(Parent("member", model.id),),
        place={"seed": model.seed, "seed_index": index},
        stage=f"{stage.name} search",
        column=_column(plan.scale, _arm(plan.study, arm).recipe or plan.study.base),
    )


def _confirmed_evaluation(plan: Plan, search: PlannedSearch, values: Values) -> Chains:
    """The best way to evaluate that a search found, now on the test split as well."""
    labels = {**_labels(plan), "arm": search.arm, "stage": search.stage.removesuffix(" search")}
    more = {"parents": search.parents, "runner": EVALUATION, "keep": "nothing", **labels}
    trial = _trial(plan, merge(search.values, values), seed=search.place["seed"], **more)
    place = _place(trial, search.arm, search.place["seed_index"], final=True)
    return Chains((trial,), (place,))


def _search_record(search: PlannedSearch) -> SearchRecord:
    return SearchRecord(
        arm=search.arm,
        repeat=search.repeat,
        num_trials=search.words.trials,
        seed_index=search.place.get("seed_index"),
    )


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


def _trial(
    plan: Plan, values: Values, *, seed: int, runner: str | None = None, **more: Any
) -> Trial:
    """A trial of the plan, run by what the study says, or else by what it is."""
    config = _resolved(plan.study, more["arm"], values)
    usual = TRAINING if config.ngram is None else COUNTING
    return make_trial(
        config,
        values=values,
        seed=seed,
        corpus_digest=plan.corpus_digest,
        threads=plan.scale.threads,
        device="cuda" if plan.scale.gpus else "cpu",
        precision=plan.scale.precision,
        runner=runner or plan.study.runner or usual,
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
    for arm, given in values.items():
        _resolved(plan.study, arm, merge(given, search.changes, place_of(plan.study, arm)))
    searches = tuple(
        PlannedSearch(
            arm=arm,
            repeat=repeat,
            values=arm_values,
            fixed=_not_searched(plan, _arm(plan.study, arm)),
            space=space,
            words=search,
            seed=repeat + 1,
            column=_column(plan.scale, _arm(plan.study, arm).recipe or plan.study.base),
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


def _base_values(
    study: Study, scale: Scale, base: str | Values, rows: Values | None = None
) -> dict[str, Any]:
    """A recipe's values for the scale, those of its rows settled that an arm names."""
    if not isinstance(base, str):
        return dict(base)
    found = _space(study, base.partition(":")[0])
    for name, value in (rows or {}).items():
        domain = found[name].domain
        if isinstance(domain, Choices | Range) and not domain.admits(value):
            raise StudyError(wrong_value(name, value, str(domain), found[name].place))
    return found.values(_column(scale, base), fixed=rows)


def _not_searched(plan: Plan, arm: Arm) -> dict[str, Any]:
    """What the scale and the arm set, and what the rows settle that the arm names."""
    base = arm.recipe or plan.study.base
    without = _base_values(plan.study, plan.scale, base)
    found = _base_values(plan.study, plan.scale, base, arm.rows)
    settled = {key: value for key, value in found.items() if without.get(key, found) != value}
    return {**settled, **_scale_values(plan.scale), **arm.changes}


def _column(scale: Scale, base: str | Values) -> str:
    """The column that a recipe is read in, and the search space of the arm that has it."""
    named = base.partition(":")[2] if isinstance(base, str) else ""
    return named or scale.column or scale.corpus


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
    return resolve(values, place_of(study, arm))


def _check_one_corpus(study: Study, configs: Mapping[str, Config]) -> None:
    """Numbers of different corpora are never set side by side."""
    base = configs[study.base_arm].flat
    for arm, config in configs.items():
        for key, value in config.flat.items():
            if key.startswith("corpus.") and value != base[key]:
                raise StudyError(
                    f"{place_of(study, arm)}: {key} = {value!r} is not allowed, since the base "
                    f"arm has {base[key]!r}. Allowed: one corpus for all arms of a scale."
                )
