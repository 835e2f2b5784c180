"""What `matched.py` pairs, and the changes that the pairs are of. Pure.

A change is one row, tested over its settings' means, or one row for each setting where these are
fewer than three (`clusters.py`).
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ablate.compare.across.kinds import FINAL
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.clusters import MIN_CLUSTERS, by_cluster
from ablate.compare.statistics.paired import Difference
from ablate.config.metrics import Metric
from ablate.store import journal

MOST_VALUES = 60  # make 1,770 changes, which grow with the square of the values
Setting = tuple[str, str]  # a field and its value
# What is named of a trial, and then of what it builds on.
Variant = tuple[tuple[Setting, ...], ...]
NOTHING: Variant = ((),)


class Unnamed(NamedTuple):
    """The values of a regularizer's unnamed fields, where other fields of it are named."""

    present: bool
    inert: bool  # without the named fields it would do nothing
    values: tuple[str | None, ...]

    def agrees(self, other: Unnamed) -> bool:
        """Return whether these fields allow two trials to be a pair."""
        if self.present and other.present:
            return self.values == other.values
        return self.present == other.present or (self if self.present else other).inert


class Lineage(NamedTuple):
    """The values that decide a trial's pairs: the trial's own, and those of its ancestors."""

    setting: str  # hash of everything but the seeds, the variant and `unnamed`
    unnamed: tuple[Unnamed, ...] = ()
    variant: Variant = NOTHING
    computed_by: frozenset[str] = frozenset()
    seeds: tuple[str, ...] = ()  # of all that it builds on

    def agrees(self, other: Lineage) -> bool:
        """Return whether all unnamed fields allow a pair."""
        pairs = zip(self.unnamed, other.unnamed, strict=True)
        return all(ours.agrees(theirs) for ours, theirs in pairs)


@dataclass(frozen=True)
class ComparedTrial:
    """A trial that completed or was lost."""

    trial: str
    lineage: Lineage
    seed: str
    corpus: str
    metric: Metric
    loss: float | None  # None: it was lost
    study: str
    sources: str = ""  # the user's files that it ran: "digits.py 1a2b; ..."
    kind: str = FINAL

    @property
    def judged_by(self) -> tuple[str, str, str]:
        """What two trials must share to be compared."""
        return self.metric.name, self.metric.better, self.metric.scale_name


@dataclass(frozen=True)
class Change:
    """The effect of a change on one corpus."""

    before: Variant
    after: Variant
    corpus: str
    metric: Metric
    difference: Difference | None  # of losses; None: every pair has a lost trial
    num_settings: int
    studies: tuple[str, ...]
    num_lost: int  # pairs with a lost trial
    lost: tuple[ComparedTrial, ...]  # these trials
    not_alike: tuple[str, ...] = ()  # seeds of pairs that were computed in two ways
    edited: tuple[str, ...] = ()  # the user's files that were edited between trials of a pair
    at: float = 0.0  # the mean of the first trials, as people read it
    num_pairs: int = 0  # behind the difference, which may be over settings' means
    setting: str = ""  # the row's only setting, if others of this change are rows too

    @property
    def withheld_from(self) -> tuple[bool, bool]:
        """Return whether `before`, and whether `after`, lost trials, which may have been its worst:
        no verdict is in its favour."""
        variants = [trial.lineage.variant for trial in self.lost]
        return self.before in variants, self.after in variants


def texts(variant: Variant) -> list[list[str]]:
    """The settings of a variant, such as `head=mos`, for each stage."""
    return [[f"{name}={value}" for name, value in stage] for stage in variant]


def _order(rows: Sequence[Change]) -> tuple[Any, ...]:
    """The change with the most pairs first."""
    first = rows[0]
    pairs = sum(row.num_pairs for row in rows)
    return -pairs, first.corpus, texts(first.before), texts(first.after)


Pair = tuple[ComparedTrial, ComparedTrial]
Group = dict[tuple[Any, ...], ComparedTrial]  # trials that differ only in what is named


def groups_of(trials: Iterable[ComparedTrial]) -> list[Group]:
    """The trials that differ only in what is named, if there are two or more."""
    groups: dict[tuple[Any, ...], Group] = defaultdict(dict)
    # Of two equal trials, one that completed counts rather than one that was lost.
    for trial in sorted(trials, key=lambda trial: trial.loss is None):
        lineage = trial.lineage
        group = groups[lineage.setting, lineage.seeds, trial.seed, trial.judged_by]
        group.setdefault((lineage.variant, lineage.unnamed), trial)
    return [group for group in groups.values() if len(group) > 1]


def common_of(groups: Iterable[Group]) -> list[Variant]:
    """The variants, from the one that the most groups have on."""
    variants = ({variant for variant, _ in group} for group in groups)
    common = Counter(itertools.chain.from_iterable(variants))
    return sorted(common, key=lambda variant: (-common[variant], texts(variant)))


def changes_of(groups: Iterable[Group], common: Sequence[Variant]) -> list[Change]:
    """The pairs of each group, by what changed; the changes with the most pairs first."""
    ranks = {variant: rank for rank, variant in enumerate(common[:MOST_VALUES])}
    pairs: dict[tuple[Variant, Variant, str, Any], list[Pair]] = defaultdict(list)
    for group in groups:
        chosen = (item for item in group.items() if item[0][0] in ranks)
        # The variant that more groups have is `before`, whatever the trials found.
        ordered = sorted(chosen, key=lambda item: ranks[item[0][0]])
        for ((before, _), a), ((after, _), b) in itertools.combinations(ordered, 2):
            # Equal variants in one group differ in unnamed fields.
            if before != after and a.lineage.agrees(b.lineage):
                pairs[before, after, a.corpus, a.judged_by].append((a, b))
    rows = (
        _rows_of(before, after, corpus, of_change)
        for (before, after, corpus, _), of_change in pairs.items()
    )
    return [*itertools.chain.from_iterable(sorted(rows, key=_order))]


def _rows_of(before: Variant, after: Variant, corpus: str, pairs: list[Pair]) -> list[Change]:
    """One row for the change, or one for each of its settings if these are too few to test."""
    clusters: dict[Any, list[Pair]] = defaultdict(list)
    for a, b in pairs:
        clusters[a.lineage.setting, a.lineage.unnamed, b.lineage.unnamed].append((a, b))
    settings = [*clusters.values()]
    whole = [some for some in settings if any(None not in (a.loss, b.loss) for a, b in some)]
    if len(settings) == 1 or len(whole) >= MIN_CLUSTERS:
        return [_change(before, after, corpus, settings, pairs)]
    labels = _labels(settings)
    rows = [
        replace(_change(before, after, corpus, [some], some), setting=label)
        for label, some in zip(labels, settings, strict=True)
    ]
    return sorted(rows, key=lambda row: (-row.num_pairs, row.setting))


def _labels(settings: Sequence[Sequence[Pair]]) -> list[str]:
    """Each setting by its studies; by one of its trials, if they share some."""
    studies = [{trial.study for pair in pairs for trial in pair} for pairs in settings]
    if sum(map(len, studies)) == len(set().union(*studies)):
        return [", ".join(sorted(known)) for known in studies]
    return [f"of {min(a.trial for a, _ in pairs)}" for pairs in settings]


def _change(
    before: Variant,
    after: Variant,
    corpus: str,
    settings: Sequence[Sequence[Pair]],
    pairs: Sequence[Pair],
) -> Change:
    metric = pairs[0][0].metric
    deltas_of = [
        [b.loss - a.loss for a, b in some if a.loss is not None and b.loss is not None]
        for some in settings
    ]
    deltas_of = [deltas for deltas in deltas_of if deltas]
    losses = [(a.loss, b.loss) for a, b in pairs if a.loss is not None and b.loss is not None]
    size = max((abs(loss) for pair in losses for loss in pair), default=0.0)
    lost = dict.fromkeys(trial for pair in pairs for trial in pair if trial.loss is None)
    ways = ((a.seed, a.lineage.computed_by, b.lineage.computed_by) for a, b in pairs)
    odd = {seed for seed, one, other in ways if not journal.computed_alike(one, other)}
    return Change(
        before,
        after,
        corpus,
        metric,
        by_cluster(deltas_of, size=size)
        or statistics.paired_difference([*itertools.chain(*deltas_of)], size=size),
        num_settings=len(deltas_of),
        num_pairs=len(losses),
        studies=tuple(sorted({trial.study for pair in pairs for trial in pair})),
        num_lost=len(pairs) - len(losses),
        lost=tuple(lost),
        not_alike=tuple(sorted(odd, key=lambda seed: (len(seed), seed))),  # as numbers: 9 before 10
        at=statistics.mean([metric.show(a) for a, _ in losses]) if losses else 0.0,
        edited=tuple(sorted({file for a, b in pairs for file in _edited(a.sources, b.sources)})),
    )


def _edited(one: str, other: str) -> list[str]:
    """The files that both trials ran, in different versions."""
    ours, theirs = (
        dict(entry.rsplit(" ", 1) for entry in sources.split("; ") if entry)
        for sources in (one, other)
    )
    return [file for file, text in ours.items() if theirs.get(file, text) != text]
