"""The changes that pairs of trials are of, judged as the arms of a table are. Pure.

A change is an arm, compared with what was before it. Its pairs repeat it; from three settings on,
its settings do, each by the mean of its pairs (`clusters.py`). Of two settings, each is a change of
its own.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ablate.compare.across.lineage import Lineage, Variant, texts
from ablate.compare.judged import ALPHA
from ablate.compare.statistics.against import Judge, compared
from ablate.compare.statistics.clusters import MIN_CLUSTERS
from ablate.compare.statistics.family import Family
from ablate.compare.statistics.paired import Difference
from ablate.compare.table.rows import Comparison
from ablate.config.metrics import Metric
from ablate.results.arm import ArmResult, Counts, Measured
from ablate.results.result import MISSING
from ablate.results.spread import mean
from ablate.store import journal
from ablate.store.looks import Looks
from ablate.store.outcome import Status
from ablate.store.replication import Replication

MOST_VALUES = 60  # make 1,770 changes, which grow with the square of the values
ONE_LOOK = Looks(planned=(1,), made=(), pairs=1, unit="pair")


class Trial(NamedTuple):
    """A row of `trials` that completed or was lost, and what decides its pairs."""

    row: Mapping[str, Any]
    metric: Metric
    loss: float | None  # None: it was lost
    lineage: Lineage
    to_run: frozenset[str] = frozenset()  # trials of its arm that are planned and have not ended


Pair = tuple[Trial, Trial]
Group = dict[tuple[Any, ...], Trial]  # trials that differ only in what is named


@dataclass(frozen=True, eq=False)
class Change:
    """A change on one corpus."""

    before: Variant
    after: Variant
    settings: Sequence[Sequence[Pair]]  # the pairs of each
    setting: str = ""  # its name, where the other settings of this change are rows too
    comparison: Comparison | None = None  # None: not judged, or every pair has a lost trial

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every pair."""
        return [*itertools.chain(*self.settings)]

    @cached_property
    def losses(self) -> list[list[tuple[float, float]]]:
        """The losses of the pairs that have both, of each setting with such a pair."""
        settings = [
            [(a.loss, b.loss) for a, b in pairs if a.loss is not None and b.loss is not None]
            for pairs in self.settings
        ]
        return [losses for losses in settings if losses]

    @property
    def difference(self) -> Difference | None:
        """The difference of losses; None where every pair has a lost trial."""
        return self.comparison and self.comparison.difference

    @property
    def metric(self) -> Metric:
        """The metric that decides."""
        return self.pairs[0][0].metric

    @property
    def corpus(self) -> str:
        """The corpus; empty for tasks without one."""
        return self.pairs[0][0].row["corpus"] or ""

    @property
    def has_history(self) -> bool:
        """Return whether its trials build on others with other variants."""
        return len(self.before) > 1 or len(self.after) > 1

    @property
    def num_pairs(self) -> int:
        """How many pairs have a difference."""
        return sum(map(len, self.losses))

    @property
    def studies(self) -> list[str]:
        """The studies of its trials."""
        return sorted({trial.row["study"] or "" for pair in self.pairs for trial in pair})

    @property
    def num_settings(self) -> int:
        """How many settings have such a pair."""
        return len(self.losses)

    @property
    def num_lost(self) -> int:
        """How many pairs have a lost trial."""
        return len(self.pairs) - self.num_pairs

    @property
    def lost(self) -> list[str]:
        """The trials that were lost."""
        trials = itertools.chain(*self.pairs)
        return [*dict.fromkeys(t.row["trial"] for t in trials if t.loss is None)]

    @property
    def not_alike(self) -> list[str]:
        """The seeds of pairs that were computed in two ways."""
        ways = (
            (a.row["seed"], a.lineage.computed_by, b.lineage.computed_by) for a, b in self.pairs
        )
        odd = {seed for seed, *both in ways if not journal.computed_alike(*both)}
        return [str(seed) for seed in sorted(seed for seed in odd if seed is not None)]

    @property
    def edited(self) -> list[str]:
        """The user's files that were edited between the trials of a pair."""
        sources = {(a.row["sources"] or "", b.row["sources"] or "") for a, b in self.pairs}
        return sorted({file for one, other in sources for file in _edited(one, other)})

    def arms(self, first: int) -> tuple[ArmResult, ArmResult]:
        """What was before, and the arm that is compared with it; results are counted from
        `first`."""
        repeated = self.losses
        if len(repeated) < MIN_CLUSTERS:
            repeated = [[pair] for losses in self.losses for pair in losses]
        before = self._arm(0, f"{first} before", first, repeated)
        after = self._arm(1, f"{first} after", first, repeated)
        return before, replace(after, against=before.name)

    def _arm(
        self, side: int, name: str, first: int, repeated: Sequence[Sequence[tuple[float, float]]]
    ) -> ArmResult:
        values = {at: mean([loss[side] for loss in own]) for at, own in enumerate(repeated, first)}
        lost = sum(pair[side].loss is None for pair in self.pairs)
        left = len(frozenset().union(*(pair[side].to_run for pair in self.pairs)))
        fates = [*[Status.COMPLETED] * len(values), *[Status.DIVERGED] * lost, *[MISSING] * left]
        return ArmResult(
            name=name,
            is_base=False,
            num_parameters=None,
            counts=Counts(planned=len(fates), completed=len(values), diverged=lost, missing=left),
            measured=Measured(metric=self.metric, losses={}, cells={}, lost={}, published={}),
            tokens=0,
            seconds=0.0,
            trials=tuple(pair[side].row["trial"] for pair in self.pairs),
            values=values,
            fates=dict(enumerate(fates, first)),
        )


def _edited(one: str, other: str) -> list[str]:
    """The files that both trials ran, in different versions."""
    ours, theirs = (
        dict(entry.rsplit(" ", 1) for entry in sources.split("; ") if entry)
        for sources in (one, other)
    )
    return [file for file, text in ours.items() if theirs.get(file, text) != text]


def groups_of(trials: Iterable[Trial]) -> list[Group]:
    """The trials that differ only in what is named, if there are two or more."""
    groups: dict[tuple[Any, ...], Group] = defaultdict(dict)
    # Of two equal trials, one that completed counts rather than one that was lost.
    for trial in sorted(trials, key=lambda trial: trial.loss is None):
        lineage, metric = trial.lineage, trial.metric
        judged_by = metric.name, metric.better, metric.scale_name
        group = groups[lineage.setting, lineage.seeds, trial.row["seed"], judged_by]
        group.setdefault((lineage.variant, lineage.unnamed), trial)
    return [group for group in groups.values() if len(group) > 1]


def common_of(groups: Iterable[Group]) -> list[Variant]:
    """The variants, from the one that the most groups have on."""
    variants = ({variant for variant, _ in group} for group in groups)
    common = Counter(itertools.chain.from_iterable(variants))
    return sorted(common, key=lambda variant: (-common[variant], texts(variant)))


def changes_of(groups: Iterable[Group], common: Sequence[Variant]) -> list[Change]:
    """The judged changes, those with the most pairs first."""
    ranks = {variant: rank for rank, variant in enumerate(common[:MOST_VALUES])}
    pairs: dict[tuple[Any, ...], list[Pair]] = defaultdict(list)
    for group in groups:
        chosen = (item for item in group.items() if item[0][0] in ranks)
        # The variant that more groups have is `before`, whatever the trials found.
        ordered = sorted(chosen, key=lambda item: ranks[item[0][0]])
        for ((before, _), a), ((after, _), b) in itertools.combinations(ordered, 2):
            # Equal variants in one group differ in unnamed fields.
            if before != after and a.lineage.agrees(b.lineage):
                metric = a.metric.name, a.metric.better, a.metric.scale_name
                pairs[before, after, a.row["corpus"], metric].append((a, b))
    rows = [_rows_of(before, after, own) for (before, after, *_), own in pairs.items()]
    return _judged([*itertools.chain.from_iterable(sorted(rows, key=_order))])


def _order(rows: Sequence[Change]) -> tuple[Any, ...]:
    first, pairs = rows[0], sum(row.num_pairs for row in rows)
    return -pairs, first.corpus, texts(first.before), texts(first.after)


def _rows_of(before: Variant, after: Variant, pairs: Sequence[Pair]) -> list[Change]:
    """One row for the change, or one for each of its settings if these are too few to test."""
    by_setting: dict[Any, list[Pair]] = defaultdict(list)
    for a, b in pairs:
        by_setting[a.lineage.setting, a.lineage.unnamed, b.lineage.unnamed].append((a, b))
    settings = [*by_setting.values()]
    change = Change(before, after, settings)
    if len(settings) == 1 or len(change.losses) >= MIN_CLUSTERS:
        return [change]
    every = [Change(before, after, [own]) for own in settings]
    apart = sum(len(one.studies) for one in every) == len(change.studies)
    rows = [
        replace(one, setting=", ".join(one.studies) if apart else f"of {_first_trial(one)}")
        for one in every
    ]
    return sorted(rows, key=lambda row: (-row.num_pairs, row.setting))


def _first_trial(change: Change) -> str:
    return min(trial.row["trial"] for trial, _ in change.pairs)


def _judged(changes: Sequence[Change]) -> list[Change]:
    """The changes with their comparisons; those of all metrics are one family."""
    firsts = itertools.accumulate((len(change.pairs) for change in changes), initial=0)
    arms = [change.arms(first) for change, first in zip(changes, firsts, strict=False)]
    replication = Replication(num_seeds=len(arms))
    judges = {c.metric: Judge(c.metric, ALPHA, replication, ONE_LOOK) for c in changes}
    p_values: dict[Metric, list[float | None]] = defaultdict(list)
    for change, (before, after) in zip(changes, arms, strict=True):
        difference = judges[change.metric].difference([(after, 1), (before, -1)], [*after.values])
        p_values[change.metric].append(difference and difference.p)
    found: dict[str, Comparison | None] = {}
    for metric, judge in judges.items():
        own = [a for a, change in zip(arms, changes, strict=True) if change.metric == metric]
        others = itertools.chain(*(p for other, p in p_values.items() if other != metric))
        summaries = compared([*itertools.chain(*own)], judge, Family(len(own), tuple(others)))
        found |= {summary.name: summary.comparison for summary in summaries}
    return [
        replace(change, comparison=found[after.name])
        for change, (_, after) in zip(changes, arms, strict=True)
    ]
