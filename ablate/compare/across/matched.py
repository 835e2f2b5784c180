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

An arm that a study has still to finish has no verdict: whoever reads now may stop now.

A trial's metric is the one that decides its study. Pairs with other settings are not repetitions
of each other; `changes.py` says what is. Seeds, of a trial or of those that it builds on, are no
settings.
"""

from __future__ import annotations

import contextlib
import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ablate.compare.across.changes import Change, Trial, changes_of, common_of, groups_of
from ablate.compare.across.kinds import FACTS_OF_KINDS, FINAL, SEARCHED, kinds_of
from ablate.compare.across.lineage import NAMED, OWN, UNNAMED, lineages
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
    listed_trials,
    metric_of,
    parents_of,
    plain_record,
    result_of,
)
from ablate.record.mirror.syncing import Mirror
from ablate.record.mirror.writing import quoted, rows_of
from ablate.results.result import LOST, MISSING
from ablate.store.outcome import Status

# A run recorded before the last two were stored pairs only with runs of that time.
PLACE = ("corpus_digest", "device", "precision", "threads", "reads_test", "runner")
FACTS = (*FACTS_OF_KINDS, "study", "seed", "reads_test", "computed_by", "processes", "sources")
Row = Mapping[str, Any]


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
    chosen = [trial for kind in kinds for trial in trials.get(kind, ())]
    groups = groups_of(chosen)
    common = common_of(groups)
    return Exchange(
        names=tuple(names),
        split=split,
        num_trials=sum(trial.loss is not None for trial in chosen),
        changes=tuple(changes_of(groups, common)),
        left_out={kind: len(of) for kind, of in trials.items() if kind not in kinds},
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
    db: Any, mirror: Mirror, rest: Sequence[str], named: set[str], split: str
) -> dict[str, list[Trial]]:
    """Every trial that completed or was lost, by its kind."""
    studies = rows_of(db, STUDY_FACTS, "_studies")
    metrics = {study["study_key"]: metric_of(study) for study in studies}
    columns = {key: {m.key(split): column_of(m.key(split))} for key, m in metrics.items()}
    # A metric that no trial has reported has no column.
    numbers = {name for of in columns.values() for name in of.values()}.intersection(
        map(str.lower, mirror.manifest.numbers)
    )
    rows = {row["trial"]: row for row in _rows(db, rest, named, numbers)}
    records = {study["study_key"]: plain_record(study) for study in studies}
    kinds, lineage_of = kinds_of(records, [*rows.values()]), lineages(rows, sorted(named))
    fates: dict[str, str] = {}
    found: list[tuple[str, Metric, float | None]] = []
    for trial, row in rows.items():
        metric = metrics.get(row["study_key"], PERPLEXITY)
        result = result_of(columns.get(row["study_key"], {}), row)
        fates[trial] = result.fate(metric)
        found.append((trial, metric, result.loss(metric, split)))
    to_run = _to_run(records, fates)
    trials: dict[str, list[Trial]] = {}
    for trial, metric, loss in found:
        row = rows[trial]
        lost = _is_lost(trial, rows, fates) and (split == "valid" or row["reads_test"])
        if (lost or loss is not None) and row["stage"] != StageName.MEASURE:
            one = Trial(row, metric, loss, lineage_of(trial), to_run.get(trial, frozenset()))
            trials.setdefault(kinds[trial], []).append(one)
    return trials


def _to_run(records: Mapping[str, Row], fates: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Trial -> the trials that count for the same arm of a study, and have not ended."""
    arms: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, plain in records.items():
        for trial, arm, counts in listed_trials(plain):
            if counts:
                arms[key, arm].append(trial)
    found: dict[str, frozenset[str]] = {}
    for trials in arms.values():
        left = frozenset(one for one in trials if fates.get(one, MISSING) == MISSING)
        if left:
            found |= {one: found.get(one, frozenset()) | left for one in trials}
    return found


def _is_lost(trial: str, rows: Mapping[str, Row], fates: Mapping[str, str]) -> bool:
    """Return whether the trial was lost, or one that it builds on."""
    if fates[trial] != Status.FAILED:
        return fates[trial] in LOST
    parents = (parent for parent in parents_of(rows[trial]) if parent in rows)
    return any(_is_lost(parent, rows, fates) for parent in parents)


def _rows(
    db: Any, rest: Sequence[str], named: set[str], numbers: Iterable[str]
) -> Iterator[dict[str, Any]]:
    """Every trial's facts and numbers, with what it is compared by."""
    partly = _partly_named(named, rest)
    aside = {column for unnamed, _ in partly for column in unnamed}
    compared_by = {
        OWN: _hash([*PLACE, *(c for c in rest if c not in aside)]),
        UNNAMED: f"[{', '.join(_unnamed(*columns) for columns in partly)}]",
        NAMED: _texts(sorted(named)),
    }
    facts = list(dict.fromkeys((*FACTS, *numbers)))
    asked = ", ".join([*compared_by.values(), *map(quoted, facts)])
    names = [*compared_by, *facts]
    for row in db.execute(f"SELECT {asked} FROM _trials ORDER BY trial").fetchall():
        yield dict(zip(names, row, strict=True))


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
