"""What a study finds on each of its corpora, and over all of them.

A corpus is a cluster (`clusters.py`): its seeds repeat the corpus's own effect, and only another
corpus repeats an effect beyond it. So the rows over all corpora are a paired t over the corpora's
mean differences, from three corpora on, corrected over the arms. They alone have verdicts: one
table of all verdicts on all corpora would be several families on one page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ablate.compare.judged import Judged
from ablate.compare.statistics import paired
from ablate.compare.statistics.against import Judge
from ablate.compare.statistics.clusters import MIN_CLUSTERS, by_cluster
from ablate.compare.statistics.several import comparisons, reservation
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.results.verdict import Verdict
from ablate.store.looks import Looks
from ablate.store.replication import Replication
from ablate.store.study_record import one_part


@dataclass(frozen=True)
class CorpusRow:
    """An arm on one corpus, or over all of them."""

    corpus: str  # empty: over all
    arm: str
    of: Judged  # of the corpus; over all, of the first
    own: ArmSummary | None  # on this corpus
    over: Comparison | None  # over all corpora
    num_alike: int = 0  # corpora whose mean differences have the more frequent sign

    @property
    def num(self) -> int:
        """How many corpora are behind it."""
        return self.over.difference.num_pairs if self.over else 0


@dataclass(frozen=True)
class OverCorpora:
    """The rows of a table over corpora."""

    summaries: Sequence[Judged]
    rows: Sequence[CorpusRow]

    @property
    def first(self) -> Judged:
        """The summary of the first corpus."""
        return self.summaries[0]

    @property
    def missing(self) -> list[str]:
        """The corpora on which the study has not been run yet."""
        run = {summary.record.part for summary in self.summaries}
        return [corpus for corpus in self.first.record.corpora if corpus not in run]


def over_corpora(summaries: Sequence[Judged]) -> OverCorpora:
    """The rows of each corpus, then those over all corpora if there are three or more."""
    rows = [
        CorpusRow(summary.record.part, arm.name, summary, arm, None)
        for summary in summaries
        for arm in summary.arms
    ]
    return OverCorpora(summaries, [*rows, *_over_all(summaries)])


def _over_all(summaries: Sequence[Judged]) -> Iterator[CorpusRow]:
    """A row for each arm that has a difference on three corpora or more."""
    first = summaries[0]
    alike = {(s.metric, s.split) for s in summaries}
    if len(first.record.corpora) < MIN_CLUSTERS or len(alike) > 1:
        return
    planned = [arm for arm in first.arms if arm.is_tested]
    judge = _judge_of(first)
    differences = {
        arm.name: by_cluster(
            [one.difference.deltas for one in comparisons(summaries, arm.name)], alpha=first.alpha
        )
        for arm in planned
    }
    corrected = paired.holm([d and d.p for d in differences.values()], len(planned))
    for (name, difference), p in zip(differences.items(), corrected, strict=True):
        if difference is None:
            continue
        reason = reservation(summaries, name, "corpora", favours_arm=difference.mean < 0)
        everything = (-math.inf, math.inf)
        over = judge.comparison(difference, p, reason, len(planned), possible=everything)
        withheld = next(filter(None, map(_untested, summaries)), "")
        if withheld:
            over = replace(over, verdict=Verdict.WITHHELD, reason=withheld, favours_arm=None)
        below = sum(delta < 0 for delta in difference.deltas)
        above = sum(delta > 0 for delta in difference.deltas)
        # "+n" would ask for corpora, which nobody can add as they add seeds.
        yield CorpusRow("", name, first, None, replace(over, level=None), max(below, above))


def _judge_of(first: Judged) -> Judge:
    """Decides over corpora: each is a pair, and there is one look."""
    num = len(first.record.corpora)
    looks = Looks(planned=(num,), made=(), pairs=num, unit="corpus")
    repeated = Replication(num_seeds=num)
    return Judge(first.metric, first.alpha, repeated, looks, first.record.margin)


def _untested(summary: Judged) -> str:
    """Why no verdict may come of results on this corpus; empty if one may."""
    if summary.replication.untestable:
        return summary.replication.searches
    settings_of = summary.record.settings_of
    own = settings_of.endswith(one_part("", summary.record.part))
    return "settings of one corpus" if settings_of and not own else ""
