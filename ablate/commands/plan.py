"""Show what a study would run: arms, trials, cost."""

from __future__ import annotations

import argparse
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.commands import _options
from ablate.compare.formats import table_of, text
from ablate.compare.text.figures import duration
from ablate.config.identity import Role, Trial
from ablate.config.resolve import merge, resolve
from ablate.engine.analyses import check_analyses
from ablate.engine.cores import room_for
from ablate.engine.forecast import Job, search_jobs, seconds_until_done, starting_after
from ablate.results.replication import counted
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.store.study_record import SearchRecord, StudyRecord
from ablate.store.workspace import Workspace
from ablate.study import cost
from ablate.study.chains import confirm_search
from ablate.study.file import load
from ablate.study.plan import make_plan
from ablate.study.planned import Chains, Plan, PlannedSearch

EXAMPLE = "ablate plan studies/x.py --scale paper"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="the study file, or a shipped study's name")
    parser.add_argument("--scale", help="one of the study's scales (default: the first)")
    _options.add_locations(parser)


def run(options: argparse.Namespace) -> str:
    """Return what a study would train, and its cost."""
    return show_plan(options.file, options.scale, _options.workspace(options))


WIDTH = 100


def show_plan(file: str, scale: str | None, workspace: Workspace) -> str:
    """Return the plan as text. Reads the store, writes nothing, imports neither ray nor mlflow."""
    study = load(file)
    check_analyses(study)
    plan = make_plan(study, scale, data=workspace.data)
    searches = _left(plan, workspace.store)
    plan = replace(plan, record=_so_far(plan, searches))
    known = journals.read_all(workspace.store, plan.record.trial_ids())
    known = journals.labelled(known, {trial.id: trial for trial in plan.trials})
    done = {trial_id: journal for trial_id, journal in known.items() if _is_done(journal)}
    return "\n".join(
        [
            f"{plan.record.key}: {plan.record.question}",
            f"{_read(plan)}{plan.record.seeds}, {counted(plan.scale.threads, 'thread')} per trial, "
            f"base arm '{plan.record.base_arm}'",
            "",
            *_arms(plan, done),
            "",
            *_searches(plan),
            *_cost(plan, searches, done, workspace),
        ]
    )


def _so_far(plan: Plan, searches: Sequence[SearchLeft]) -> StudyRecord:
    """Return the plan's record with what its searches have come to: what there is to be counted."""
    known = tuple(search.record for search in searches)
    confirming = (one for s in searches if s.record.ended for one in s.chains.planned)
    return replace(plan.record, searches=known, trials=(*plan.record.trials, *confirming))


def _state(plan: Plan, done: Mapping[str, journals.Journal]) -> str:
    """`84 trials, 14 done, 70 left`; a search may leave some out."""
    record = plan.record
    num = record.num_trials()
    searched = ", with those of searches and what confirms their winners" if plan.searches else ""
    left = f"{'up to ' if record.to_come.total() else ''}{num - len(done)} left"
    return f"{counted(num, 'trial')}{searched}: {len(done)} done, {left}"


def _is_done(journal: journals.Journal | None) -> bool:
    """Return whether a run of the study leaves the trial as it is: it tries failed ones again."""
    return journal is not None and journal.status not in (None, Status.FAILED)


def _read(plan: Plan) -> str:
    record = plan.record
    return f"corpus {record.corpus} ({record.corpus_digest}), " if record.corpus else ""


def _arms(plan: Plan, done: dict[str, journals.Journal]) -> list[str]:
    stages = list(dict.fromkeys(trial.stage for trial in plan.record.trials))
    counted = Counter((p.arm, p.stage) for p in plan.record.trials)
    record = plan.record
    rows = [
        [
            arm.name,
            "" if arm.num_parameters is None else f"{arm.num_parameters:,}",
            *(str(counted[arm.name, stage]) for stage in stages),
            f"{len(done.keys() & {*record.trial_ids(arm.name)})} of {record.num_trials(arm.name)}",
        ]
        for arm in plan.record.arms
    ]
    return text.lines(table_of(["arm", "parameters", *stages, "done"], rows), WIDTH)


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
        f"{words.space} ({', '.join([words.sampler, *options, how])}, early stopping: "
        f"{words.early_stopping or 'no'}),",
        then,
        *_inherited(plan),
        *_not_searched(plan),
        "",
    ]


def _inherited(plan: Plan) -> list[str]:
    """Describe which arms start from another's winner, and what they search."""
    words = {search.arm: search.inherits for search in plan.searches if search.inherits}
    lines: list[str] = []
    for arm, word in words.items():
        rows = ", ".join(f"'{row}'" for row in word.over)
        line = f"{arm} starts from the best of the search of {word.arm}, and searches only {rows}."
        lines += textwrap.wrap(line, WIDTH)
    return lines


def _not_searched(plan: Plan) -> list[str]:
    """Describe which fields of the space some arms do not search, and how to search them."""
    left = list(dict.fromkeys(field for search in plan.searches for field in search.left))
    advice = [f"Search(also={left!r}) would search them in every arm that does not set them."]
    return [*plan.record.notes[len(plan.study.design.notes) :], *(advice if left else [])]


def _cost(
    plan: Plan,
    searches: Sequence[SearchLeft],
    done: dict[str, journals.Journal],
    workspace: Workspace,
) -> list[str]:
    from ablate.data.corpus import num_tokens, source_vocabulary_size, vocabulary_size

    first = next(iter(plan.configs.values()))
    if not first.kind.assembles and "corpus" not in first.sections:
        return [_time(plan, searches, done)]
    vocabulary = vocabulary_size(first.corpus, workspace.data)
    read = source_vocabulary_size(first.corpus, workspace.data)
    num_train = num_tokens(first.corpus, workspace.data)["train"]
    configs = plan.configs.items()
    work = {arm: cost.flops_per_token(config, vocabulary, read) for arm, config in configs}
    left = [trial for trial in plan.trials if trial.id not in done]
    more = [trial for search in searches for trial in search.confirming]
    trained = [trial for trial in (*left, *more) if not trial.parent_ids(Role.MEMBER)]
    tokens = {trial.id: cost.training_tokens(trial.config, num_train) for trial in trained}
    requested = [_tokens_of_request(search.planned, num_train) for search in searches]
    listed = [done[trial.id] for trial in plan.trials if trial.id in done]  # not of searches
    rate = cost.measured_rate(listed, work)
    basis = "from this study's finished trials" if rate else "estimated from this machine's speed"
    each = cost.seconds_per_token(work, rate, plan.scale.threads, plan.scale.precision)
    took = {trial.id: tokens[trial.id] * each[trial.arm] for trial in trained}
    took |= _of_evaluations(plan, done)
    jobs = _jobs(left, took)
    for search, num in zip(searches, requested, strict=True):
        jobs += _jobs_of(search, num * each[search.planned.arm], took)
    workers = room_for(plan.scale.threads)
    seconds = seconds_until_done(jobs, workers)
    total = sum(tokens.values())
    total += sum(s.num_requests * num for s, num in zip(searches, requested, strict=True))
    unknown = sum(trial.id not in took for trial in left)
    without = f", without {counted(unknown, 'evaluation')}" if unknown else ""
    return [
        f"{_state(plan, done)}; {total / 1e6:,.1f}M training tokens left: about "
        f"{duration(seconds)} with {counted(workers, 'worker')} ({basis}){without}"
    ]


def _jobs(trials: Sequence[Trial], took: Mapping[str, float]) -> list[Job]:
    return [Job(trial.id, took.get(trial.id, 0.0), trial.parent_ids()) for trial in trials]


def _jobs_of(search: SearchLeft, seconds: float, took: Mapping[str, float]) -> list[Job]:
    """Return what a search may request and what confirms its winner; `seconds`: of a request."""
    model = [parent.id for parent in search.planned.parents]
    of_search = search_jobs(search.record, search.num_requests, seconds, model)
    return [*of_search, *starting_after(_jobs(search.confirming, took), of_search)]


def _of_evaluations(plan: Plan, done: dict[str, journals.Journal]) -> dict[str, float]:
    """Return the seconds of each evaluation left that has been done on other seeds."""
    took: dict[tuple[str, str], list[float]] = {}
    for journal in done.values():
        if journal.outcome is not None and journal.outcome.seconds is not None:
            kind = (journal.trial.arm, journal.trial.stage)
            took.setdefault(kind, []).append(journal.outcome.seconds)
    return {
        trial.id: sum(took[trial.arm, trial.stage]) / len(took[trial.arm, trial.stage])
        for trial in plan.trials
        if trial.id not in done and (trial.arm, trial.stage) in took
    }


def _time(plan: Plan, searches: Sequence[SearchLeft], done: Mapping[str, journals.Journal]) -> str:
    """What is left of trials whose cost is only known when some have finished."""
    known = [j.epochs[-1].seconds or 0.0 for j in done.values() if j.epochs]
    left = [trial for trial in plan.trials if trial.id not in done]
    workers = room_for(plan.scale.threads)
    about = "the time is known when one has finished"
    if known:
        each = sum(known) / len(known)
        took = {trial.id: each for s in searches for trial in s.confirming}
        jobs = _jobs(left, took | {trial.id: each for trial in left})
        for search in searches:
            jobs += _jobs_of(search, each, took)
        on = f"with {counted(workers, 'worker')} (from {len(known)} finished)"
        about = f"about {duration(seconds_until_done(jobs, workers))} {on}"
    return f"{_state(plan, done)}; {about}"


def _tokens_of_request(search: PlannedSearch, num_train: int) -> int:
    """Return the training tokens of a trial that the search may request, if none stops early."""
    if search.parents:  # it is a way to evaluate a finished model
        return 0
    return cost.training_tokens(resolve(merge(search.values, search.words.changes)), num_train)


@dataclass(frozen=True)
class SearchLeft:
    """The work that a search has left, if the search stops no trial early."""

    planned: PlannedSearch
    record: SearchRecord
    num_requests: int
    chains: Chains  # what confirms its winner, or would if nothing had to be found
    confirming: Sequence[Trial]  # of these, what is left and confirms no earlier search's winner


def _left(plan: Plan, store: Store) -> list[SearchLeft]:
    """Return what the searches have left."""
    key, left, seen = plan.record.key, [], set[str]()
    stored = study_record.read(store, key).searches if study_record.exists(store, key) else ()
    for search, planned in zip(plan.searches, plan.record.searches, strict=True):
        known = _known(search, planned, stored)
        started = journals.read_all(store, known.trials)
        asked = known.unrequested + sum(not _is_done(started.get(t)) for t in known.trials)
        chains = _confirming(plan, search, known, started)
        done = journals.read_all(store, [trial.id for trial in chains.trials])
        new = [t for t in chains.trials if t.id not in seen and not _is_done(done.get(t.id))]
        left.append(SearchLeft(search, known, 0 if planned.shared else asked, chains, new))
        seen |= {trial.id for trial in new}
    return left


def _known(
    search: PlannedSearch, planned: SearchRecord, stored: Sequence[SearchRecord]
) -> SearchRecord:
    """Return the plan's record of a search with what the search has come to.

    The key of one that inherits changes with the winner that it starts from.
    """
    heir = (planned.arm, planned.repeat, planned.inherits, planned.over)
    for one in stored:
        inherited = planned.inherits and (one.arm, one.repeat, one.inherits, one.over) == heir
        if one.key == search.key or inherited:
            ended = one.ended or one.chosen is not None
            known = replace(planned, trials=one.trials, chosen=one.chosen, key=one.key, ended=ended)
            return replace(known, confirming=(), confirming_after=()) if ended else known
    return planned


def _confirming(
    plan: Plan,
    search: PlannedSearch,
    known: SearchRecord,
    started: Mapping[str, journals.Journal],
) -> Chains:
    """Return what confirms a search's winner, or would if nothing had to be found."""
    if known.ended and known.chosen is None:
        return Chains((), ())
    chosen = started.get(known.chosen or "")
    values = chosen.trial.values if chosen else {}
    winner = {key: value for key, value in values.items() if key not in search.words.changes}
    return confirm_search(plan, search, winner)
