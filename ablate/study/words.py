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
from ablate.config.fields import limited
from ablate.config.identity import OFF
from ablate.errors import StudyError, wrong_value
from ablate.results.check_looks import check_looks
from ablate.results.sizes import check_size

Values = Mapping[str, Any]
Factors = Mapping[str, Mapping[str, Values]]  # factor -> level -> changes


# Word -> two of its fields that exclude each other -> why.
EXCLUSIVE: Mapping[str, Mapping[tuple[str, str], str]] = {
    "Search": {
        ("synchronous", "early_stopping"): "a synchronous search repeats exactly, and stopping "
        "trials early depends on timing",
    },
    "Scale": {
        ("corpora", "ladder"): "one table is over corpora or over sizes; a scale for each corpus "
        "may have the ladder",
        ("ensemble", "looks"): "an ensemble needs every seed of an arm, and an arm that a look "
        "decides trains no more",
        ("looks", "search"): "these looks count seeds, and arms that are tuned are compared over "
        "searches, which looks= in Search counts",
        ("search", "settings_of"): "a scale searches, or takes settings over",
        ("search", "searched"): "searched is for settings of a search that is not on record",
        ("searched", "settings_of"): "searched is for settings of a search that is not on record",
    },
}


class Word:
    """Fields are checked on construction, so that an error has the line of the study file."""

    def __post_init__(self) -> None:
        fields.check(self, StudyError)
        word = type(self).__name__
        for (one, other), why in EXCLUSIVE.get(word, {}).items():
            if getattr(self, one) and getattr(self, other):
                raise StudyError(
                    f"{word}: {one} and {other} exclude each other: {why}. Instead: leave out "
                    f"either {one} or {other}."
                )


@dataclass(frozen=True)
class Inherit(Word):
    """Tuning of an arm that starts from another arm's winner.

    The search begins when the other arm's search has finished, takes its winning values (except
    those that the arm or the scale sets), and searches only the rows named in `over`.

    Args:
        arm: The arm whose winner the search starts from. The second search of this arm starts from
            the second winner of that one, and so on.
        over: Names of the search space's rows to search.
    """

    arm: str
    over: Sequence[str] = limited()

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

    Args:
        space: The name of a search space, as `ablate show spaces` lists them, the path of its
            file, or its rows:
            `{"Learning rate": {"field": "optimizer.learning_rate", "range": [0.1, 9]}}`.
        trials: Maximum number of trials per arm and search.
        sampler: How values are suggested: `"tpe"`, `"random"`, or one of your own.
        options: Options of the sampler, as `ablate show components sampler tpe` lists them:
            `{"n_startup_trials": 20}`.
        early_stopping: Stop trials that fall behind, by `"asha"` or `"hyperband"`.
        min_epochs: The first epoch at which early stopping may stop a trial, of which one in three
            continues; its next steps are three times as late each. Raise it where curves cross.
        synchronous: Wait for each batch of trials, so that the search repeats exactly.
        batch: Trials per batch of a synchronous search.
        repeats: Independent searches per arm, each with a seed of its own. A verdict needs three.
        looks: Numbers of searches after which arms are compared, if not only at the end:
            `(3, 5, 8)` with `repeats=8`. An arm that is decided is searched no more.
        first_seed: Number of the first search, which seeds its sampler.
        changes: Values for the search's trials alone, such as fewer epochs.
        rows: Rows of the space to fix, by name.
        inherit: Arms whose search starts from another arm's winner:
            `{"arm": Inherit("other", over=["row"])}`.
        listed_first: The first trial of each search has the settings that the arm has without a
            search. A row whose listed value is outside the space is suggested as ever.
    """

    space: str | Mapping[str, Values]
    trials: int = limited(low=1)
    sampler: str = "tpe"
    options: Values = field(default_factory=dict)
    early_stopping: str | None = limited(None, choices=(None, "asha", "hyperband"))
    min_epochs: int = limited(1, low=1)
    synchronous: bool = False
    batch: int = limited(4, low=1, high=1000)
    repeats: int = limited(1, low=1)
    looks: tuple[int, ...] = ()
    first_seed: int = limited(1, low=1)
    changes: Values = field(default_factory=dict)
    rows: Values = field(default_factory=dict)
    inherit: Mapping[str, Inherit] = field(default_factory=dict)
    listed_first: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.early_stopping and self.min_epochs > 1:
            raise StudyError(
                "min_epochs is of early stopping, which this search lacks. Instead: leave it out, "
                'or add early_stopping="asha".'
            )
        check_looks(self.looks, self.repeats, "repeats", "Search")


@dataclass(frozen=True)
class Stage(Word):
    """A step after training, with changes to each arm's values.

    A stage continues training from the weights before it (fine-tuning; a gate over a frozen base),
    or only evaluates them with `changes` to `evaluator.*`.

    Args:
        name: What the stage is called; not `train`, `search`, `ensemble` or `measure`.
        changes: Values that this stage changes.
        kind: `"train"`, or `"evaluate"`, which trains nothing.
        over: `"seed"`: once for each seed. `"seeds"`: once for all seeds of an arm together, to
            evaluate their mean probability or to train one gate for all of them.
        search: A search for how to evaluate each finished model, judged on validation.
    """

    name: str
    changes: Values = field(default_factory=dict)
    kind: str = limited("train", choices=("train", "evaluate"))
    over: str = limited("seed", choices=("seed", "seeds"))
    search: Search | None = None

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
        if self.search and self.search.looks:
            raise StudyError(
                f"stage '{self.name}': a search in a stage tunes one finished model, and arms are "
                "compared over seeds. Instead: use looks= in the scale."
            )


@dataclass(frozen=True)
class Arm(Word):
    """One variant: a name and its changes.

    Args:
        name: What tables call the arm.
        changes: Values in which the arm differs from the study's base.
        recipe: A recipe's name, `"name"` or `"name:column"`, that replaces the base.
        stages: Further changes by stage: `{"finetune": {...}}`.
        then: Stages of this arm alone, after the scale's.
        published: Its names in the paper's table: model and variant, spelled as
            `ablate table papers` prints them, and the corpus if its task has none.
        levels: Its level of each factor. Designs fill this in.
        against: The arm that it is compared with, if not the study's `base_arm`.
        rows: Rows of its recipe to fix, by name: `{"Dropout": 0.2}`.
        also_published: Its names in the study's other tables, where they differ.
    """

    name: str
    changes: Values = field(default_factory=dict)
    recipe: str | None = None
    stages: Mapping[str, Values] = field(default_factory=dict)
    then: tuple[Stage, ...] = ()
    published: tuple[str, str] | tuple[str, str, str] | None = None
    levels: Mapping[str, str] = field(default_factory=dict)
    against: str | None = None
    rows: Values = field(default_factory=dict, kw_only=True)
    also_published: tuple[tuple[str, str] | tuple[str, str, str], ...] = field(
        default=(), kw_only=True
    )


@dataclass(frozen=True)
class Design(Word):
    """The arms that answer the question; functions such as `factorial` make one.

    Args:
        kind: A word for the study's record: `"table"`, `"factorial"`, or your own.
        arms: The arms, in the order of the table's rows.
        notes: Sentences to print below the study's tables.
    """

    kind: str
    arms: tuple[Arm, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Analyze(Word):
    """An analysis of arms' finished models, made when the study ends.

    The analysis reads each arm's last model of the first seed, and the page of `ablate report`
    shows what it found. An analysis of one trial is made of every arm; one of several trials, of
    all arms together.

    Args:
        analysis: The name of the analysis, as `ablate trial analyze` lists them.
        arms: The arms whose models are read. If the paper's figure or table has several models,
            name the arms in its order.
        options: Options of the analysis.
        published: Further options, for scales with the paper's own protocol.
        shows: The paper's figure, or its table of words, to be shown next to the result.
    """

    analysis: str
    arms: Sequence[str]
    options: Values = field(default_factory=dict, kw_only=True)
    published: Values = field(default_factory=dict, kw_only=True)
    shows: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.arms:
            raise StudyError(wrong_value("arms", self.arms, "the name of an arm", "Analyze"))


def recipe(name: str, column: str | None = None) -> dict[str, Any]:
    """Return the values of a recipe, for the changes of a scale or a stage.

    Args:
        name: The recipe's name, as `ablate show spaces` lists them.
        column: The column to read, if the recipe has several.
    """
    from ablate.space import space

    table = space.load(name)
    return table.values() if column is None else table.at(column).values()


@dataclass(frozen=True)
class Ladder(Word):
    """Sizes at which every arm is trained: does what helps a small model help a larger one, too?

    The study is run on each rung, as the scales `laptop.16`, `laptop.24` and so on. One table is
    over all of them: the gain on each rung, how much more compute the base needs to get where an
    arm is, and how this changes with compute.

    Args:
        sizes: Fields that all arms have, with a value for each of four rungs or more, from the
            smallest to the largest: `{"backbone.units": (16, 24, 32, 48)}`. Rungs are called by the
            values of the first field. Further fields rise with it, or follow it:
            `"optimizer.learning_rate": (20, 14, 10, 7)`.
        transfer: A function of an arm's values (a dictionary, with the rung's own). The changes
            that it returns win over all others, settings that a search found included:
            `lambda values: {"optimizer.learning_rate": 320 / values["backbone.units"]}`.
        rule: What `transfer` does, in words: `"the learning rate falls with the width"`.
        compute: A function of an arm's values that returns the floating point operations of a
            seed's training, for a task of your own. Those of language models are counted.
    """

    sizes: Mapping[str, Sequence[Any]]
    transfer: Callable[[dict[str, Any]], Values] | None = field(default=None, kw_only=True)
    rule: str = field(default="", kw_only=True)
    compute: Callable[[dict[str, Any]], float] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Scale(Word):
    """The size at which a study is run. Results at different scales are never compared.

    Args:
        corpus: The corpus, for trials that read one; also the column of recipes and search spaces
            that have columns.
        corpora: Several corpora, `("ptb", "wikitext-2", "grammar")`: the study is run on each, as
            the scales `laptop.ptb`, `laptop.wikitext-2` ..., and one table has a row for each arm
            on each corpus. From three corpora on, it also has rows over all of them, with verdicts.
        ladder: Sizes at which the study is run, as a `Ladder`: one table says how each arm's gain
            goes on with compute.
        column: The column to read instead, if there is none for the corpus.
        seeds: Trials per arm, paired across arms.
        spread: The standard deviation of the arms' differences, if it is known: `"2%"`, or a number
            on the metric's scale. `ablate plan` says which differences the seeds then find.
        first_seed: Number of the first seed. If settings were chosen by looking at some seeds,
            start after those.
        looks: Numbers of seeds after which arms are compared, if not only at the end: `(5, 8, 12)`
            with `seeds=12`. An arm that is decided trains no more seeds.
        changes: Values that replace the base's; the arm's own replace these.
        adapt: A function of an arm's values (a dictionary, with the arm's own). The changes that it
            returns win over all others.
        stages: Further stages after training, each a `Stage`.
        ensemble: Also evaluate each arm's seeds together, by their mean probability.
        search: Tune each arm, and confirm its winners on `seeds` fresh seeds.
        hours: Hours by the clock that the study may take at this scale, restarts included.
        threads: CPU threads per trial.
        gpus: GPUs per trial, or a fraction of one.
        precision: Precision of the matrix products of training, `"float32"` or `"bfloat16"`.
        compile: `"inductor"`: torch compiles training. If that fails, or computes something else in
            a trial's first update, the trial trains as without it, and a note says why.
        published: Results may stand next to the paper's numbers: the scale follows the paper's
            protocol, or one close to it.
        not_comparable: Why results are not comparable with the numbers that they stand next to:
            text, or a function of an arm's values that returns text (`""`: they are comparable).
        note: What readers of the scale's tables must know, printed below them: how settings were
            chosen, where the protocol is not the paper's.
        arms: Names of the arms of this scale, if not all. The base arm is always one of them.
        stage_changes: Changes by stage, stages of single arms included: `{"gate": {...}}`.
        brief: Shorten every trial, as its kind of task says. `smoke` sets it.
        smoke: The scale only shows that everything runs, so `ablate table compare --except`
            leaves its trials out. `smoke` sets it.
        settings_of: Another scale of the study, finished before. Each arm takes the settings that
            its searches there found, once for each search, on `seeds` seeds each. The rule of
            searches holds: below three of them, there is no verdict.
        searched: The listed settings are what a search found that is not on record. Its luck is in
            all seeds, so there is no verdict.
        changed: What the command line changed of this scale. `ablate study` sets it.
        one_of: The scale of several corpora or rungs of which this is one. `ablate study` sets it.
        rung: The rung of the ladder that this is. `ablate study` sets it.
    """

    corpus: str = "grammar"
    corpora: Sequence[str] = ()
    ladder: Ladder | None = None
    column: str | None = None
    seeds: int = limited(5, low=1)
    spread: str | float | None = None
    first_seed: int = limited(1, low=1)
    looks: tuple[int, ...] = ()
    changes: Values = field(default_factory=dict)
    adapt: Callable[[dict[str, Any]], Values] | None = None
    stages: tuple[Stage, ...] = ()
    ensemble: bool = False
    search: Search | None = None
    hours: float | None = limited(None, low=0)
    threads: int = limited(1, low=1, high=1024)
    gpus: float = limited(0.0, low=0)
    precision: str = limited("float32", choices=("float32", "bfloat16"))
    compile: str = limited(OFF, choices=(OFF, "inductor"))
    published: bool = False
    not_comparable: str | Callable[[dict[str, Any]], str] = ""
    note: str = ""
    arms: Sequence[str] | None = None
    stage_changes: Mapping[str, Values] = field(default_factory=dict)
    brief: bool = False
    smoke: bool = False
    settings_of: str = ""
    searched: bool = False
    changed: str = ""
    one_of: str = ""
    rung: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_looks(self.looks, self.seeds, "seeds", "Scale")
        joint = next((stage for stage in self.stages if stage.over == "seeds"), None)
        if self.looks[:-1] and joint:
            raise StudyError(
                f"Scale: stage '{joint.name}' needs every seed of an arm, and an arm that a look "
                "decides trains no more seeds. Instead: leave out either of the two."
            )
        check_size("spread", self.spread, "Scale")
