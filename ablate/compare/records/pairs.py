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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from ablate.compare.formats import Table, table_of, table_of_values, text
from ablate.compare.records.query import reading
from ablate.compare.statistics import computed
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.paired import Difference
from ablate.compare.statistics.replication import counted
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


class Lineage(NamedTuple):
    """What decides the pairs of a trial, from the trial and all that it builds on."""

    setting: str  # hash of everything but the seed, the variant and `unnamed`
    unnamed: tuple[Unnamed, ...] = ()
    variant: str = ""  # the named fields, as text
    computed_by: frozenset[str] = frozenset()

    def agrees(self, other: Lineage) -> bool:
        pairs = zip(self.unnamed, other.unnamed, strict=True)
        return all(ours.agrees(theirs) for ours, theirs in pairs)


@dataclass(frozen=True)
class Point:
    """A completed or diverged trial."""

    trial: str
    lineage: Lineage
    seed: str
    corpus: str
    nats: float | None  # None: it diverged
    study: str


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
    columns_named: set[str] = set()
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
        columns_named |= matching
    return columns_named


def _points(mirror: Mirror, rest: list[str], named: set[str], split: str) -> list[Point]:
    """Every completed or diverged trial; its setting includes those of the trials it builds on."""
    partly = _partly_named(named, rest)
    aside = {column for unnamed, _ in partly for column in unnamed}
    own = _hash([*(n for n in PLACE if n != "seed"), *(c for c in rest if c not in aside)])
    query = (
        f"SELECT trial, {own}, [{', '.join(_unnamed(*columns) for columns in partly)}], "
        f"CAST(seed AS VARCHAR), {_text(sorted(named))}, corpus, {split}_nll, study, computed_by, "
        f"parents, status, reads_test FROM trials"
    )
    with reading(mirror, ["trials"]) as db:
        rows = {row[0]: _Row(*row) for row in db.execute(query).fetchall()}
    lineage_of = _lineages(rows)
    return [
        Point(
            trial=row.trial,
            lineage=lineage_of(row.trial),
            seed=row.seed or "",
            corpus=row.corpus or "",
            nats=row.nats if row.status == Status.COMPLETED else None,
            study=row.study or "",
        )
        for row in rows.values()
        if row.is_paired(split)
    ]


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

    def is_paired(self, split: str) -> bool:
        """Return whether it has a loss on the split, or would have one if it had not diverged."""
        if self.status == Status.DIVERGED:
            return split == "valid" or bool(self.reads_test)
        return self.status == Status.COMPLETED and finite(self.nats) is not None


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


def _lineages(rows: Mapping[str, _Row]) -> Callable[[str], Lineage]:
    """The lineage of a trial, by its id."""

    @cache
    def lineage_of(trial: str) -> Lineage:
        if trial not in rows:  # never recorded: it equals only itself
            return Lineage(trial)
        row = rows[trial]
        recorded = [journal.UNKNOWN] if row.computed_by is None else row.computed_by.split("; ")
        unnamed, ways = [Unnamed(*values) for values in row.unnamed], journal.ways(recorded)
        content, variants = [row.own], [row.variant]
        for parent in row.parents.split(", ") if row.parents else ():
            role, _, parent_id = parent.partition(":")
            before = lineage_of(parent_id)
            seed = rows[parent_id].seed if parent_id in rows else ""
            content.append(f"{role}:{before.setting}:{seed}")
            unnamed += before.unnamed
            variants.append(before.variant)
            ways |= before.computed_by
        setting = hashlib.md5(json.dumps(content).encode(), usedforsecurity=False).hexdigest()
        return Lineage(setting, tuple(unnamed), chr(30).join(dict.fromkeys(variants)), ways)

    return lineage_of


def _changes(points: Iterable[Point]) -> list[Change]:
    """The pairs of each group, by what changed."""
    groups: dict[tuple[str, str], dict[tuple[Any, ...], Point]] = defaultdict(dict)
    for point in sorted(points, key=lambda point: point.nats is None):
        lineage = point.lineage
        group = groups[lineage.setting, point.seed]
        group.setdefault((lineage.variant, lineage.unnamed), point)
    variants = ({variant for variant, _ in group} for group in groups.values() if len(group) > 1)
    common = Counter(itertools.chain.from_iterable(variants))
    pairs: dict[tuple[str, str, str], list[tuple[Point, Point]]] = defaultdict(list)
    for group in groups.values():
        ordered = sorted(group.items(), key=lambda item: (-common[item[0][0]], item[0][0]))
        for ((before, _), a), ((after, _), b) in itertools.combinations(ordered, 2):
            if before != after and a.lineage.agrees(b.lineage):
                pairs[before, after, a.corpus].append((a, b))
    return [_change(key, of_change) for key, of_change in pairs.items()]


def _change(key: tuple[str, str, str], pairs: list[tuple[Point, Point]]) -> Change:
    whole = [(a.lineage, b.lineage) for a, b in pairs if None not in (a.nats, b.nats)]
    deltas = [b.nats - a.nats for a, b in pairs if a.nats is not None and b.nats is not None]
    diverged = dict.fromkeys(point for pair in pairs for point in pair if point.nats is None)
    ways = ((a.seed, a.lineage.computed_by, b.lineage.computed_by) for a, b in pairs)
    odd = {seed for seed, before, after in ways if not journal.computed_alike(before, after)}
    return Change(
        *key,
        statistics.paired_difference(deltas),
        num_settings=len({(a.setting, a.unnamed, b.unnamed) for a, b in whole}),
        studies=tuple(sorted({point.study for pair in pairs for point in pair})),
        num_lost=len(pairs) - len(deltas),
        diverged=tuple(diverged),
        not_alike=tuple(sorted(odd, key=lambda seed: (len(seed), seed))),
    )


def table(exchanged: Exchange) -> Table:
    """Every number of every change."""
    names = ["before", "after", "corpus", "split", "difference_nats", "low", "high", "p_holm"]
    names += ["verdict", "pairs", "settings", "studies", "lost_pairs", "diverged"]
    names += ["seeds_not_computed_alike"]
    differences = [change.difference for change in exchanged.changes]
    p_values = statistics.holm([d and d.p for d in differences])
    rows = []
    for change, d, p in zip(exchanged.changes, differences, p_values, strict=True):
        row = [*describe_change(change.before, change.after), change.corpus, exchanged.split]
        row += [d and d.mean, *((d and d.interval) or (None, None)), p, statistics.verdict(d, p)]
        row += [change.num_pairs, change.num_settings, ", ".join(change.studies), change.num_lost]
        row += [", ".join(point.trial for point in change.diverged), ", ".join(change.not_alike)]
        rows.append(row)
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


def plain_text(exchanged: Exchange, width: int = text.WIDTH) -> str:
    """The changes for a terminal."""
    what = ", ".join(exchanged.names)
    if not exchanged.changes:
        return f"No two of {exchanged.num_trials} completed trials differ only in {what}."
    every, rows = table(exchanged).rows, []
    for before, after, corpus, _, mean, low, high, _, verdict, pairs, settings, *_ in every:
        delta = NONE if mean is None else signed(mean, 4)
        interval = NONE if low is None else f"[{signed(low, 4)}, {signed(high, 4)}]"
        counts = (str(pairs), str(settings))
        rows.append([f"{before} → {after}", corpus, delta, interval, *counts, verdict])
    titles = ["change", "corpus", "Δ nats", "95%\ninterval", "pairs", "settings", "verdict"]
    studies = sorted({study for change in exchanged.changes for study in change.studies})
    notes = [
        f"{exchanged.num_trials} completed trials; pairs differ only in {what}. Mean "
        f"difference on {exchanged.split}, below 0 is better; paired t, Holm-corrected over "
        f"{counted(len(rows), 'row')}.",
        *_left_out(exchanged),
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


def _left_out(exchanged: Exchange) -> list[str]:
    """A note on the pairs without a difference, with the trials that diverged."""
    num = sum(change.num_lost for change in exchanged.changes)
    if not num:
        return []
    trials = dict.fromkeys(point for change in exchanged.changes for point in change.diverged)
    named = [
        f"{p.trial} ({p.study}, {describe_change('', p.lineage.variant)[1]}, seed {p.seed})"
        for p in [*trials][:SHOWN]
    ]
    more = f", and {len(trials) - SHOWN} more" if len(trials) > SHOWN else ""
    pairs = "1 pair is" if num == 1 else f"{num} pairs are"
    return [f"{pairs} left out because a trial diverged: {', '.join(named)}{more}."]
