"""The classes that study files are written with; `Study` itself is in `ablate/study/study.py`.

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

Values are flat (`"slot.field": value`, see `ablate/config/resolve.py`), and later ones win: the
base recipe's for the corpus, the scale's `changes`, the arm's, those of the scale's `adapt`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablate.config import fields
from ablate.config.fields import setting
from ablate.errors import StudyError, wrong_value

Values = Mapping[str, Any]
Factors = Mapping[str, Mapping[str, Values]]  # factor -> level -> changes


class Word:
    """Fields are checked on construction, so that an error has the line of the study file."""

    def __post_init__(self) -> None:
        fields.check(self, StudyError)


@dataclass(frozen=True)
class Inherit(Word):
    """Tuning of an arm that starts from another arm's winner.

    Its search begins when the other arm's search has finished, takes its winning values (except
    those that the arm sets itself), and searches only the rows of `over`.
    """

    arm: str  # the arm whose winner, of the same repeat, it starts from
    over: Sequence[str] = setting(doc="names of the space's rows to search")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.over:
            expected = "the name of at least one row of the space"
            raise StudyError(wrong_value("over", self.over, expected, "Inherit"))


@dataclass(frozen=True, kw_only=True)
class Search(Word):
    """How each arm is tuned before it is confirmed, with the same budget for every arm.

    A synchronous search runs `batch` trials at a time and waits for all of them; it repeats
    exactly. An asynchronous one keeps every worker busy; its suggestions depend on timing.
    """

    space: str
    trials: int = setting(doc="maximum number of trials per arm", low=1)
    sampler: str = setting("tpe", doc="how to suggest values: `ablate components sampler`")
    options: Values = field(default_factory=dict)  # of the sampler
    early_stopping: str | None = setting(
        None, doc="how to stop unpromising trials", choices=(None, "asha", "hyperband")
    )
    synchronous: bool = False
    batch: int = setting(4, doc="trials per batch of a synchronous search", low=1, high=1000)
    repeats: int = setting(1, doc="number of independent searches, each with its own seed", low=1)
    changes: Values = field(default_factory=dict)  # for the search's trials, such as fewer epochs
    rows: Values = field(default_factory=dict)  # rows of the space, by name, to fix
    inherit: Mapping[str, Inherit] = field(default_factory=dict)  # by arm
    also: Sequence[str] = ()  # fields that an arm sets, to be searched in the other arms too

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.synchronous and self.early_stopping:
            raise StudyError(
                "a synchronous search repeats exactly, and stopping trials early would make it "
                "depend on timing. Instead: leave out either synchronous or early_stopping."
            )


@dataclass(frozen=True)
class Stage(Word):
    """A step after training, with changes to each arm's values.

    A stage continues training from the weights before it (fine-tuning; a gate over a frozen base),
    or only evaluates them with `changes` to `evaluator.*`; a search then tunes the evaluation of
    each finished model, on validation. With over="seeds", a stage joins all seeds of an arm: it
    evaluates their mean probability, or trains one gate for all of them.
    """

    name: str
    changes: Values = field(default_factory=dict)
    kind: str = setting("train", doc="what the stage does", choices=("train", "evaluate"))
    over: str = setting(
        "seed", doc="once for each seed, or for all seeds together", choices=("seed", "seeds")
    )
    search: Search | None = None  # of how to evaluate

    @property
    def trains(self) -> bool:
        """Return whether the stage trains, and does not only evaluate."""
        return self.kind == "train"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name.strip():
            raise StudyError(wrong_value("name", self.name, "a name", "Stage"))
        if self.search and (self.kind, self.over) != ("evaluate", "seed"):
            raise StudyError(
                f"stage '{self.name}': a search in a stage tunes the evaluation of a finished "
                'model. Instead: use kind="evaluate" and over="seed".'
            )
        if self.search and self.search.inherit:
            raise StudyError(
                f"stage '{self.name}': a search in a stage tunes one finished model and cannot "
                "inherit from an arm. Instead: use inherit= in a scale's search."
            )


@dataclass(frozen=True)
class Arm(Word):
    """One variant: a name and its changes.

    `published` is its cell in the paper's table: model and variant, spelled as in `ablate/papers`;
    and the corpus, for a task that has none of its own.
    """

    name: str
    changes: Values = field(default_factory=dict)
    recipe: str | None = None  # replaces the study's base; "name:column" for one column of it
    stages: Mapping[str, Values] = field(default_factory=dict)  # by stage: further changes
    then: tuple[Stage, ...] = ()  # stages of only this arm, after the scale's
    published: tuple[str, str] | tuple[str, str, str] | None = None
    levels: Mapping[str, str] = field(default_factory=dict)  # by factor of the design
    against: str | None = None  # the arm to compare it with, if not the base arm
    rows: Values = field(default_factory=dict, kw_only=True)  # rows of its recipe, by name, to fix
    # Its names in the study's other tables, where they differ.
    also_published: tuple[tuple[str, str] | tuple[str, str, str], ...] = field(
        default=(), kw_only=True
    )


@dataclass(frozen=True)
class Design(Word):
    """The arms that answer the question."""

    kind: str
    arms: tuple[Arm, ...]
    notes: tuple[str, ...] = ()  # printed below its tables


@dataclass(frozen=True)
class Analyze(Word):
    """An analysis of arms' finished models (`ablate analyze`), made when the study ends.

    It reads each arm's last model of the first seed, and the study's page shows what it found. An
    analysis of one trial is made of every arm; one of several trials, of all arms together. If
    the paper's figure or table has several models, the arms are in its order.
    """

    analysis: str
    arms: Sequence[str]
    options: Values = field(default_factory=dict, kw_only=True)
    published: Values = field(default_factory=dict, kw_only=True)  # further, at published scales
    shows: str = field(default="", kw_only=True)  # the paper's figure, or its table of words

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.arms:
            raise StudyError(wrong_value("arms", self.arms, "the name of an arm", "Analyze"))


def recipe(name: str, column: str | None = None) -> dict[str, Any]:
    """Return the values of a recipe, for the changes of a scale or a stage."""
    from ablate.space import space

    table = space.load(name)
    return table.values() if column is None else table.at(column).values()


@dataclass(frozen=True, kw_only=True)
class Budget(Word):
    """What a study may spend, restarts included. None: no limit."""

    trials: int | None = setting(None, doc="number of trials to start", low=1)
    epochs: int | None = setting(None, doc="epochs over all trials", low=1)
    hours: float | None = setting(None, doc="wall-clock hours", low=0)
    gpu_hours: float | None = setting(None, doc="GPU-hours over all trials", low=0)
    gpu_hours_per_trial: float = setting(
        1.0, doc="GPU-hours reserved when a trial starts, corrected when it ends", low=0
    )


@dataclass(frozen=True, kw_only=True)
class Scale(Word):
    """The size at which a study is run. Results at different scales are never compared.

    Seeds count from `first_seed`. If settings were chosen by looking at some seeds, a study should
    start after those.
    """

    corpus: str = "grammar"
    column: str | None = None  # of the base recipe, if it has no column for the corpus
    seeds: int = setting(5, doc="trials per arm, paired across arms", low=1)
    first_seed: int = setting(1, doc="number of the first seed", low=1)
    changes: Values = field(default_factory=dict)
    adapt: Callable[[dict[str, Any]], Values] | None = None  # final changes to an arm's values
    stages: tuple[Stage, ...] = ()
    ensemble: bool = False  # also evaluate each arm's seeds together, by mean probability
    search: Search | None = None
    budget: Budget = field(default_factory=Budget)
    threads: int = setting(1, doc="CPU threads per trial", low=1, high=1024)
    gpus: float = setting(0.0, doc="GPUs per trial; trials with a fraction share one", low=0)
    precision: str = setting(
        "float32", doc="precision of matrix products in training", choices=("float32", "bfloat16")
    )
    published: bool = False  # results may stand next to the paper's numbers
    # Why the numbers that stand next to published ones are not comparable with them, or a function
    # that says so of an arm from its values ("": they are).
    not_comparable: str | Callable[[dict[str, Any]], str] = ""
    note: str = ""  # what readers of its tables must know
    arms: Sequence[str] | None = None  # the arms of this scale, if not all
    stage_changes: Mapping[str, Values] = field(default_factory=dict)  # by stage, also arms' own
    brief: bool = False  # shorten every trial, as its kind of task says (see `smoke`)
    smoke: bool = False  # it only shows that everything runs: its numbers mean nothing
