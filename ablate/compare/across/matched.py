"""`ablate table compare --except SLOT`: what a change bought, over all recorded trials.

Two trials are a pair when they differ in what is named and in nothing else: same seed, same metric,
corpus digest, runner, device, precision and threads, test read by both or by neither, every other
field of their configs equal, whichever study they came from. The versions of the task and of each
technique count as fields (`--except head` names the head's too); of a file, the contents count. The
trials that a trial builds on count too: two fine-tuned trials are a pair when the trials that they
start from are one.

A regularizer that is off leaves no trace. If its strength is named and it has other fields, such as
the formula that the strength applies to, a trial without it pairs with each trial that has it,
unless those have a second strength.

Trials are not compared one by one. Each gets a hash of its setting without what is named, and
those with the same hash are one group; pairs are made inside a group, one of each variant.

Only trials of one kind are pairs: final ones, which count for a result of a study. Trials of smoke
scales, of searches, and of stages that later ones build on are left out, and counted: they are
shorter, or one was chosen from many, and two stages of one seed do not repeat each other. Those of
searches are paired if the reader asks for them.

A trial that only measures a finished model repeats this model's numbers, and is in no pair.

A field may have a thousand values. Only the MOST_VALUES that the most groups have are paired with
each other; which these are does not depend on what the trials found.

A pair with a trial that was lost (it diverged, was stopped early, or failed by its own code) has
no difference. It is counted, its trial is named, and no verdict is in favour of that trial's side.

A trial's metric is the one that decides its study. The mean difference is in the metric's own
direction and on its own scale (nats a token, accuracy), with a paired t interval; the verdict is
the paired t-test, Holm-corrected over the rows of the result. Pairs with other settings are not
repetitions of each other: a setting is a cluster (`clusters.py`). From three settings on, a change
is one row, and its test is over the settings' means; below, each setting is a row. Seeds, of a
trial or of those that it builds on, are no settings.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from ablate.compare.across.changes import (
    Change,
    ComparedTrial,
    Lineage,
    Unnamed,
    Variant,
    changes_of,
    common_of,
    groups_of,
)
from ablate.compare.across.kinds import FACTS_OF_KINDS, FINAL, SEARCHED, kinds_of
from ablate.compare.across.query import reading
from ablate.config import fields
from ablate.config.config import CONTENTS, VERSION
from ablate.config.identity import StageName
from ablate.config.metrics import PERPLEXITY, Metric
from ablate.config.resolve import kind_of
from ablate.errors import ConfigError, nearest
from ablate.record.mirror import views
from ablate.record.mirror.arms import (
    STUDY_FACTS,
    column_of,
    metric_of,
    parents_of,
    result_of,
)
from ablate.record.mirror.syncing import Mirror
from ablate.record.mirror.writing import quoted, rows_of
from ablate.results.result import LOST, Result
from ablate.store import journal
from ablate.store.outcome import Status

# A run recorded before the last two were stored pairs only with runs of that time.
PLACE = ("seed", "corpus_digest", "device", "precision", "threads", "reads_test", "runner")
FACTS = (*FACTS_OF_KINDS, "study", "seed", "reads_test", "computed_by", "processes", "sources")


@cache
def _neutral_fields() -> frozenset[str]:
    """Fields that cannot change the result of a trial that names no task."""
    return frozenset(
        f"{section}.{info.name}"
        for section, config in kind_of({}).sections.items()
        for info in fields.describe(config)
        if not info.limits.identity
    )


@dataclass(frozen=True)
class Exchange:
    """Every change that has a pair, those with the most pairs first."""

    names: tuple[str, ...]
    split: str
    num_trials: int  # final ones that completed
    changes: tuple[Change, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)  # kind -> its number of trials
    num_values: int = 0  # with a pair; `changes` are between the first MOST_VALUES of these


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Collect no garbage: among 20,000 trials that all live on, collecting took half the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# As a decorator: garbage is collected again once the trials are gone.
@_uncollected()
def exchange(
    mirror: Mirror, names: Sequence[str], split: str = "valid", searches: bool = False
) -> Exchange:
    """All pairs of trials that differ in what is named and in nothing else; those of searches
    too, if asked for."""
    columns = views.config_columns(mirror)
    named = _named(names, columns)
    with reading(mirror, ["trials"]) as db:
        aside = named | _neutral(db, columns)
        trials = _trials(db, mirror, [c for c in columns if c not in aside], named, split)
    kinds = (FINAL, SEARCHED) if searches else (FINAL,)
    chosen = [trial for trial in trials if trial.kind in kinds]
    groups = groups_of(chosen)
    common = common_of(groups)
    return Exchange(
        names=tuple(names),
        split=split,
        num_trials=sum(trial.loss is not None for trial in chosen),
        changes=tuple(changes_of(groups, common)),
        left_out=Counter(trial.kind for trial in trials if trial.kind not in kinds),
        num_values=len(common),
    )


def _neutral(db: Any, columns: Sequence[str]) -> set[str]:
    """The columns that the recorded kinds of tasks say cannot change a result.

    Of a file, the contents count, and its path does not.
    """
    listed = db.execute("SELECT DISTINCT neutral FROM _trials WHERE neutral != ''").fetchall()
    said = {name for (names,) in listed for name in names.split(", ")}
    return {*_neutral_fields()} | said | {c for c in columns if f"{c} {CONTENTS}" in columns}


def _field_of(column: str) -> str:
    """The field or technique that a column is of: `head` of `head version`."""
    return column.partition(" ")[0]


def _named(names: Iterable[str], columns: Sequence[str]) -> set[str]:
    """The columns that a slot, a technique of a list, or a field names."""
    columns_named: set[str] = set()
    for name in names:
        matching = {c for c in columns if name in (c, _field_of(c)) or c.startswith(f"{name}.")}
        if not matching:
            slots = sorted({c.partition(".")[0] for c in columns})
            meant = nearest(name, [*slots, *columns])
            hint = f" Did you mean '{meant}'?" if meant else ""
            raise ConfigError(
                f"--except: no recorded trial has the slot or field '{name}'.{hint} "
                f"Slots: {', '.join(slots) or 'none is recorded'}."
            )
        columns_named |= matching
    return columns_named


def _trials(
    db: Any, mirror: Mirror, rest: list[str], named: set[str], split: str
) -> list[ComparedTrial]:
    """Every trial that completed or was lost; its setting includes its ancestors' settings."""
    studies = rows_of(db, STUDY_FACTS, "_studies")
    rows = {row.facts["trial"]: row for row in _rows(db, mirror, studies, rest, named, split)}
    kinds = kinds_of(studies, [row.facts for row in rows.values()])
    lineage_of = _lineages(rows, sorted(named))
    return [
        ComparedTrial(
            trial=trial,
            lineage=lineage_of(trial),
            seed=row.seed,
            corpus=row.facts["corpus"] or "",
            metric=row.metric,
            loss=row.loss,
            study=row.facts["study"] or "",
            sources=row.facts["sources"] or "",
            kind=kinds[trial],
        )
        for trial, row in rows.items()
        if row.is_paired(split, rows)
    ]


class _Row(NamedTuple):
    """A trial as it is stored."""

    own: str
    unnamed: list[tuple[bool, bool, list[str | None]]]
    named: list[str | None]
    facts: Mapping[str, Any]
    metric: Metric
    result: Result
    loss: float | None

    @property
    def seed(self) -> str:
        seed = self.facts["seed"]
        return "" if seed is None else str(seed)

    def is_paired(self, split: str, rows: Mapping[str, _Row]) -> bool:
        """Return whether the trial has a loss of its own on the split, or has none only because
        it was lost. `rows`: every trial."""
        if self.facts["stage"] == StageName.MEASURE:
            return False
        if self.is_lost(rows):
            return split == "valid" or bool(self.facts["reads_test"])
        return self.loss is not None

    def is_lost(self, rows: Mapping[str, _Row]) -> bool:
        """Return whether the trial was lost, or one that it builds on."""
        fate = self.result.fate(self.metric)
        if fate != Status.FAILED:
            return fate in LOST
        return any(
            parent in rows and rows[parent].is_lost(rows) for parent in parents_of(self.facts)
        )


def _rows(
    db: Any,
    mirror: Mirror,
    studies: Iterable[Mapping[str, Any]],
    rest: list[str],
    named: set[str],
    split: str,
) -> Iterator[_Row]:
    """Every trial with its result in the metric of its study, if the study is recorded."""
    partly = _partly_named(named, rest)
    aside = {column for unnamed, _ in partly for column in unnamed}
    # The seed pairs trials, and is no setting.
    own = _hash([*(n for n in PLACE if n != "seed"), *(c for c in rest if c not in aside)])
    asked = [own, f"[{', '.join(_unnamed(*columns) for columns in partly)}]", _texts(sorted(named))]
    metrics = {study["study_key"]: metric_of(study) for study in studies}
    columns = {key: {m.key(split): column_of(m.key(split))} for key, m in metrics.items()}
    wanted = {column for of_study in columns.values() for column in of_study.values()}
    # A metric that no trial has reported has no column.
    numbers = wanted.intersection(map(str.lower, mirror.manifest.numbers))
    facts = list(dict.fromkeys((*FACTS, *numbers)))
    query = f"SELECT {', '.join([*asked, *map(quoted, facts)])} FROM _trials ORDER BY trial"
    for setting, unnamed, values, *shown in db.execute(query).fetchall():
        row = dict(zip(facts, shown, strict=True))
        key = row["study_key"]
        result, metric = result_of(columns.get(key, {}), row), metrics.get(key, PERPLEXITY)
        yield _Row(setting, unnamed, values, row, metric, result, result.loss(metric, split))


def _partly_named(named: set[str], rest: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """For every regularizer with named and unnamed fields: the unnamed, and the named."""
    partly = []
    for technique in sorted({".".join(_field_of(column).split(".")[:2]) for column in named}):
        unnamed, ours = (
            [
                c
                for c in sorted(some)
                if c.startswith(f"{technique}.") or c == f"{technique} {VERSION}"
            ]
            for some in (rest, named)
        )
        if technique.startswith("regularizer.") and unnamed:
            partly.append((unnamed, ours))
    return partly


def _unnamed(unnamed: Sequence[str], named: Sequence[str]) -> str:
    """SQL for a `Unnamed`. All strengths of a regularizer are numbers, and 0 is off."""
    present = " OR ".join(f"{quoted(c)} IS NOT NULL" for c in [*unnamed, *named])
    strengths = [c for c in unnamed if " " not in c]
    numbers = (f"TRY_CAST(CAST({quoted(c)} AS VARCHAR) AS DOUBLE)" for c in strengths)
    inert = " AND ".join([f"coalesce({number}, 0) = 0" for number in numbers]) or "true"
    return f"row({present}, {inert}, {_texts(unnamed)})"


def _hash(columns: Sequence[str]) -> str:
    """SQL for 128 bits of columns' values: 64 in their order, 64 in reverse order."""
    one, other = (", ".join(map(quoted, order)) for order in (columns, columns[::-1]))
    return f"concat(hash({one}), '-', hash(0, {other}))"


def _texts(columns: Iterable[str]) -> str:
    """SQL for columns' values as text, null where one is not set."""
    return f"[{', '.join(f'CAST({quoted(name)} AS VARCHAR)' for name in columns)}]"


def _lineages(rows: Mapping[str, _Row], named: Sequence[str]) -> Callable[[str], Lineage]:
    """The lineage of a trial, by its id; `named` are the fields of which rows have the values."""

    @cache
    def lineage_of(trial: str) -> Lineage:
        if trial not in rows:  # never recorded: such a trial equals only itself
            return Lineage(trial)
        row = rows[trial]
        ways = _ways(row.facts["computed_by"], row.facts["processes"])
        unnamed = [Unnamed(there, inert, tuple(values)) for there, inert, values in row.unnamed]
        own = tuple((n, v) for n, v in zip(named, row.named, strict=True) if v is not None)
        if not row.facts["parents"]:
            return Lineage(row.own, tuple(unnamed), (own,), ways)
        variants: list[Variant] = [(own,)]
        content, seeds = [row.own], []
        for parent in row.facts["parents"].split(", "):
            role, _, parent_id = parent.partition(":")
            before = lineage_of(parent_id)
            seeds += [rows[parent_id].seed if parent_id in rows else "", *before.seeds]
            content.append(f"{role}:{before.setting}")
            unnamed += before.unnamed
            variants.append(before.variant)
            ways |= before.computed_by
        # Only a key; systems in FIPS mode refuse md5 for anything that has to be secure.
        setting = hashlib.md5(json.dumps(content).encode(), usedforsecurity=False).hexdigest()
        # A variant that stages share is named once.
        variant = tuple(itertools.chain.from_iterable(dict.fromkeys(variants)))
        return Lineage(setting, tuple(unnamed), variant, ways, tuple(seeds))

    return lineage_of


@cache
def _ways(computed_by: str | None, processes: int | None) -> frozenset[str]:
    entries = [journal.UNKNOWN] if computed_by is None else computed_by.split("; ")
    return journal.ways(entries, processes)
