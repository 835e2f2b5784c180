"""Show what a study would run: arms, trials, cost."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ablate.commands import _answers, _options
from ablate.commands._searches_left import SearchLeft, searches_left
from ablate.compare import crossing
from ablate.compare.foreseen import foreseen
from ablate.compare.formats import json, table_of, text
from ablate.compare.text.figures import duration
from ablate.config.config import Config
from ablate.config.identity import Role
from ablate.config.merge import merge
from ablate.config.resolve import resolve
from ablate.engine.analyses import check_analyses
from ablate.engine.cores import room_for
from ablate.engine.forecast import Forecast
from ablate.errors import StudyError
from ablate.results.sizes import size_on_scale
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.replication import counted
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord
from ablate.store.workspace import Workspace, make_folders
from ablate.study import cost
from ablate.study.file import load
from ablate.study.kept import kept_settings
from ablate.study.ladder import rung_notes
from ablate.study.looked import with_history, without
from ablate.study.overrides import Overrides, overridden
from ablate.study.plan import make_plan
from ablate.study.planned import REDUCTION, Plan, PlannedSearch
from ablate.study.several import scales_of
from ablate.study.stated import plans_of, state
from ablate.study.study import Study
from ablate.study.words import Search

EXAMPLE = "ablate plan studies/x.py --scale paper"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate plan`."""
    _options.add_study(parser)
    parser.add_argument(
        "--local", action="store_true", help="give the time that `ablate study --local` takes"
    )
    parser.add_argument(
        "--register",
        action="store_true",
        help="state the plan now, before any result, and print its hash, to date it elsewhere",
    )
    _options.add_json(parser)
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Return what a study would train, and its cost."""
    changes, workspace = _options.overrides(options), _options.workspace(options)
    if options.register:
        return register(options.file, options.scale, workspace, changes)
    if options.format == "json":
        return json.written(
            answer(options.file, options.scale, workspace, changes, local=options.local)
        )
    return show_plan(options.file, options.scale, workspace, changes, local=options.local)


def register(file: str, scale: str | None, workspace: Workspace, changes: Overrides) -> str:
    """State the plan of each part of a scale; return its hash."""
    study, name = overridden(load(file), scale, changes)
    make_folders(workspace)
    lines = []
    for each in scales_of(name, study.scale(name)[1]):
        plan = make_plan(study, each, data=workspace.data, stores=[workspace.store])
        plans = plans_of(plan, workspace.store)
        if (known := plans.read()) is not None and (known.registered or plans.arms()):
            raise StudyError(
                f"{plan.record.key}: its plan was stated on {known.time[:10]} (SHA-256 "
                f"{known.hash}), and is not stated again. `ablate study` says what has changed."
            )
        stated = state(plan, workspace.store, registered=True)
        plans.write(stated)
        lines.append(f"{plan.record.key}: planned on {stated.time}, SHA-256 {stated.hash}")
    return "\n".join(lines)


def show_plan(
    file: str,
    scale: str | None,
    workspace: Workspace,
    changes: Overrides | None = None,
    *,
    local: bool = False,
) -> str:
    """Return the plan as text, one for each corpus or rung of a scale of several.

    Reads the store, writes nothing, imports neither ray nor mlflow.
    """
    study, scale = overridden(load(file), scale, changes or Overrides())
    each = scales_of(scale, study.scale(scale)[1])
    return "\n\n".join(_show_one(study, one, workspace, local) for one in each)


def _show_one(study: Study, scale: str, workspace: Workspace, local: bool) -> str:
    plan, searches, done = _planned(study, scale, workspace)
    above = [
        f"{plan.record.key}: {plan.record.question}",
        *_changed(plan),
        *rung_notes(plan.scale),
        f"{_read(plan)}{plan.record.seeds}, {counted(plan.scale.threads, 'thread')} per trial, "
        f"base arm '{plan.record.base_arm}'",
        *_text(plan, workspace),
        *_to_fetch(plan, workspace),
        *kept_settings(plan),
        *_looks(plan.record),
    ]
    below = [
        *_searches(plan),
        *_finds(plan, workspace.store),
        *_sizes(plan, workspace),
        _shown_cost(_cost(plan, searches, done, workspace, local), plan),
    ]
    written = [*text.sentences(above), "", *_arms(plan, done), "", *text.sentences(below)]
    return "\n".join(written)


def answer(
    file: str,
    scale: str | None,
    workspace: Workspace,
    changes: Overrides | None = None,
    *,
    local: bool = False,
) -> _answers.Plan:
    """Return the same for programs."""
    plan, searches, done = _planned(
        *overridden(load(file), scale, changes or Overrides()), workspace
    )
    record, cost = plan.record, _cost(plan, searches, done, workspace, local)
    notes = [
        *_changed(plan),
        *rung_notes(plan.scale),
        *_to_fetch(plan, workspace),
        *kept_settings(plan),
        *_looks(record),
        *_searches(plan),
        *_finds(plan, workspace.store),
    ]
    return _answers.Plan(
        study=record.key,
        question=record.question,
        corpus=record.corpus,
        base_arm=record.base_arm,
        first_seed=record.first_seed,
        num_seeds=record.num_seeds,
        threads=plan.scale.threads,
        arms=tuple(_arms_planned(plan, done)),
        trials=cost.trials,
        done=cost.done,
        left=cost.trials - cost.done,
        left_is_at_most=cost.at_most,
        training_tokens_left=cost.tokens,
        seconds_left=cost.seconds,
        workers=cost.workers,
        notes=tuple(filter(None, notes)),
    )


Done = Mapping[str, journals.Journal]


def _planned(
    study: Study, scale: str, workspace: Workspace
) -> tuple[Plan, Sequence[SearchLeft], Done]:
    """Return the plan, what its searches have left, and the journals of what is done."""
    check_analyses(study)
    plan = make_plan(study, scale, data=workspace.data, stores=[workspace.store])
    plan = _after_looks(plan, workspace.store)
    searches = searches_left(plan, workspace.store)
    plan = replace(plan, record=_so_far(plan, searches))
    known = journals.read_all(workspace.store, plan.record.trial_ids())
    known = journals.labelled(known, {trial.id: trial for trial in plan.trials})
    done = {trial_id: journal for trial_id, journal in known.items() if journal.is_done}
    return plan, searches, done


def _after_looks(plan: Plan, store: Store) -> Plan:
    """Return the plan with the looks on record, without what they have decided."""
    plan = with_history(plan, store)
    looks = plan.record.every_look
    if not (looks.are_several and looks.made):
        return plan
    before = {arm.name: arm.stopped_at for arm in study_record.read(store, plan.record.key).arms}
    for num in looks.made:
        plan = without(plan, {arm for arm, at in before.items() if at == num}, num)
    return plan


def _looks(record: StudyRecord) -> Iterator[str]:
    """The looks planned and made, and what the former mean for the number of trials."""
    looks = record.every_look
    if not str(looks):
        return
    ahead = looks.are_several and looks.last < looks.pairs
    yield f"{looks}{'; an arm that one decides trains no more' if ahead else ''}"


def _so_far(plan: Plan, searches: Sequence[SearchLeft]) -> StudyRecord:
    """Return the plan's record with the state of its searches, for counting its trials."""
    known = tuple(search.record for search in searches)
    confirming = (one for s in searches if s.record.ended for one in s.chains.planned)
    return replace(plan.record, searches=known, trials=(*plan.record.trials, *confirming))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The trials that are left, and how long they take. None: unknown."""

    trials: int
    done: int
    at_most: bool  # searches or looks may leave some of the rest out
    tokens: float | None
    seconds: float | None
    workers: int
    basis: str  # how the time is known
    without: str  # what it leaves out


def _state(cost: Cost, plan: Plan) -> str:
    """`84 trials, 14 done, 70 left`; a search may leave some out."""
    searched = ", with those of searches and what confirms their winners" if plan.searches else ""
    left = f"{'up to ' if cost.at_most else ''}{cost.trials - cost.done} left"
    return f"{counted(cost.trials, 'trial')}{searched}: {cost.done} done, {left}"


def _changed(plan: Plan) -> list[str]:
    return [f"changed on the command line: {plan.record.changed}"] if plan.record.changed else []


def _read(plan: Plan) -> str:
    record = plan.record
    return f"corpus {record.corpus} ({record.corpus_digest}), " if record.corpus else ""


def _text(plan: Plan, workspace: Workspace) -> Iterator[str]:
    """Describe the text that models read: tokens, vocabulary, words that training never has."""
    from ablate.config.data_source import described, source_of

    config = plan.configs[plan.study.base_arm]
    if config.kind.slots and config.kind.name != "encoder_decoder":
        arms = {digest: arm for arm, digest in reversed([*plan.digests.items()])}
        for digest, data in plan.texts.items():
            if data:
                of_base = digest == plan.record.corpus_digest
                text = described(source_of(data, workspace.data))
                yield text if of_base else f"{arms[digest]}: {text}"


def _to_fetch(plan: Plan, workspace: Workspace) -> list[str]:
    """Say what a run would miss, although the plan can be made without it."""
    from ablate.config.data_source import source_of

    each = (source_of(data, workspace.data).to_fetch() for data in plan.texts.values() if data)
    return [*dict.fromkeys(filter(None, each))]


def _arms(plan: Plan, done: Done) -> list[str]:
    arms = [*_arms_planned(plan, done)]
    stages = list(arms[0].trials)
    rows = [
        [
            arm.arm,
            "" if arm.parameters is None else f"{arm.parameters:,}",
            *(str(arm.trials[stage]) for stage in stages),
            f"{arm.done} of {arm.planned}",
        ]
        for arm in arms
    ]
    return text.lines(table_of(["arm", "parameters", *stages, "done"], rows))


def _arms_planned(plan: Plan, done: Done) -> Iterator[_answers.ArmPlan]:
    """Yield each arm with the number of its trials by stage; all arms have the same stages."""
    record = plan.record
    stages = list(dict.fromkeys(trial.stage for trial in record.trials))
    counted = Counter((p.arm, p.stage) for p in record.trials)
    for arm in record.arms:
        yield _answers.ArmPlan(
            arm=arm.name,
            parameters=arm.num_parameters,
            trials={stage: counted[arm.name, stage] for stage in stages},
            done=len(done.keys() & {*record.trial_ids(arm.name)}),
            planned=record.num_trials(arm.name),
        )


def _searches(plan: Plan) -> list[str]:
    if not plan.searches:
        return []
    words, of_models = plan.searches[0].words, bool(plan.searches[0].parents)
    repeats = 1 if of_models else words.repeats
    options = [f"{name}={value}" for name, value in words.options.items()]
    how = "synchronous" if words.synchronous else "asynchronous"
    tuned = "the evaluation of each finished model" if of_models else "each arm"
    then = (
        "on validation; only the best reads the test split, once."
        if of_models
        else "and its best is confirmed on seeds that the search never used."
    )
    return [
        f"{tuned} is tuned first: {counted(repeats, 'search')} of {words.trials} trials over "
        f"{_space_name(words.space)} ({', '.join([words.sampler, *options, how])}, early stopping: "
        f"{_stopping(words)}),",
        then,
        *_inherited(plan),
        *_notes(plan),
        "",
    ]


def _finds(plan: Plan, store: Store) -> list[str]:
    """Which difference the planned pairs find, and what early stopping would lose."""
    record, where = plan.record, plan.study.file or plan.study.name
    stated = size_on_scale("spread", plan.scale.spread, record.metric, where)
    sentences = [foreseen(record, store, stated)]
    if any(search.words.early_stopping and not search.parents for search in plan.searches):
        sentences.append(crossing.warning(record, store))
    return [*sentences, ""] if sentences else []


def _stopping(words: Search) -> str:
    """How trials that fall behind are stopped."""
    if words.early_stopping is None:
        return "no"
    start = f" from epoch {words.min_epochs} on" if words.min_epochs > 1 else ""
    return f"{words.early_stopping}, one in {REDUCTION} continues{start}"


def _space_name(space: str | Mapping[str, Any]) -> str:
    """The name of a space, or the rows of one that the study's file has."""
    return space if isinstance(space, str) else f"the study's own space of {', '.join(space)}"


def _inherited(plan: Plan) -> list[str]:
    """Describe which arms start from another's winner, and what they search."""
    words = {search.arm: search.inherits for search in plan.searches if search.inherits}
    lines: list[str] = []
    for arm, word in words.items():
        rows = ", ".join(f"'{row}'" for row in word.over)
        line = f"{arm} starts from the best of the search of {word.arm}, and searches only {rows}."
        lines.append(line)
    return lines


def _notes(plan: Plan) -> list[str]:
    """The notes of the scale, and of what searches leave alone."""
    return list(plan.record.notes[len(plan.study.design.notes) :])  # after the design's


def _cost(
    plan: Plan,
    searches: Sequence[SearchLeft],
    done: Mapping[str, journals.Journal],
    workspace: Workspace,
    local: bool,
) -> Cost:
    """The trials that are left, and how long they take."""
    asked = {one.planned.arm: _request(one.planned) for one in searches}
    epochs = {arm: config.num_epochs if config else 0 for arm, config in asked.items()}
    tokens, epoch_seconds = _operations(plan, searches, asked, done, workspace)
    forecast = Forecast(epoch_seconds, epochs)  # the same estimate as on the screen of a run
    forecast.take_record(plan.record)
    for journal in done.values():
        forecast.ended(journal)
    # As many workers as `ablate study` starts if it is given no number.
    left = plan.record.trial_ids() - done.keys()
    workers = 1 if local else room_for(plan.scale.threads)
    seconds = forecast.seconds_left({arm.name for arm in plan.record.arms}, left, workers)
    looks = plan.record.every_look
    num = sum(bool(journal.epochs) for journal in done.values())
    basis = (
        f"from {counted(num, 'finished trial')}" if num else "estimated from this machine's speed"
    )
    to_come = plan.record.to_come.total()
    return Cost(
        trials=plan.record.num_trials(),
        done=len(done),
        at_most=bool(to_come or (looks.are_several and looks.last < looks.pairs)),
        tokens=tokens,
        seconds=seconds,
        workers=workers,
        basis=basis,
        without=_unknown(plan, done),
    )


def _shown_cost(cost: Cost, plan: Plan) -> str:
    if cost.seconds is None:
        return f"{_state(cost, plan)}; the time is known when one has finished"
    tokens = "" if cost.tokens is None else f"{cost.tokens / 1e6:,.1f}M training tokens left: "
    return (
        f"{_state(cost, plan)}; {tokens}about {duration(cost.seconds)} with "
        f"{counted(cost.workers, 'worker')} ({cost.basis}){cost.without}"
    )


def _operations(
    plan: Plan,
    searches: Sequence[SearchLeft],
    asked: Mapping[str, Config | None],
    done: Mapping[str, journals.Journal],
    workspace: Workspace,
) -> tuple[float | None, Mapping[str, float]]:
    """Return the training tokens left, and the seconds of an epoch that operations suggest by arm.

    None and empty for a task that counts no operations.
    """
    from ablate.config.data_source import source_of

    first = next(iter(plan.configs.values()))  # all arms of a scale read one corpus
    source = source_of(first.data, workspace.data) if first.data else None
    if source is None or not first.kind.slots:  # only a function's trials tell how long they take
        return None, {}
    words, num_train = (*source.vocabulary(), source.sentence()), source.sizes()["train"]
    configs = plan.configs.items()
    work = {arm: cost.flops_per_token(config, *words) for arm, config in configs}
    each = cost.seconds_per_token(work, plan.scale.threads, plan.scale.precision)
    epoch_seconds = {
        arm: each[arm] * cost.training_tokens(config, num_train) / (config.num_epochs or 1)
        for arm, config in configs
    }
    trials = {trial.id: trial for trial in plan.trials if trial.id not in done}
    trials |= {trial.id: trial for search in searches for trial in search.confirming}
    # Evaluations train on no token.
    trained = [trial for trial in trials.values() if not trial.parent_ids(Role.MEMBER)]
    total = sum(cost.training_tokens(trial.config, num_train) for trial in trained)
    for search in searches:
        if config := asked[search.planned.arm]:
            total += search.num_requests * cost.training_tokens(config, num_train)
    return total, epoch_seconds


def _sizes(plan: Plan, workspace: Workspace) -> Iterator[str]:
    """Say how much a function's trials read of each split, if their source counts it."""
    from ablate.config.data_source import source_of

    first = next(iter(plan.configs.values()))
    sizes = source_of(first.data, workspace.data).sizes() if first.data else {}
    if sizes and not first.kind.slots:
        yield ", ".join(f"{size:,} {split}" for split, size in sizes.items())


def _unknown(plan: Plan, done: Mapping[str, journals.Journal]) -> str:
    """How many evaluations the time leaves out, since none has been made."""
    judged = [trial.id for trial in plan.trials if trial.parent_ids(Role.MEMBER)]
    none = judged and done.keys().isdisjoint(judged)
    return f", without {counted(len(judged), 'evaluation')}" if none else ""


def _request(search: PlannedSearch) -> Config | None:
    """The settings of a trial that the search may request; None if it evaluates a model."""
    return None if search.parents else resolve(merge(search.values, search.words.changes))
