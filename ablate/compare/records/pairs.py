"""`ablate compare --except SLOT`: what a change bought, over all recorded trials.

Two trials are a pair when they differ in what is named and in nothing else: same seed, same
corpus digest, runner, device, precision and threads, test read by both or by neither, every other
field of their configs equal, whichever study they came from. The trials that a trial builds on
count too: two fine-tuned trials are a pair when those they start from are.

A regularizer that is off leaves no trace. If its strength is named and it has other fields, such as
the formula that the strength applies to, a trial without it pairs with each trial that has it,
unless those have a second strength.

Trials are not compared one by one. Each gets a hash of its setting without what is named, and
those with the same hash are one group; pairs are made inside a group, one of each variant.

A pair with a diverged trial has no difference; it is counted and its trial is named.

The mean difference is in nats a token, with a paired t interval; the verdict is the paired t-test,
Holm-corrected over the rows of the result. Pairs with other settings are not repetitions of each
other, so the number of settings is shown next to the number of pairs: many pairs from one setting
say much about that setting.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ablate.compare.formats import Table, table_of, table_of_values, text
from ablate.compare.records.query import reading
from ablate.compare.statistics import computed
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.paired import Difference
from ablate.compare.text.figures import NONE, signed
from ablate.config import fields
from ablate.config.resolve import SECTIONS
from ablate.errors import ConfigError, nearest
from ablate.record.mirror import views
from ablate.record.mirror.syncing import Mirror
from ablate.record.mirror.writing import literal, quoted
from ablate.store import journal
from ablate.store.numbers import finite
from ablate.store.outcome import Status

SPLITS = ("valid", "test")
# A run recorded before the last two were stored pairs only with runs of that time.
PLACE = ("seed", "corpus_digest", "device", "precision", "threads", "reads_test", "runner")
NEUTRAL = {  # fields that cannot change the result of a trial
    f"{section}.{info.name}"
    for section, config in SECTIONS.items()
    for info in fields.describe(config)
    if not info.limits.identity
}
SHOWN = 40  # rows in a terminal


class Unnamed(NamedTuple):
    """The unnamed fields of a regularizer that has named ones."""

    present: bool
    inert: bool  # without the named fields it would do nothing
    values: str

    def agrees(self, other: Unnamed) -> bool:
        if self.present and other.present:
            return self.values == other.values
        return self.present == other.present or (self if self.present else other).inert


@dataclass(frozen=True)
class Point:
    """A completed or diverged trial, with what decides its pairs."""

    trial: str
    setting: str  # hash of everything but the seed, the variant and `unnamed`
    unnamed: tuple[Unnamed, ...]
    seed: str
    variant: str  # the named fields, as text
    corpus: str
    nats: float | None  # None: it diverged
    study: str
    computed_by: frozenset[str]  # including what it builds on

    def agrees(self, other: Point) -> bool:
        return all(
            ours.agrees(theirs) for ours, theirs in zip(self.unnamed, other.unnamed, strict=True)
        )


@dataclass(frozen=True)
class Change:
    """What a change bought on one corpus."""

    before: str
    after: str
    corpus: str
    difference: Difference | None  # None: every pair has a diverged trial
    num_settings: int
    studies: tuple[str, ...]
    num_lost: int  # pairs with a diverged trial
    diverged: tuple[Point, ...]  # these trials
    not_alike: tuple[str, ...] = ()  # seeds of pairs computed by kernels and by torch

    @property
    def num_pairs(self) -> int:
        return self.difference.num_pairs if self.difference else 0


@dataclass(frozen=True)
class Exchange:
    """Every change that has a pair, those with the most pairs first."""

    names: tuple[str, ...]
    split: str
    num_trials: int
    changes: tuple[Change, ...]


def exchange(mirror: Mirror, names: Sequence[str], split: str = "valid") -> Exchange:
    """All pairs of trials that differ in what is named and in nothing else."""
    columns = views.config_columns(mirror)
    named = _named(names, columns)
    points = _points(mirror, [c for c in columns if c not in named | NEUTRAL], named, split)
    changes = sorted(_changes(points), key=lambda c: (-c.num_pairs, c.corpus, c.before, c.after))
    completed = sum(point.nats is not None for point in points)
    return Exchange(tuple(names), split, completed, tuple(changes))


def _named(names: Iterable[str], columns: Sequence[str]) -> set[str]:
    """The columns that a slot, a technique of a list, or a field names."""
    found: set[str] = set()
    for name in names:
        matching = {c for c in columns if c == name or c.startswith(f"{name}.")}
        if not matching:
            slots = sorted({c.partition(".")[0] for c in columns})
            meant = nearest(name, [*slots, *columns])
            hint = f" Did you mean '{meant}'?" if meant else ""
            raise ConfigError(
                f"--except: no recorded trial has the slot or field '{name}'.{hint} "
                f"Slots: {', '.join(slots) or 'none is recorded'}."
            )
        found |= matching
    return found


def _points(mirror: Mirror, rest: list[str], named: set[str], split: str) -> list[Point]:
    """Every completed or diverged trial; its setting includes those of the trials it builds on."""
    partly = _partly_named(named, rest)
    aside = {column for unnamed, _ in partly for column in unnamed}
    own = _hash([*(n for n in PLACE if n != "seed"), *(c for c in rest if c not in aside)])
    query = (
        f"SELECT trial, {own}, [{', '.join(_unnamed(*each) for each in partly)}], "
        f"CAST(seed AS VARCHAR), {_text(sorted(named))}, corpus, {split}_nll, study, computed_by, "
        f"parents, status, reads_test FROM trials"
    )
    with reading(mirror, ["trials"]) as db:
        rows = {row[0]: _Row(*row) for row in db.execute(query).fetchall()}
    lineages = _Lineages(rows)
    points = []
    for row in rows.values():
        has_loss = row.status == Status.COMPLETED and finite(row.nats) is not None
        if has_loss or (row.status == Status.DIVERGED and (split == "valid" or row.reads_test)):
            setting, unnamed, variant = lineages.of(row.trial)
            point = Point(
                trial=row.trial,
                setting=setting,
                unnamed=unnamed,
                seed=row.seed or "",
                variant=variant,
                corpus=row.corpus or "",
                nats=row.nats if finite else None,
                study=row.study or "",
                computed_by=lineages.computed_by(row.trial),
            )
            points.append(point)
    return points


class _Row(NamedTuple):
    """A trial as it is stored."""

    trial: str
    own: str
    unnamed: list[tuple[bool, bool, str]]
    seed: str | None
    variant: str
    corpus: str | None
    nats: float | None
    study: str | None
    computed_by: str | None
    parents: str | None
    status: str
    reads_test: bool | None


def _partly_named(named: set[str], rest: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """For every regularizer with named and unnamed fields: the unnamed, and the named."""
    partly = []
    for technique in sorted({".".join(column.split(".")[:2]) for column in named}):
        unnamed, ours = (
            [column for column in sorted(some) if column.startswith(f"{technique}.")]
            for some in (rest, named)
        )
        if technique.startswith("regularizer.") and unnamed:
            partly.append((unnamed, ours))
    return partly


def _unnamed(unnamed: Sequence[str], named: Sequence[str]) -> str:
    """SQL for a `Unnamed`. All strengths of a regularizer are numbers, and 0 is off."""
    present = " OR ".join(f"{quoted(c)} IS NOT NULL" for c in [*unnamed, *named])
    numbers = (f"TRY_CAST(CAST({quoted(c)} AS VARCHAR) AS DOUBLE)" for c in unnamed)
    inert = " AND ".join(f"coalesce({number}, 0) = 0" for number in numbers)
    return f"row({present}, {inert}, {_text(unnamed)})"


def _hash(columns: Sequence[str]) -> str:
    """SQL for 128 bits of columns' values: 64 in their order, 64 in reverse order."""
    one, other = (", ".join(map(quoted, order)) for order in (columns, columns[::-1]))
    return f"concat(hash({one}), '-', hash(0, {other}))"


def _text(columns: Iterable[str]) -> str:
    """SQL for the columns that are set, with their values."""
    parts = [f"{literal(f'{name}=')} || CAST({quoted(name)} AS VARCHAR)" for name in columns]
    return f"concat_ws(chr(31), {', '.join(parts)})"


class _Lineages:
    """Setting, unnamed fields and variant of trials, including those that they build on."""

    def __init__(self, rows: Mapping[str, _Row]) -> None:
        self._rows = rows
        self._known: dict[str, tuple[str, tuple[Unnamed, ...], str]] = {}

    def of(self, trial: str) -> tuple[str, tuple[Unnamed, ...], str]:
        if trial not in self._known:
            self._known[trial] = self._found(trial)
        return self._known[trial]

    def computed_by(self, trial: str) -> frozenset[str]:
        """`Journal.computed_by` of a trial and of all that it builds on."""
        if trial not in self._rows:
            return frozenset()
        row = self._rows[trial]
        before = (parent.partition(":")[2] for parent in (row.parents or "").split(", "))
        recorded = row.computed_by
        own = journal.ways([journal.UNKNOWN] if recorded is None else recorded.split("; "))
        return own.union(*map(self.computed_by, before))

    def _found(self, trial: str) -> tuple[str, tuple[Unnamed, ...], str]:
        if trial not in self._rows:  # never recorded: it equals only itself
            return trial, (), ""
        row = self._rows[trial]
        unnamed = tuple(Unnamed(*each) for each in row.unnamed)
        if not row.parents:
            return row.own, unnamed, row.variant
        content, variants = [row.own], [row.variant]
        for parent in row.parents.split(", "):
            role, _, parent_id = parent.partition(":")
            before, unnamed_before, varied = self.of(parent_id)
            seed = self._rows[parent_id].seed if parent_id in self._rows else ""
            content.append(f"{role}:{before}:{seed}")
            unnamed += unnamed_before
            variants.append(varied)
        whole = hashlib.md5(json.dumps(content).encode(), usedforsecurity=False).hexdigest()
        return whole, unnamed, chr(30).join(dict.fromkeys(variants))


def _changes(points: Iterable[Point]) -> list[Change]:
    """The pairs of each group, by what changed."""
    groups: dict[tuple[str, str], dict[tuple[Any, ...], Point]] = defaultdict(dict)
    for point in sorted(points, key=lambda point: point.nats is None):
        alike = groups[point.setting, point.seed]
        alike.setdefault((point.variant, point.unnamed), point)
    variants = ({p.variant for p in group.values()} for group in groups.values() if len(group) > 1)
    common = Counter(itertools.chain.from_iterable(variants))
    pairs: dict[tuple[str, str, str], list[tuple[Point, Point]]] = defaultdict(list)
    for group in groups.values():
        ordered = sorted(group.values(), key=lambda p: (-common[p.variant], p.variant))
        for one, other in itertools.combinations(ordered, 2):
            if one.variant != other.variant and one.agrees(other):
                pairs[one.variant, other.variant, one.corpus].append((one, other))
    return [_change(key, found) for key, found in pairs.items()]


def _change(key: tuple[str, str, str], pairs: list[tuple[Point, Point]]) -> Change:
    whole = [(a.nats, b.nats) for a, b in pairs if a.nats is not None and b.nats is not None]
    settings = {(a.setting, a.unnamed, b.unnamed) for a, b in pairs if None not in (a.nats, b.nats)}
    studies = {point.study for pair in pairs for point in pair}
    diverged = dict.fromkeys(point for pair in pairs for point in pair if point.nats is None)
    odd = {a.seed for a, b in pairs if not journal.computed_alike(a.computed_by, b.computed_by)}
    return Change(
        *key,
        statistics.paired_difference([after - before for before, after in whole]),
        num_settings=len(settings),
        studies=tuple(sorted(studies)),
        num_lost=len(pairs) - len(whole),
        diverged=tuple(diverged),
        not_alike=tuple(sorted(odd, key=lambda seed: (len(seed), seed))),
    )


def table(found: Exchange) -> Table:
    """Every number of every change."""
    names = ["before", "after", "corpus", "split", "difference_nats", "low", "high", "p_holm"]
    names += ["verdict", "pairs", "settings", "studies", "lost_pairs", "diverged"]
    names += ["seeds_not_computed_alike"]
    p_values = statistics.holm([c.difference.p if c.difference else None for c in found.changes])
    rows = []
    for change, p in zip(found.changes, p_values, strict=True):
        difference = change.difference
        before, after = describe_change(change.before, change.after)
        mean, (low, high) = None, (None, None)
        if difference is not None:
            mean, (low, high) = difference.mean, difference.interval or (None, None)
        verdict = statistics.verdict(difference, p)
        row = (before, after, change.corpus, found.split, mean, low, high, p, verdict)
        row = (*row, change.num_pairs, change.num_settings, ", ".join(change.studies))
        row = (*row, change.num_lost, ", ".join(p.trial for p in change.diverged))
        rows.append((*row, ", ".join(change.not_alike)))
    return table_of_values(names, rows)


def describe_change(before: str, after: str) -> tuple[str, str]:
    """Two variants, each by what the other does not have."""
    one, other = (
        dict.fromkeys(part for part in variant.replace(chr(30), chr(31)).split(chr(31)) if part)
        for variant in (before, after)
    )
    ours = [part for part in one if part not in other]
    theirs = [part for part in other if part not in one]
    return ", ".join(ours) or "not set", ", ".join(theirs) or "not set"


def plain_text(found: Exchange, width: int = text.WIDTH) -> str:
    """The changes for a terminal."""
    what = ", ".join(found.names)
    if not found.changes:
        return f"No two of {found.num_trials} completed trials differ only in {what}."
    every, rows = table(found).rows, []
    for before, after, corpus, _, mean, low, high, _, verdict, pairs, settings, *_ in every:
        delta = NONE if mean is None else signed(mean, 4)
        interval = NONE if low is None else f"[{signed(low, 4)}, {signed(high, 4)}]"
        counts = (str(pairs), str(settings))
        rows.append([f"{before} → {after}", corpus, delta, interval, *counts, verdict])
    titles = ["change", "corpus", "Δ nats", "95%\ninterval", "pairs", "settings", "verdict"]
    studies = sorted({study for change in found.changes for study in change.studies})
    notes = [
        f"{found.num_trials} completed trials; pairs differ only in {what}. Mean "
        f"difference on {found.split}, below 0 is better; paired t, Holm-corrected over "
        f"{len(rows)} row{'' if len(rows) == 1 else 's'}.",
        *_left_out(found),
        f"From the studies {', '.join(studies)}.",
    ]
    odd = [row for row in every if row[-1]]
    if odd:
        named = "; ".join(f"{row[0]} → {row[1]} on {row[2]}, seeds {row[-1]}" for row in odd)
        notes.append(f"Pairs of a trial by kernels and one by torch: {named}. {computed.ADVICE}")
    if len(rows) > SHOWN:
        notes.append(f"{len(rows) - SHOWN} more rows: --format csv has them all.")
    left = ["corpus", "verdict"]
    return text.write(table_of(titles, rows[:SHOWN], left, notes=notes), width)


def _left_out(found: Exchange) -> list[str]:
    """A note on the pairs without a difference, with the trials that diverged."""
    num = sum(change.num_lost for change in found.changes)
    if not num:
        return []
    trials = dict.fromkeys(point for change in found.changes for point in change.diverged)
    named = [
        f"{p.trial} ({p.study}, {describe_change('', p.variant)[1]}, seed {p.seed})"
        for p in [*trials][:SHOWN]
    ]
    more = f", and {len(trials) - SHOWN} more" if len(trials) > SHOWN else ""
    counted = "1 pair is" if num == 1 else f"{num} pairs are"
    return [f"{counted} left out because a trial diverged: {', '.join(named)}{more}."]
