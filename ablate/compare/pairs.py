"""`ablate compare --except SLOT`: what a change bought, over everything ever recorded.

Two trials are a pair when they differ in what is named and in nothing else: same seed, same
corpus by its digest, same runner, device, precision and threads, test read by both or by neither,
every other field of their configs equal, whatever study they came from. What a trial builds on
counts too: two fine-tuned trials are a pair when those they start from are.

No trial is held against every other. Each gets a hash of its setting without what is named, and
those with the same hash are one group; pairs are made inside a group, one of each variant.

The mean difference is in nats a token, with a paired t interval; the verdict is the paired t-test,
Holm-corrected over the rows of the answer. Pairs with other settings are not repetitions of each
other, so the number of settings is shown beside the number of pairs: many pairs from one setting
say much about that setting.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ablate import fields
from ablate.compare import statistics
from ablate.compare.figures import NONE, signed
from ablate.compare.query import Answer, reading
from ablate.compare.statistics import Difference
from ablate.config import SECTIONS
from ablate.errors import ConfigError, nearest
from ablate.layout import Grid, paragraph
from ablate.mirror import views
from ablate.mirror.syncing import Mirror
from ablate.mirror.writing import literal, quoted

SPLITS = ("valid", "test")
# A run recorded before the last two were says neither: it pairs with others of its time alone.
PLACE = ("seed", "corpus_digest", "device", "precision", "threads", "reads_test", "runner")
NEUTRAL = {  # fields that cannot change what a trial finds
    f"{section}.{info.name}"
    for section, config in SECTIONS.items()
    for info in fields.describe(config)
    if not info.limits.identity
}
SHOWN = 40  # rows of the answer


@dataclass(frozen=True)
class Point:
    """A completed trial as the question sees it."""

    setting: str  # hash of everything but the seed and what is named
    seed: str
    variant: str  # what is named, as text
    corpus: str
    nats: float
    study: str


@dataclass(frozen=True)
class Change:
    """What a change bought on one corpus."""

    before: str
    after: str
    corpus: str
    difference: Difference
    num_settings: int
    studies: tuple[str, ...]


@dataclass(frozen=True)
class Exchange:
    """The answer: every change that has a pair, the ones with most pairs first."""

    names: tuple[str, ...]
    split: str
    num_trials: int
    changes: tuple[Change, ...]


def exchange(mirror: Mirror, names: Sequence[str], split: str = "valid") -> Exchange:
    """All pairs of trials that differ in what is named and in nothing else."""
    columns = views.config_columns(mirror)
    named = _named(names, columns)
    points = _points(mirror, [c for c in columns if c not in named | NEUTRAL], named, split)
    changes = sorted(
        _changes(points), key=lambda c: (-c.difference.num_pairs, c.corpus, c.before, c.after)
    )
    return Exchange(tuple(names), split, len(points), tuple(changes))


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
    """Every completed trial; a trial's setting takes in those of the trials it builds on."""
    own = _hash([*(name for name in PLACE if name != "seed"), *rest])
    query = (
        f"SELECT trial, {own}, CAST(seed AS VARCHAR), {_text(sorted(named))}, "
        f"corpus, {split}_nll, study, parents, status FROM trials"
    )
    with reading(mirror, ["trials"]) as db:
        rows = {row[0]: row[1:] for row in db.execute(query).fetchall()}
    lineages = _Lineages(rows)
    points = []
    for trial, (_, seed, _, corpus, nats, study, _, status) in rows.items():
        if status == "completed" and nats is not None and math.isfinite(nats):
            setting, variant = lineages.of(trial)
            points.append(Point(setting, seed or "", variant, corpus or "", nats, study or ""))
    return points


def _hash(columns: Sequence[str]) -> str:
    """SQL for 128 bits of columns' values: 64 in their order, and 64 in the other."""
    one, other = (", ".join(map(quoted, order)) for order in (columns, columns[::-1]))
    return f"concat(hash({one}), '-', hash(0, {other}))"


def _text(columns: Iterable[str]) -> str:
    """SQL for those of the columns that are set, with their values."""
    parts = [f"{literal(f'{name}=')} || CAST({quoted(name)} AS VARCHAR)" for name in columns]
    return f"concat_ws(chr(31), {', '.join(parts)})"


class _Lineages:
    """Setting and variant of trials, those that they build on included."""

    def __init__(self, rows: Mapping[str, tuple[Any, ...]]) -> None:
        self._rows = rows
        self._known: dict[str, tuple[str, str]] = {}

    def of(self, trial: str) -> tuple[str, str]:
        if trial not in self._known:
            self._known[trial] = self._found(trial)
        return self._known[trial]

    def _found(self, trial: str) -> tuple[str, str]:
        if trial not in self._rows:  # was never recorded: only itself is like it
            return trial, ""
        setting, _, variant, *_, parents, _ = self._rows[trial]
        if not parents:
            return setting, variant
        content, variants = [setting], [variant]
        for parent in parents.split(", "):
            role, _, parent_id = parent.partition(":")
            before, varied = self.of(parent_id)
            content.append(f"{role}:{before}:{self._rows.get(parent_id, ('', ''))[1]}")
            variants.append(varied)
        whole = hashlib.md5(json.dumps(content).encode(), usedforsecurity=False).hexdigest()
        return whole, chr(30).join(dict.fromkeys(variants))


def _changes(points: Iterable[Point]) -> list[Change]:
    """Pairs inside each group, gathered by what changed."""
    groups: dict[tuple[str, str], dict[str, Point]] = defaultdict(dict)
    for point in points:
        groups[point.setting, point.seed].setdefault(point.variant, point)
    common = Counter(variant for group in groups.values() for variant in group if len(group) > 1)
    pairs: dict[tuple[str, str, str], list[tuple[Point, Point]]] = defaultdict(list)
    for group in groups.values():
        variants = sorted(group, key=lambda variant: (-common[variant], variant))
        for place, before in enumerate(variants):
            for after in variants[place + 1 :]:
                one, other = group[before], group[after]
                pairs[before, after, one.corpus].append((one, other))
    return [_change(key, found) for key, found in pairs.items()]


def _change(key: tuple[str, str, str], pairs: list[tuple[Point, Point]]) -> Change:
    befores, afters = ([pair[side].nats for pair in pairs] for side in (0, 1))
    difference = statistics.paired_difference(afters, befores)
    if difference is None:
        raise ValueError("a change without a pair")
    studies = {point.study for pair in pairs for point in pair}
    settings = {one.setting for one, _ in pairs}
    return Change(*key, difference, len(settings), tuple(sorted(studies)))


def answer(found: Exchange) -> Answer:
    """The changes as rows, for every form that `ablate query` has."""
    names = ["before", "after", "corpus", "split", "difference_nats", "low", "high", "p_holm"]
    names += ["verdict", "pairs", "settings", "studies"]
    p_values = statistics.holm([change.difference.p for change in found.changes])
    rows = []
    for change, p in zip(found.changes, p_values, strict=True):
        difference = change.difference
        before, after = told(change.before, change.after)
        low, high = difference.interval or (None, None)
        verdict = statistics.verdict(difference, p)
        row = (before, after, change.corpus, found.split, difference.mean, low, high, p, verdict)
        rows.append((*row, difference.num_pairs, change.num_settings, ", ".join(change.studies)))
    return Answer(names, rows)


def told(before: str, after: str) -> tuple[str, str]:
    """Two variants, by what differs between them."""
    one, other = (
        dict.fromkeys(part for part in variant.replace(chr(30), chr(31)).split(chr(31)) if part)
        for variant in (before, after)
    )
    ours = [part for part in one if part not in other]
    theirs = [part for part in other if part not in one]
    return ", ".join(ours) or "not set", ", ".join(theirs) or "not set"


def plain_text(found: Exchange, width: int = 100) -> str:
    """The answer for a terminal."""
    what = ", ".join(found.names)
    if not found.changes:
        return (
            f"No two of {found.num_trials} completed trials differ in {what} and in nothing else."
        )
    table = answer(found)
    rows = []
    for before, after, corpus, _, mean, low, high, _, verdict, pairs, settings, _ in table.rows:
        interval = NONE if low is None else f"[{signed(low, 4)}, {signed(high, 4)}]"
        counts = (str(pairs), str(settings))
        rows.append([f"{before} → {after}", corpus, signed(mean, 4), interval, *counts, verdict])
    titles = ["change", "corpus", "Δ nats", "95%\ninterval", "pairs", "settings", "verdict"]
    lines = Grid(titles, rows[:SHOWN], left=["corpus", "verdict"]).lines(width, "-")
    studies = sorted({study for change in found.changes for study in change.studies})
    notes = [
        f"{found.num_trials} completed trials; pairs differ in {what} and in nothing else. Mean "
        f"difference on {found.split}, below 0 is better; paired t, Holm-corrected over "
        f"{len(rows)} row{'' if len(rows) == 1 else 's'}.",
        f"From the studies {', '.join(studies)}.",
    ]
    if len(rows) > SHOWN:
        notes.append(f"{len(rows) - SHOWN} more rows: --format csv has them all.")
    return "\n".join([*lines, "", *(line for n in notes for line in paragraph(n, width, "  "))])
