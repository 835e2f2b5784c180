"""The words a study file is written in.

    from ablate import Arm, Scale, Stage, Study, table

    study = Study(
        question="From which layers should the mixture's distributions come?",
        paper="takase2018doc",
        tables=("Table 3",),
        base="takase2018doc_table2",
        design=table(Arm("15,0,0,0", {"head.experts": (15, 0, 0, 0)}), ...),
        base_arm="15,0,0,0",
        scales={"laptop": Scale(corpus="grammar", seeds=5), "paper": Scale(corpus="ptb", seeds=1)},
    )

Values are flat (`"slot.field": value`, see `ablate/config.py`) and later ones win: the base
recipe's for the corpus, the scale's `changes`, the arm's, the scale's `adapt`.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ablate import fields
from ablate.errors import StudyError, unknown, wrong_value
from ablate.fields import setting

Values = Mapping[str, Any]
Factors = Mapping[str, Mapping[str, Values]]  # factor -> level -> changes
STAGES = ("train", "search", "ensemble")  # names that a study's own stages cannot have


class Word:
    """Its fields are checked when it is written, so that an error has the line in the file."""

    def __post_init__(self) -> None:
        fields.check(self, StudyError)


@dataclass(frozen=True, kw_only=True)
class Search(Word):
    """How each arm is tuned before it is confirmed: the same budget for every arm.

    A synchronous search asks for `batch` trials at a time and waits for all of them; it repeats
    exactly. An asynchronous one keeps every worker busy; its suggestions depend on timing.
    """

    space: str
    trials: int = setting(doc="how many each arm may ask for", low=1)
    tokens: int | None = setting(None, doc="stop asking once so many were trained on", low=1)
    sampler: str = setting("tpe", doc="who suggests", choices=("tpe", "random"))
    early_stopping: str | None = setting(None, doc="or none", choices=(None, "asha", "hyperband"))
    synchronous: bool = False
    batch: int = setting(4, doc="trials that a synchronous search asks for at once", low=1)
    repeats: int = setting(1, doc="whole searches, each with a fresh search seed", low=1)
    changes: Values = field(default_factory=dict)  # for the search's trials: fewer epochs, say

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.synchronous and self.early_stopping:
            raise StudyError(
                "a synchronous search repeats exactly, and stopping trials early would make it "
                "depend on timing. Leave out one of synchronous and early_stopping."
            )


@dataclass(frozen=True)
class Stage(Word):
    """Something done after training, on what came before: each arm's values with these changes.

    A stage trains on from the weights before it (fine-tuning; a gate over a frozen base), or only
    evaluates them, as `changes` to `evaluator.*` say; a search then finds how to evaluate each
    finished model, on validation. Over "seeds", an arm's seeds are taken together: judged by their
    mean probability, or given one gate that is trained for all of them.
    """

    name: str
    changes: Values = field(default_factory=dict)
    kind: str = setting("train", doc="what is done", choices=("train", "evaluate"))
    over: str = setting("seed", doc="each by itself, or all together", choices=("seed", "seeds"))
    search: Search | None = None  # over how to evaluate

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.search and (self.kind, self.over) != ("evaluate", "seed"):
            raise StudyError(
                f"stage '{self.name}': a search in a stage looks for how to evaluate a finished "
                'model. Allowed: kind="evaluate", over="seed".'
            )


@dataclass(frozen=True)
class Arm(Word):
    """One variant: a name, and what it changes. `published` finds its cell in the paper's table."""

    name: str
    changes: Values = field(default_factory=dict)
    recipe: str | None = None  # another base than the study's; "name:column" for one column of it
    stages: Mapping[str, Values] = field(default_factory=dict)  # further changes in a stage
    then: tuple[Stage, ...] = ()  # stages of this arm alone, after the scale's
    published: tuple[str, str] | None = None  # model and variant, as `ablate/papers` spells them
    levels: Mapping[str, str] = field(default_factory=dict)  # of a design's factors
    against: str | None = None  # the arm it is compared with, if another than the base arm
    rows: Values = field(default_factory=dict, kw_only=True)  # of its recipe that it settles, named


@dataclass(frozen=True)
class Design(Word):
    """Which arms answer the question."""

    kind: str
    arms: tuple[Arm, ...]
    notes: tuple[str, ...] = ()  # what a reader of its table must know


def recipe(name: str, column: str | None = None) -> dict[str, Any]:
    """What a recipe settles, to be part of the changes of a scale or of a stage."""
    from ablate import space

    return space.load(name).values(column)


def table(*arms: Arm) -> Design:
    """The arms as listed."""
    return Design("table", arms)


def one_at_a_time(factors: Factors, *, base: str = "base") -> Design:
    """The base, and every level of every factor changed alone."""
    fields.check_value(factors, Factors, "factors", StudyError, "one_at_a_time")
    changed = [
        Arm(f"{factor}: {level}", changes, levels={factor: level})
        for factor, levels in factors.items()
        for level, changes in levels.items()
    ]
    return Design("one_at_a_time", (Arm(base), *changed))


def leave_one_out(removed: Mapping[str, Values], *, full: str = "everything") -> Design:
    """The base with everything in it, and each thing removed: by what changes stand in for it."""
    fields.check_value(removed, Mapping[str, Values], "removed", StudyError, "leave_one_out")
    arms = [
        Arm(f"without {name}", changes, levels={name: "off"}) for name, changes in removed.items()
    ]
    return Design("leave_one_out", (Arm(full), *arms))


def factorial(factors: Factors) -> Design:
    """Every combination of the factors' levels."""
    fields.check_value(factors, Factors, "factors", StudyError, "factorial")
    _check_apart(factors)
    crossed = itertools.product(*(factor for factor in factors.values()))
    chosen = (dict(zip(factors, levels, strict=True)) for levels in crossed)
    return Design("factorial", tuple(_combination(factors, levels) for levels in chosen))


def _combination(factors: Factors, levels: Mapping[str, str]) -> Arm:
    changes: dict[str, Any] = {}
    for factor, level in levels.items():
        changes |= factors[factor][level]
    return Arm(", ".join(f"{k} {v}" for k, v in levels.items()), changes, levels=levels)


def fractional_factorial(factors: Factors, generators: Mapping[str, Sequence[str]]) -> Design:
    """A part of a two-level factorial: `{"D": ("A", "B")}` sets D's level by those of A and B.

    What it cannot tell apart (its aliases) is said under its table.
    """
    what = "fractional_factorial"
    fields.check_value(factors, Factors, "factors", StudyError, what)
    fields.check_value(generators, Mapping[str, Sequence[str]], "generators", StudyError, what)
    _check_apart(factors)
    free = [factor for factor in factors if factor not in generators]
    for made, by in generators.items():
        for name, allowed in ((made, factors), *((name, free) for name in by)):
            if name not in allowed:
                raise StudyError(unknown("factor", name, allowed, what))
    for factor, levels in factors.items():
        if len(levels) != 2:
            raise StudyError(
                wrong_value("levels", list(levels), "two of them", f"{what}: {factor}")
            )
    signs = (
        dict(zip(free, row, strict=True)) for row in itertools.product((-1, 1), repeat=len(free))
    )
    arms = []
    for row in signs:
        row |= {made: math.prod(row[factor] for factor in by) for made, by in generators.items()}
        arms.append(_combination(factors, {f: [*factors[f]][row[f] > 0] for f in factors}))
    return Design(what, tuple(arms), _aliases(list(factors), generators))


def _aliases(factors: list[str], generators: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Which main effects and interactions of two factors are one number in such a design."""
    words = [frozenset({made, *by}) for made, by in generators.items()]
    group = {frozenset()}
    for word in words:
        group |= {word ^ other for other in group}
    effects = [frozenset(e) for n in (1, 2) for e in itertools.combinations(factors, n)]
    classes: dict[frozenset, list[str]] = {}
    for effect in effects:
        key = frozenset(effect ^ word for word in group)
        classes.setdefault(key, []).append(" x ".join(sorted(effect, key=factors.index)))
    return tuple(
        f"not told apart: {' = '.join(names)}" for names in classes.values() if len(names) > 1
    )


def path(steps: Mapping[str, Values], *, start: str = "start") -> Design:
    """From the base to another configuration, a step at a time; each arm has all steps before it.

    Every arm is trained, and compared with the one before: what that step bought.
    """
    fields.check_value(steps, Mapping[str, Values], "steps", StudyError, "path")
    arms, changes = [Arm(start)], {}
    for step, change in steps.items():
        changes = {**changes, **change}
        arms.append(Arm(f"+ {step}", changes, levels={"step": step}, against=arms[-1].name))
    return Design("path", tuple(arms))


def _check_apart(factors: Factors) -> None:
    """Two factors that change one field would not be crossed: one would undo the other."""
    changed: dict[str, str] = {}
    for factor, levels in factors.items():
        for key in {key for changes in levels.values() for key in changes}:
            other = changed.setdefault(key, factor)
            if other != factor:
                raise StudyError(
                    f"factorial: the factors '{other}' and '{factor}' both change {key}. "
                    "Allowed: factors that change different fields."
                )


def grid(space: str, corpus: str | None = None, *, points: int | None = None) -> Design:
    """The base, and every combination that a search space allows (of a range, `points` values)."""
    from ablate import space as spaces

    found = spaces.load(space)
    open_rows = {row.field: row.name for row in found.open_rows(corpus)}
    arms = [Arm("base")]
    for values in found.enumerate(corpus, points=points):
        levels = {
            open_rows[name]: f"{value}" for name, value in values.items() if name in open_rows
        }
        arms.append(Arm(", ".join(f"{k} {v}" for k, v in levels.items()), values, levels=levels))
    return Design("grid", tuple(arms))


@dataclass(frozen=True, kw_only=True)
class Budget(Word):
    """What a study may spend; what is left is kept across restarts. None: no limit."""

    trials: int | None = setting(None, doc="trials begun", low=1)
    epochs: int | None = setting(None, doc="epochs of all trials", low=1)
    hours: float | None = setting(None, doc="of wall clock", low=0)
    gpu_hours: float | None = setting(None, doc="of all trials", low=0)
    gpu_hours_per_trial: float = setting(
        1.0, doc="reserved before a trial starts, replaced by what it used", low=0
    )


@dataclass(frozen=True, kw_only=True)
class Scale(Word):
    """The sizes at which a study is run. Numbers of different scales are never compared."""

    corpus: str = "grammar"
    column: str | None = None  # the base recipe's column, where it has none for the corpus
    seeds: int = setting(5, doc="trials of each arm, paired over the arms", low=1)
    changes: Values = field(default_factory=dict)
    adapt: Callable[[dict[str, Any]], Values] | None = None  # last word on an arm's values
    stages: tuple[Stage, ...] = ()
    ensemble: bool = False  # also judge each arm's seeds together, by mean probability
    search: Search | None = None
    budget: Budget = field(default_factory=Budget)
    threads: int = setting(1, doc="of one trial", low=1)
    gpus: float = setting(0.0, doc="of one trial; fractions share a GPU", low=0)
    share_gpus: bool = setting(
        False, doc="as many trials on a GPU as the largest arm's measured memory allows"
    )
    precision: str = setting(
        "float32", doc="of matrix products in training", choices=("float32", "bfloat16")
    )
    published: bool = False  # the paper's own protocol: may be set beside its numbers
    arms: Sequence[str] | None = None  # only these, where a scale leaves some out
    stage_changes: Mapping[str, Values] = field(default_factory=dict)  # by stage, arms' own too


def smaller(
    *, strengths: float = 1, experts: int = 1, but: Sequence[str] = ("mixture_balance",)
) -> Callable[[dict[str, Any]], Values]:
    """A scale's `adapt` for smaller models: the strengths of all regularizers `but` those divided,
    and so the numbers of a mixture's distributions (rounded up)."""

    def divided(values: dict[str, Any]) -> Values:
        changes: dict[str, Any] = {
            key: value / strengths
            for key, value in values.items()
            if key.startswith("regularizer.") and key.split(".")[1] not in but
            if type(value) in (int, float)
        }
        match values.get("head.experts"):
            case int(count):
                changes["head.experts"] = -(-count // experts)
            case list() | tuple() as counts:
                changes["head.experts"] = tuple(-(-count // experts) for count in counts)
        return changes

    return divided


def smoke(scale: Scale, **words: Any) -> Scale:
    """The scale within seconds, to see that everything runs; its numbers mean nothing."""
    slices: Values = {"corpus.train_tokens": 800, "corpus.eval_tokens": 150}
    brief: Values = {"training.epochs": 1}
    search = scale.search and replace(scale.search, trials=2, repeats=1, changes=brief)
    stages = tuple(
        replace(stage, changes={**stage.changes, **brief}) if stage.kind == "train" else stage
        for stage in scale.stages
    )
    changes = {**scale.changes, **slices, **brief}
    words = {"seeds": min(scale.seeds, 2), "changes": changes, **words}
    return replace(scale, stages=stages, search=search, **words)


@dataclass(frozen=True, kw_only=True)
class Study(Word):
    """A question, and the design that answers it."""

    question: str
    design: Design
    scales: Mapping[str, Scale]
    base: str | Values
    base_arm: str
    paper: str = ""
    tables: tuple[str, ...] = ()
    techniques: tuple[str, ...] = ()  # files beside the study that register its own techniques
    runner: str | None = None  # another `Task` than training (see ablate/train/task.py)
    name: str = ""  # the file's, where none is given
    file: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self)

    def scale(self, name: str | None) -> tuple[str, Scale]:
        """The scale of that name; the first one where none is named."""
        chosen = name or next(iter(self.scales))
        if chosen not in self.scales:
            raise StudyError(unknown("scale", chosen, self.scales, self.file))
        return chosen, self.scales[chosen]


def check(study: Study) -> None:
    """Refuse a study that contradicts itself, before anything is planned."""
    _check_key("name", study.name or "study")
    if not study.scales:
        raise StudyError("a study needs at least one scale.")
    names = [arm.name for arm in study.design.arms]
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise StudyError(f"two arms are called '{twice}'. Allowed: each name once.")
    if study.base_arm not in names:
        raise StudyError(unknown("base_arm", study.base_arm, names))
    for arm in study.design.arms:
        if arm.against is not None and arm.against not in names:
            raise StudyError(unknown("against", arm.against, names, f"arm '{arm.name}'"))
    _check_runner(study.runner)
    for name, scale in study.scales.items():
        _check_key("scale", name)
        _check_scale(scale, names, f"scale '{name}'")
    stages = list(dict.fromkeys(s.name for scale in study.scales.values() for s in scale.stages))
    everywhere = [*stages, *(stage.name for arm in study.design.arms for stage in arm.then)]
    for name, scale in study.scales.items():
        for stage in scale.stage_changes:
            if stage not in everywhere:
                raise StudyError(unknown("stage", stage, everywhere, f"scale '{name}'"))
    for arm in study.design.arms:
        for stage in arm.stages:
            if stage not in stages:
                raise StudyError(unknown("stage", stage, stages, f"arm '{arm.name}'"))
        for scale in study.scales.values():
            _check_stages((*scale.stages, *arm.then), f"arm '{arm.name}'")


def _check_scale(scale: Scale, arms: Sequence[str], place: str) -> None:
    for arm in scale.arms or ():
        if arm not in arms:
            raise StudyError(unknown("arm", arm, arms, place))
    if scale.share_gpus and scale.gpus != 1:
        raise StudyError(
            f"{place}: share_gpus measures how many trials share one GPU, and gpus = "
            f"{scale.gpus:g}. Allowed: gpus=1, or no share_gpus."
        )
    _check_stages(scale.stages, place)


def _check_stages(stages: Sequence[Stage], place: str) -> None:
    """Names of their own; nothing goes on from a judgement, or from seeds taken together."""
    names = [*STAGES, *(stage.name for stage in stages)]
    for stage in stages:
        if names.count(stage.name) > 1:
            allowed = f"a name of its own, and none of {', '.join(STAGES)}"
            raise StudyError(wrong_value("stage", stage.name, allowed, place))
    for stage in stages[:-1]:
        if stage.kind == "evaluate" or stage.over == "seeds":
            raise StudyError(
                f"{place}: stage '{stage.name}' leaves nothing to train on from. Allowed: last."
            )


def _check_key(word: str, name: str) -> None:
    """Studies and scales make the name of a folder, `name@scale`."""
    if not re.fullmatch(r"[^./\\@\s\x00-\x1f][^/\\@\x00-\x1f]*", name):
        allowed = "text without / \\ @, and no . or space at its beginning"
        raise StudyError(wrong_value(word, name, allowed))


def _check_runner(runner: str | None) -> None:
    """A runner is looked for now; whether it runs is seen when it does."""
    if runner is None:
        return
    module, _, attribute = runner.partition(":")
    try:
        found = importlib.util.find_spec(module) if attribute else None
    except (ImportError, ValueError):
        found = None
    if found is None:
        allowed = "'module:Task', a class of a module that can be imported"
        raise StudyError(wrong_value("runner", runner, allowed))
