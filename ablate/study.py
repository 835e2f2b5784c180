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

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablate.errors import StudyError, unknown, wrong_value

Values = Mapping[str, Any]
Factors = Mapping[str, Mapping[str, Values]]  # factor -> level -> changes


@dataclass(frozen=True)
class Arm:
    """One variant: a name, and what it changes. `published` finds its cell in the paper's table."""

    name: str
    changes: Values = field(default_factory=dict)
    recipe: str | None = None  # another base than the study's, for this arm
    published: tuple[str, str] | None = None  # model and variant, as `ablate/papers` spells them
    levels: Mapping[str, str] = field(default_factory=dict)  # of a design's factors


@dataclass(frozen=True)
class Design:
    """Which arms answer the question."""

    kind: str
    arms: tuple[Arm, ...]


def table(*arms: Arm) -> Design:
    """The arms as listed."""
    return Design("table", arms)


def one_at_a_time(factors: Factors, *, base: str = "base") -> Design:
    """The base, and every level of every factor changed alone."""
    changed = [
        Arm(f"{factor}: {level}", changes, levels={factor: level})
        for factor, levels in factors.items()
        for level, changes in levels.items()
    ]
    return Design("one_at_a_time", (Arm(base), *changed))


def leave_one_out(removed: Mapping[str, Values], *, full: str = "everything") -> Design:
    """The base with everything in it, and each thing removed: by what changes stand in for it."""
    arms = [
        Arm(f"without {name}", changes, levels={name: "off"}) for name, changes in removed.items()
    ]
    return Design("leave_one_out", (Arm(full), *arms))


def factorial(factors: Factors) -> Design:
    """Every combination of the factors' levels."""
    arms = []
    for levels in itertools.product(*(factor.items() for factor in factors.values())):
        chosen = dict(zip(factors, (name for name, _ in levels), strict=True))
        changes: dict[str, Any] = {}
        for _, change in levels:
            changes |= change
        arms.append(Arm(", ".join(f"{k} {v}" for k, v in chosen.items()), changes, levels=chosen))
    return Design("factorial", tuple(arms))


@dataclass(frozen=True)
class Stage:
    """Something done after training, from its weights: each arm's values with these changes."""

    name: str
    changes: Values


@dataclass(frozen=True, kw_only=True)
class Search:
    """How each arm is tuned before it is confirmed: the same budget for every arm.

    A synchronous search asks for `batch` trials at a time and waits for all of them; it repeats
    exactly. An asynchronous one keeps every worker busy; its suggestions depend on timing.
    """

    space: str
    trials: int
    tokens: int | None = None  # stop asking once so many training tokens were spent
    sampler: str = "tpe"  # or "random"
    early_stopping: str | None = None  # "asha" or "hyperband"
    synchronous: bool = False
    batch: int = 4
    repeats: int = 1  # whole searches, each with a fresh search seed
    changes: Values = field(default_factory=dict)  # for the search's trials: fewer epochs, say


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a study may spend; what is left is kept across restarts. None: no limit."""

    trials: int | None = None
    epochs: int | None = None
    hours: float | None = None
    gpu_hours: float | None = None
    gpu_hours_per_trial: float = 1.0  # reserved before a trial starts, replaced by what it used


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The sizes at which a study is run. Numbers of different scales are never compared."""

    corpus: str = "grammar"
    column: str | None = None  # the base recipe's column, where it has none for the corpus
    seeds: int = 5
    changes: Values = field(default_factory=dict)
    adapt: Callable[[dict[str, Any]], Values] | None = None  # last word on an arm's values
    stages: tuple[Stage, ...] = ()
    ensemble: bool = False  # also judge each arm's seeds together, by mean probability
    search: Search | None = None
    budget: Budget = field(default_factory=Budget)
    threads: int = 1
    gpus: float = 0  # of one trial; fractions share a GPU
    published: bool = False  # the paper's own protocol: may be set beside its numbers
    arms: Sequence[str] | None = None  # only these, where a scale leaves some out


@dataclass(frozen=True, kw_only=True)
class Study:
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

    def scale(self, name: str | None) -> tuple[str, Scale]:
        """The scale of that name; the first one where none is named."""
        chosen = name or next(iter(self.scales))
        if chosen not in self.scales:
            raise StudyError(unknown("scale", chosen, self.scales, self.file))
        return chosen, self.scales[chosen]


def check(study: Study) -> None:
    """Refuse a study that contradicts itself, before anything is planned."""
    place = study.file or study.name
    if not study.scales:
        raise StudyError(f"{place}: a study needs at least one scale.")
    names = [arm.name for arm in study.design.arms]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise StudyError(f"{place}: two arms are called '{twice}'.")
    if study.base_arm not in names:
        raise StudyError(unknown("base_arm", study.base_arm, names, place))
    for name, scale in study.scales.items():
        _check_scale(scale, names, f"{place}: scale '{name}'")


def _check_scale(scale: Scale, arms: Sequence[str], place: str) -> None:
    if not isinstance(scale.seeds, int) or scale.seeds < 1:
        raise StudyError(wrong_value("seeds", scale.seeds, "a whole number, at least 1", place))
    if scale.threads < 1:
        raise StudyError(wrong_value("threads", scale.threads, "at least 1", place))
    for arm in scale.arms or ():
        if arm not in arms:
            raise StudyError(unknown("arm", arm, arms, place))
    search = scale.search
    if search is not None:
        _check_choice("sampler", search.sampler, ("tpe", "random"), place)
        _check_choice("early_stopping", search.early_stopping, (None, "asha", "hyperband"), place)
        if search.synchronous and search.early_stopping:
            raise StudyError(
                f"{place}: a synchronous search repeats exactly, and stopping trials early would "
                "make it depend on timing. Leave out one of synchronous and early_stopping."
            )
        if search.trials < 1:
            raise StudyError(wrong_value("search.trials", search.trials, "at least 1", place))


def _check_choice(name: str, found: Any, allowed: tuple[Any, ...], place: str) -> None:
    if found not in allowed:
        choices = [choice for choice in allowed if choice is not None]
        raise StudyError(unknown(name, found, choices, place))
