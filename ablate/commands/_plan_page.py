"""A plan as people read it: the question, the arms, what they cost and what their seeds find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from ablate.commands._answers import ArmPlan
from ablate.commands._plan_cost import Cost
from ablate.compare import crossing
from ablate.compare.foreseen import foreseen
from ablate.compare.formats import table_of, text
from ablate.compare.text.figures import count, duration
from ablate.config.data_source import described, source_of
from ablate.results.sizes import size_on_scale
from ablate.store.journal import Journal
from ablate.store.replication import counted
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord, study_key
from ablate.store.workspace import Workspace
from ablate.study.kept import kept_settings
from ablate.study.planned import REDUCTION, Plan
from ablate.study.words import Search


@dataclass(frozen=True)
class PlannedPart:
    """The plan of a scale, or of one corpus or rung of a scale of several; and what is done."""

    plan: Plan
    done: Mapping[str, Journal]
    cost: Cost

    @property
    def record(self) -> StudyRecord:
        """What the plan says of itself."""
        return self.plan.record


def page(parts: Sequence[PlannedPart], workspace: Workspace) -> str:
    """One table of all arms; then the cost, what seeds find, and what else to know."""
    heading = text.sentences(_heading(parts[0].record))
    answer = text.sentences(
        [_cost(parts), *_of_parts(parts, lambda part: finds(part.plan, workspace.store))]
    )
    notes = text.sentences(_notes(parts, workspace))
    sections = [heading, _table(parts), answer, notes]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _heading(record: StudyRecord) -> Iterator[str]:
    key = study_key(record.name, record.one_of) if record.one_of else record.key
    yield f"{key}: {record.question}"
    corpora = ", ".join(record.corpora) or record.corpus
    metric, base = record.metric.shown, f"base arm '{record.base_arm}'"
    yield ", ".join(filter(None, [corpora, record.seeds, metric, base]))


def _table(parts: Sequence[PlannedPart]) -> list[str]:
    """A row for each arm; of several corpora or rungs, for each arm of each."""
    record = parts[0].record
    several = [_part_word(record)] if record.one_of else []
    sized = any(arm.num_parameters is not None for arm in record.arms)
    rows = [
        [
            *([part.record.part] if several else []),
            arm.arm,
            *([count(arm.parameters)] if sized else []),
            *map(str, arm.trials.values()),
            f"{arm.done} of {arm.planned}",
        ]
        for part in parts
        for arm in arms_planned(part)
    ]
    stages = next(arms_planned(parts[0])).trials
    headings = [*several, "arm", *(["params"] if sized else []), *stages, "done"]
    return text.lines(table_of(headings, rows, left=("arm",)), rule="─")


def _part_word(record: StudyRecord) -> str:
    return "corpus" if record.corpora else "rung"


def arms_planned(part: PlannedPart) -> Iterator[ArmPlan]:
    """Yield each arm with the number of its trials by stage; all arms have the same stages."""
    record = part.record
    stages = list(dict.fromkeys(trial.stage for trial in record.trials))
    by_stage = Counter((planned.arm, planned.stage) for planned in record.trials)
    for arm in record.arms:
        yield ArmPlan(
            arm=arm.name,
            parameters=arm.num_parameters,
            trials={stage: by_stage[arm.name, stage] for stage in stages},
            done=len(part.done.keys() & {*record.trial_ids(arm.name)}),
            planned=record.num_trials(arm.name),
        )


def _cost(parts: Sequence[PlannedPart]) -> str:
    """`84 trials: 14 done, 70 left; 9.6M training tokens left: about 42m with 2 workers`."""
    cost = reduce(add, (part.cost for part in parts))
    searched = any(part.plan.searches for part in parts)
    of_searches = ", with those of searches and what confirms their winners" if searched else ""
    left = f"{'up to ' if cost.at_most else ''}{cost.trials - cost.done} left"
    state = f"{counted(cost.trials, 'trial')}{of_searches}: {cost.done} done, {left}"
    if cost.seconds is None:
        each = f" of each {_part_word(parts[0].record)}" if len(parts) > 1 else ""
        return f"{state}; the time is known when one{each} has finished."
    tokens = "" if cost.tokens is None else f"{cost.tokens / 1e6:,.1f}M training tokens left: "
    unknown = cost.num_unknown
    without = f", without {counted(unknown, 'evaluation')}" if unknown else ""
    workers = counted(cost.workers, "worker")
    return (
        f"{state}; {tokens}about {duration(cost.seconds)} with {workers} ({cost.basis}){without}."
    )


def _notes(parts: Sequence[PlannedPart], workspace: Workspace) -> Iterator[str]:
    """What else to know, once for all parts where it is the same."""
    first = parts[0].record
    if first.changed:
        yield f"Changed on the command line: {first.changed}."
    yield from _of_parts(parts, lambda part: searches_in_words(part.plan))
    yield from _of_parts(parts, lambda part: notes_of_record(part.plan))
    yield from _of_parts(parts, lambda part: looks_in_words(part.record))
    for part in parts:
        if sizes := ", ".join(f"{name} = {size}" for name, size in part.record.sizes.items()):
            yield f"Rung {part.record.part}: {sizes} in every arm."
    if first.rule:
        yield f"Transferred from rung to rung: {first.rule}."
    yield from _of_parts(parts, lambda part: kept_settings(part.plan))
    for part in parts:
        yield from _read(part, workspace)
    yield from _of_parts(parts, lambda part: to_fetch(part.plan, workspace))


def _of_parts(
    parts: Sequence[PlannedPart], sentences: Callable[[PlannedPart], Iterable[str]]
) -> Iterator[str]:
    """Each sentence once; one that not all parts have begins with the names of its parts."""
    found: dict[str, list[str]] = {}
    for part in parts:
        for sentence in sentences(part):
            found.setdefault(sentence, []).append(part.record.part)
    for sentence, names in found.items():
        yield sentence if len(names) == len(parts) else f"{', '.join(names)}: {sentence}"


def _read(part: PlannedPart, workspace: Workspace) -> Iterator[str]:
    """Describe what trials read: a text's tokens and words; or how much a function's trials read of
    each split, if their source counts it."""
    plan, one_of = part.plan, part.record.one_of
    on = f" on {'rung ' if part.record.rungs else ''}{part.record.part}" if one_of else ""
    config = plan.configs[plan.study.base_arm]
    if not config.kind.slots:
        data = next(iter(plan.configs.values())).data
        sizes = source_of(data, workspace.data).sizes() if data else {}
        if sizes:
            yield f"Read{on}: {', '.join(f'{size:,} {split}' for split, size in sizes.items())}."
    elif config.kind.name != "encoder_decoder":
        arms = {digest: arm for arm, digest in reversed([*plan.digests.items()])}
        for digest, data in plan.texts.items():
            if data:
                of_base = digest == plan.record.corpus_digest
                whose = "" if of_base else f" of {arms[digest]}"
                yield f"Text{whose}{on}: {described(source_of(data, workspace.data))} ({digest})."


def to_fetch(plan: Plan, workspace: Workspace) -> list[str]:
    """Say what a run would miss, although the plan can be made without it."""
    each = (source_of(data, workspace.data).to_fetch() for data in plan.texts.values() if data)
    return [*dict.fromkeys(filter(None, each))]


def looks_in_words(record: StudyRecord) -> Iterator[str]:
    """The looks planned and made, and what the former mean for the number of trials."""
    looks = record.every_look
    if not str(looks):
        return
    ahead = looks.are_several and looks.last < looks.pairs
    yield f"{looks}{'; an arm that one decides trains no more' if ahead else ''}"


def searches_in_words(plan: Plan) -> Iterator[str]:
    """How arms are tuned, and what searches leave alone."""
    if not plan.searches:
        return
    words, of_models = plan.searches[0].words, bool(plan.searches[0].parents)
    options = [f"{name}={value}" for name, value in words.options.items()]
    how = "synchronous" if words.synchronous else "asynchronous"
    tuned = "The evaluation of each finished model" if of_models else "Each arm"
    then = (
        "on validation; only the best reads the test split, once."
        if of_models
        else "and its best is confirmed on seeds that the search never used."
    )
    yield (
        f"{tuned} is tuned first: {counted(1 if of_models else words.repeats, 'search')} of "
        f"{words.trials} trials over {_space_name(words.space)} "
        f"({', '.join([words.sampler, *options, how])}, early stopping: {_stopping(words)}), {then}"
    )
    yield from _inherited(plan)


def notes_of_record(plan: Plan) -> Sequence[str]:
    """The notes of the scale, and of what searches leave alone."""
    return plan.record.notes[len(plan.study.design.notes) + bool(plan.scale.ladder) :]


def finds(plan: Plan, store: Store) -> Iterator[str]:
    """Which difference the planned pairs find, and what early stopping would lose."""
    record, where = plan.record, plan.study.file or plan.study.name
    stated = size_on_scale("spread", plan.scale.spread, record.metric, where)
    sentences = [foreseen(record, store, stated)]
    if any(search.words.early_stopping and not search.parents for search in plan.searches):
        sentences.append(crossing.warning(record, store))
    yield from filter(None, sentences)


def _stopping(words: Search) -> str:
    """How trials that fall behind are stopped."""
    if words.early_stopping is None:
        return "no"
    start = f" from epoch {words.min_epochs} on" if words.min_epochs > 1 else ""
    return f"{words.early_stopping}, one in {REDUCTION} continues{start}"


def _space_name(space: str | Mapping[str, Any]) -> str:
    """The name of a space, or the rows of one that the study's file has."""
    return space if isinstance(space, str) else f"the study's own space of {', '.join(space)}"


def _inherited(plan: Plan) -> Iterator[str]:
    """Describe which arms start from another's winner, and what they search."""
    words = {search.arm: search.inherits for search in plan.searches if search.inherits}
    for arm, word in words.items():
        rows = ", ".join(f"'{row}'" for row in word.over)
        yield f"{arm} starts from the best of the search of {word.arm}, and searches only {rows}."
