"""What a study's pairs will find, before any is trained: "12 seeds find a difference of 3.1%"."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ablate.compare.judged import Judged
from ablate.compare.statistics.design import design_of
from ablate.compare.statistics.paired import Difference
from ablate.compare.statistics.power import MAX_PAIRS, detectable
from ablate.compare.study_summary import open_study
from ablate.results.sizes import shown_size
from ablate.results.spread import mean, spread
from ablate.store import study_record
from ablate.store.replication import MIN_PAIRS, MIN_SEARCHES, counted, plural
from ablate.store.store import Store
from ablate.store.study_record import StudyRecord

LEVEL = 0.05


@dataclass(frozen=True)
class Spread:
    """The standard deviation of differences between paired arms, and how it is known."""

    size: float
    source: str
    free: float | None = None  # degrees of freedom; None: it is known


def foreseen(record: StudyRecord, store: Store, stated: float | None) -> str:
    """Which difference a planned study's pairs find with 80%; `stated`: the spread, if known."""
    replication, tests = record.replication, _num_tests(record)
    num = record.every_look.pairs
    if not tests:
        return ""
    if replication.untestable:
        return (
            f"No verdict can come of {replication.searches} an arm: Search(repeats={MIN_SEARCHES}) "
            "or more."
        )
    if num < MIN_PAIRS:
        return f"No verdict can come of {counted(num, replication.unit)}: from {MIN_PAIRS} on."
    known = Spread(stated, "the spread that the scale states") if stated else None
    known = known or recorded_spread(record, store)
    find = f"{counted(num, replication.unit)} {'finds' if num == 1 else 'find'}"
    spreads = detectable(num, LEVEL / tests, known and known.free)
    more = _proposal(record, num, spreads / 2, LEVEL / tests, known and known.free)
    if known is None:
        return (
            f"{find} a difference of {spreads:.2g} spreads with a probability of 80%. A spread is "
            f"the standard deviation of the differences between paired {plural(replication.unit)}; "
            "it is unknown until a study of this base and corpus has results, or the scale states "
            f"it: Scale(spread=).{more}"
        )
    least = shown_size(spreads * known.size, record.metric)
    unit = "" if least.endswith("%") or " in " in least else f" ({record.metric.shown})"
    found = f"{find} a difference of {least}{unit} with a probability of 80%, at {known.source}"
    return f"{found}.{more}"


def _proposal(record: StudyRecord, num: int, half: float, level: float, free: float | None) -> str:
    """Looks that find half of the difference; empty where looks are planned, or searches repeat.

    Each of two looks has at least half of the error (`looks.largest_p`).
    """
    looks = record.every_look
    if not looks.is_one or looks.made or record.replication.num_searches is not None:
        return ""
    enough = (n for n in range(num + 1, MAX_PAIRS + 1) if detectable(n, level / 2, free) <= half)
    more = next(enough, None)
    if more is None:
        return ""
    return (
        f" With Scale(seeds={more}, looks=({num}, {more})), half of it is found, and an arm that "
        f"the first {num} seeds decide trains no more."
    )


def recorded_spread(record: StudyRecord, store: Store) -> Spread | None:
    """The spread in the study itself, or else in another of the same base, corpus and metric; or
    else what the base arm's own repeats say of it."""
    of_bases = []
    for key in _alike(record, store):
        judged = open_study(store, key)
        if found := _of_differences(judged):
            return found
        of_bases.append(_of_base(judged))
    return next(filter(None, of_bases), None)


def _of_differences(judged: Judged) -> Spread | None:
    differences = [arm.comparison.difference for arm in judged.arms if arm.comparison]
    tested = [d for d in differences if d.spread and d.num_pairs >= MIN_PAIRS]
    return pooled(tested, f"the spread of {judged.record.key}") if tested else None


def _of_base(judged: Judged) -> Spread | None:
    """The spread if another arm varied as the base arm does, and pairs shared nothing."""
    base = next((arm for arm in judged.arms if arm.is_base), None)
    if base is None:
        return None
    values = judged.replication.means(base.values, sorted(base.values))
    deviation = spread(values) if len(values) >= MIN_PAIRS else None
    source = f"the spread of two arms that vary as {base.name} alone does in {judged.record.key}"
    return Spread(math.sqrt(2) * deviation, source, len(values) - 1) if deviation else None


def pooled(differences: Sequence[Difference], source: str) -> Spread:
    """The spread that several arms' differences from one base have. They share the base's noise, so
    the squares of two arms' spreads correlate by a quarter if all arms are equally noisy."""
    squares = [d.spread**2 for d in differences if d.spread]
    free = mean([d.num_pairs - 1 for d in differences])
    arms = len(squares)
    return Spread(math.sqrt(mean(squares)), source, free * arms / (1 + (arms - 1) / 4))


def _alike(record: StudyRecord, store: Store) -> Iterator[str]:
    """The studies to learn from, the one with the most seeds first among the others."""
    if study_record.exists(store, record.key):
        yield record.key
    others = (study_record.read(store, key) for key in study_record.names(store))
    alike = [other for other in others if other.key != record.key and _is_alike(record, other)]
    yield from (other.key for other in sorted(alike, key=lambda other: -other.num_seeds))


def _is_alike(record: StudyRecord, other: StudyRecord) -> bool:
    """Return whether the other study's differences vary as this one's may."""
    same = (other.corpus_digest, other.metric) == (record.corpus_digest, record.metric)
    unit = other.replication.unit == record.replication.unit
    based = other.name == record.name or (_base(other) == _base(record) != "")
    return same and unit and based and not other.smoke


def _base(record: StudyRecord) -> str:
    return next((arm.recipe for arm in record.arms if arm.name == record.base_arm), "")


def _num_tests(record: StudyRecord) -> int:
    """How many comparisons the table will correct together."""
    compared = [arm for arm in record.arms if arm.name != record.base_arm and not arm.together]
    design = design_of(record, [arm.name for arm in record.arms])
    effects = design.contrasts() if design is not None and design.balanced else []
    return len(compared) + len(effects)
