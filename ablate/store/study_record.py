"""A study's record in the store: its question, its arms, and the trials behind each cell.

Written when a study is started (`studies/<key>/study.json`) and read by everything that comes
later (status, records, tables), so that none of it needs the study's file, or torch.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ablate.config import metrics, typed
from ablate.config.metrics import BITS, PERPLEXITY, Metric
from ablate.errors import ConfigError, unknown
from ablate.store.looks import Looks
from ablate.store.replication import Replication
from ablate.store.stated import KeptPlan
from ablate.store.store import Store, damaged

PART = "."  # before the corpus or the rung, in the name of a scale that is one of several
CHANGED = "+"  # in the name of a scale that the command line changed, before a digest of how


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """A trial's role in a study. `seed_index` pairs the arms: same index, same seed."""

    id: str
    arm: str
    stage: str
    seed: int
    seed_index: int
    final: bool  # its result enters the arm's cell
    parents: tuple[str, ...] = ()
    epochs: int | None = None  # that it is planned to train; older records do not have it


@dataclass(frozen=True, kw_only=True)
class ArmRecord:
    """An arm as a table shows it.

    `published` are the paper's numbers of the metric that decides, {"valid": 60.1, "test": 58.2};
    `published_columns` those of the study's columns: {"word_vectors.distance": {"model": 0.06}}.
    """

    name: str
    num_parameters: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)  # of a design's factors
    against: str | None = None  # the arm it is compared with, if not the base arm
    together: bool = False  # all its seeds together give one result
    recipe: str = ""  # that its values start from
    published_columns: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    not_comparable: str = ""  # why its numbers are not comparable with the published ones
    # The pairs at which a look decided it, if it trains no more; older records have no looks.
    stopped_at: int | None = None
    compute: float | None = None  # operations of a seed, where the ladder says them


OR = " / "  # between rows of a space that set one field under different conditions


@dataclass(frozen=True, kw_only=True)
class SearchRecord:
    """A search of one arm: how many trials it may start, and those it has started."""

    arm: str
    repeat: int
    num_trials: int
    seed_index: int | None = None  # of the finished model whose evaluation it searches
    trials: tuple[str, ...] = ()
    chosen: str | None = None  # the winner on validation, once the search is over
    inherits: str | None = None  # the arm whose winner it starts from
    over: tuple[str, ...] = ()  # the rows that it searches after that
    key: str = ""  # its name in the searches' file
    confirming: tuple[int | None, ...] = ()  # epochs of the trials that will confirm its winner
    confirming_after: tuple[tuple[int, ...], ...] = ()  # positions of those that each builds on
    shared: bool = False  # another arm's search has the same trials
    ended: bool = False  # it starts no other trial; older records do not say so
    # Field -> the row of its space that it searches, or the rows, joined by `OR`. Empty in older
    # records.
    rows: Mapping[str, str] = field(default_factory=dict)

    @property
    def unrequested(self) -> int:
        """How many trials it may still start."""
        ended = self.ended or self.chosen is not None
        return 0 if ended else max(0, self.num_trials - len(self.trials))


@dataclass(frozen=True, kw_only=True)
class InterimLook:
    """A look at a study's results: after how many pairs, when, and at which table."""

    num: int  # of seeds, or of searches if these are paired
    first_seed: int = 1
    time: str = ""  # empty for one that was made before looks were recorded
    table: str = ""  # the hash of its contents


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """One study at one scale."""

    name: str
    scale: str
    question: str
    paper: str
    tables: tuple[str, ...]
    file: str
    command: str
    corpus: str  # its name, with the options that change its text
    corpus_digest: str
    level: str  # of the corpus, as "word" or "bpe"; "" without one
    num_seeds: int
    base_arm: str
    arms: tuple[ArmRecord, ...]
    trials: tuple[PlannedTrial, ...]
    searches: tuple[SearchRecord, ...] = ()
    design: str = "table"
    notes: tuple[str, ...] = ()
    published_scale: bool = False  # comparable with published numbers
    smoke: bool = False  # it only shows that everything runs; older records do not say so
    judged_by: Metric | None = None  # older records do not have it: nats of a language model
    columns: tuple[Metric, ...] = ()  # further metrics to show
    first_seed: int = 1  # default for older records, which do not have it
    changed: str = ""  # options of the command line that changed the scale
    imported: str = ""  # where its results come from, if they were not made here
    judged_before: int = 0  # variants that a ledger knows, and that are not in this table
    # Arm -> as how many comparisons its test counts, where a ledger says so.
    counted_as: Mapping[str, int] = field(default_factory=dict)
    settings_of: str = ""  # the scale whose searches found the arms' settings
    num_searches: int | None = None  # of that scale, for each arm
    column: str = ""  # of recipes, if the scale names one; older records do not say so
    folder: str = ""  # in which it was run: paths in `file` and `command` are relative to it
    margin: float | None = None  # a smaller difference does not matter; on the metric's scale
    # Split -> best possible nats per token.
    floor: Mapping[str, float] = field(default_factory=dict)
    looks: tuple[int, ...] = ()  # planned before the first; empty: one, when all is done
    made: tuple[InterimLook, ...] = ()
    first_search: int = 1  # the seed of the first search's sampler
    one_of: str = ""  # the scale of several corpora, or of a ladder, of which this is one
    corpora: tuple[str, ...] = ()  # of that scale
    rungs: tuple[str, ...] = ()  # of that scale, from the smallest to the largest
    sizes: Mapping[str, Any] = field(default_factory=dict)  # what this rung sets in all arms
    rule: str = ""  # how the ladder transfers settings from rung to rung, in words
    kept_plan: KeptPlan | None = None  # how it compares with its plan; older records have none
    beyond: float | None = None  # times the largest rung's compute, at which a saving should hold

    @property
    def key(self) -> str:
        """The study's name with its scale: `name@scale`."""
        return study_key(self.name, self.scale)

    @property
    def parts(self) -> tuple[str, ...]:
        """The corpora or rungs of the scale of which it is one."""
        return self.corpora or self.rungs

    @property
    def part(self) -> str:
        """Which of `parts` it is."""
        return self.scale.removeprefix(one_part(self.one_of, ""))

    @property
    def resume(self) -> str:
        """The command that resumes it, from wherever the reader is."""
        if not self.command:
            return "the same command"
        away = self.folder not in ("", os.getcwd())
        return f"cd {shlex.quote(self.folder)} && {self.command}" if away else self.command

    @property
    def metric(self) -> Metric:
        """The metric that decides."""
        return self.judged_by or (BITS if self.level == "character" else PERPLEXITY)

    @property
    def seeds(self) -> str:
        """`5 seeds`, for display: with the number of the first one unless that is 1."""
        start = "" if self.first_seed == 1 else f" from {self.first_seed} on"
        return f"{self.num_seeds} seed{'' if self.num_seeds == 1 else 's'}{start}"

    @cached_property
    def replication(self) -> Replication:
        """What repeats an arm's result, by the searches for arms' settings: at this scale, or at
        the one that the settings are taken from. Searches for how to evaluate a finished model do
        not count: each is of one seed, so seeds are still what is repeated."""
        repeats: dict[str, set[int]] = {}
        for search in self.searches:
            if search.seed_index is None:
                repeats.setdefault(search.arm, set()).add(search.repeat)
        num = self.num_searches
        if num is None:
            num = min(map(len, repeats.values()), default=None)
        return Replication(num_seeds=self.num_seeds, num_searches=num)

    @cached_property
    def every_look(self) -> Looks:
        """The looks of the study, planned and made. One without any on record plans one look, at
        what it has."""
        searches = self.replication.num_searches if self.replication.by_search else None
        pairs = self.num_seeds if searches is None else searches
        made = {look.num for look in self.made if look.first_seed == self.first_seed}
        return Looks(
            planned=self.looks or (pairs,),
            made=tuple(sorted(made)),
            pairs=pairs,
            unit=self.replication.unit,
            kept=self.kept_plan is None or self.kept_plan.as_planned,
        )

    @property
    def tested_elsewhere(self) -> int:
        """How many comparisons count that are not in its table: those of a ledger, and of arms that
        had results and were left out, or could have been the base."""
        return self.judged_before + (self.kept_plan.tested_elsewhere if self.kept_plan else 0)

    def arm(self, name: str) -> ArmRecord:
        """Return the arm of this name."""
        return next(arm for arm in self.arms if arm.name == name)

    def trials_of(self, arm: str) -> Sequence[PlannedTrial]:
        """The planned trials of an arm; of all arms one after another, they are read once."""
        return self._by_arm.get(arm, ())

    @cached_property
    def _by_arm(self) -> Mapping[str, Sequence[PlannedTrial]]:
        by_arm: dict[str, list[PlannedTrial]] = {}
        for trial in self.trials:
            by_arm.setdefault(trial.arm, []).append(trial)
        return by_arm

    def searches_of(self, arm: str) -> list[SearchRecord]:
        """The searches of an arm's settings; if none were searched, of how its models are judged.

        Results of the two do not compare: only the first train a model for every trial.
        """
        own = [search for search in self.searches if search.arm == arm]
        return [search for search in own if search.seed_index is None] or own

    def trial_ids(self, arm: str | None = None) -> list[str]:
        """The trials planned or suggested so far, of an arm or of all arms, once each."""
        planned = (trial.id for trial in self.trials if arm in (None, trial.arm))
        searches = (search for search in self.searches if arm in (None, search.arm))
        searched = (trial for search in searches for trial in search.trials)
        return list(dict.fromkeys([*planned, *searched]))

    @property
    def to_come(self) -> Counter[str]:
        """Arm -> how many trials its searches may still suggest, or will confirm a winner with."""
        numbers: Counter[str] = Counter()
        for search in self.searches:
            suggested = 0 if search.shared else search.unrequested
            numbers[search.arm] += suggested + len(search.confirming)
        return numbers

    def num_trials(self, arm: str | None = None) -> int:
        """How many trials an arm or the whole study has, with those that are to come."""
        to_come = self.to_come.total() if arm is None else self.to_come[arm]
        return len(self.trial_ids(arm)) + to_come


def study_key(name: str, scale: str) -> str:
    """`doc_layer_mix@laptop`: the name of a study at a scale, used everywhere."""
    return f"{name}@{scale}"


def one_part(scale: str, part: str) -> str:
    """`laptop.ptb`: the name of one of the scales of several corpora, or of a ladder."""
    return f"{scale}{PART}{part}"


def write(store: Store, record: StudyRecord) -> None:
    """Save a study's record."""
    store.write_json(f"studies/{record.key}/study.json", dataclasses.asdict(record))


def read(store: Store, key: str) -> StudyRecord:
    """The study `name@scale`, or of this name or file; these are enough if it was run at only one
    scale. A scale that was changed on the command line needs its own key if there are others."""
    asked = _matching(store, key)
    if len(asked) > 1:
        every = _matching(store, key, changed=True)
        scales = ", ".join(name.partition("@")[2] for name in every)
        raise ConfigError(
            f"{store.uri}: the study '{key}' was run at several scales: {scales}. "
            f"Say {' or '.join(every)}."
        )
    return _read(store, asked[0])


def parts_of(store: Store, key: str) -> list[StudyRecord]:
    """The records of a study at one scale of several corpora or rungs, in the order of these, by
    the study's name, its file, or `name@scale`; empty if this names one record, or several scales.
    """
    asked = _matching(store, key)
    records = [] if key in asked else [_read(store, name) for name in asked]
    groups = {(record.name, record.one_of) for record in records}
    if len(groups) != 1 or not records[0].one_of:
        return []
    return sorted(records, key=lambda record: record.parts.index(record.part))


def _matching(store: Store, key: str, *, changed: bool = False) -> list[str]:
    """The keys of the studies that a name, a file or `name@scale` may mean; with `changed`, also
    those of scales that were changed on the command line if there are others."""
    known = names(store)
    matching = [name for name in known if key in (name, name.split("@")[0])]
    if not matching and "@" in key:
        longer = [name for name in known if name.startswith(f"{key}{PART}")]
        matching = [n for n in longer if _read(store, n).one_of == key.partition("@")[2]]
    if not matching and is_file_name(key):
        matching = _run_from(store, key, known)
    if not matching:
        raise ConfigError(unknown("study", key, known, store.uri))
    unchanged = [name for name in matching if CHANGED not in name.partition("@")[2]]
    return matching if changed else unchanged or matching


def is_file_name(text: str) -> bool:
    """Return whether a study is named by its file: names have no slash, and end otherwise."""
    return text.endswith(".py") or "/" in text


def _run_from(store: Store, name: str, known: Sequence[str]) -> list[str]:
    """The keys of the studies that were run from a file; it is not executed to know its name."""
    file = Path(name).resolve()
    every = [_read(store, key) for key in known]
    keys = [one.key for one in every if one.file and Path(one.folder, one.file).resolve() == file]
    if keys:
        return keys
    if not file.is_file():
        raise ConfigError(unknown("study or study file", name, known, store.uri))
    raise ConfigError(
        f"{store.uri}: no study of the file {name} has been run yet. "
        f"Start it with: ablate study {shlex.quote(name)}"
    )


def _read(store: Store, key: str) -> StudyRecord:
    path = f"studies/{key}/study.json"
    try:
        record = from_plain(store.read_json(path) or {})
        if record.key != key:  # keys become names of folders
            raise ValueError(f"it is the record of a study {record.key!r}")
        return record
    except ValueError as error:
        raise damaged(store, path, str(error)) from error


def names(store: Store) -> list[str]:
    """Every study started in this store."""
    folders = store.names("studies")
    return [name for name in folders if exists(store, name)]


def exists(store: Store, key: str) -> bool:
    """Return whether the store has a study of this key."""
    return store.exists(f"studies/{key}/study.json")


def starting_order(planned: Iterable[PlannedTrial]) -> list[str]:
    """Return the trials' ids in the order in which they start.

    Seed by seed; of a seed first the trial that most others build on, followed by these. A chain
    that started last would be waited for at the end, by workers that have nothing else to do.
    """
    first: dict[str, tuple[int, int]] = {}
    parents: dict[str, tuple[str, ...]] = {}
    for at, trial in enumerate(planned):  # arms share some
        first.setdefault(trial.id, (trial.seed_index, at))
        parents.setdefault(trial.id, trial.parents)
    below = {trial: _ancestors(parents, trial) for trial in parents}
    built_on = Counter(ancestor for ancestors in below.values() for ancestor in ancestors)

    def order(trial: str) -> tuple[int, ...]:
        starts = (one for one in {trial, *below[trial]} if not below[one])
        start = min(starts, key=first.__getitem__)
        seed_index, position = first[trial]
        return seed_index, -built_on[start], first[start][1], -built_on[trial], position

    return sorted(parents, key=order)


def _ancestors(parents: Mapping[str, Sequence[str]], trial: str) -> set[str]:
    """The planned trials that a trial builds on, directly or not."""
    known = {parent for parent in parents[trial] if parent in parents}
    return known.union(*(_ancestors(parents, parent) for parent in known))


def from_plain(plain: Mapping[str, Any]) -> StudyRecord:
    """Return a record from plain data, which its types check."""
    record = typed.read(StudyRecord, plain)
    judged_by, columns = plain.get("judged_by"), plain.get("columns", ())
    return dataclasses.replace(
        record,
        judged_by=judged_by and metrics.from_plain(judged_by),
        columns=tuple(map(metrics.from_plain, columns)),
    )
