"""The columns of a study's table and of its tests, and how their numbers are written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from operator import attrgetter, itemgetter

from ablate.compare.formats import Best, Column
from ablate.compare.judged import Judged
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.compare.table.wins import columns_of_wins
from ablate.compare.text.figures import NONE, changed, count, decimal, signed
from ablate.config.metrics import BITS, PERPLEXITY, SPLIT, SPLITS, Metric
from ablate.results.arm import Cell
from ablate.store.looks import Looks
from ablate.store.study_record import ArmRecord

# A reason for having no verdict -> what is said in its place, before the other arm's name.
ALIKE = {"same trials": "same settings as", "same results": "same results as"}


def arm_columns(summary: Judged) -> list[Column]:
    """The columns that this table has values for."""
    digits, sized = decimals(summary), not summary.record.imported
    splits = [s for s in SPLITS if any(s in arm.cells for arm in summary.arms)] or [summary.split]
    compared = (c.about(attrgetter("comparison")) for c in columns_of_tests(summary))
    tests = {column.name: column for column in compared}
    p_columns = [tests["p_holm"], tests["p_sign_flip"]]
    return [
        *name_columns(summary),
        *completed(summary),
        *([Column("params", lambda arm: count(arm.num_parameters))] if sized else []),
        *(_split_column(split, summary, digits) for split in splits),
        *(
            other_metric(index, metric, summary)
            for index, metric in enumerate(summary.record.columns)
        ),
        *([_floor_column(summary)] if summary.floor else []),
        Column(_delta_heading(summary), lambda arm: delta(arm, summary.metric, digits), first=1),
        *([] if summary.replication.untestable else p_columns),
        columns_of_wins(summary)[0].about(attrgetter("comparison")),
        Column("verdict", verdict, left=True, first=1),
    ]


def name_columns(summary: Judged) -> list[Column]:
    """The arm's name; of a factorial a column for each factor, where these are narrower."""
    levels = {arm.name: _as_named(arm) for arm in summary.record.arms}
    named = all(name == combination(own) for name, own in levels.items())
    factors = [*dict.fromkeys(factor for own in levels.values() for factor in own)]
    if named and len(factors) > 1 and all(len(own) == len(factors) for own in levels.values()):
        of_factor = [[factor, *(own[factor] for own in levels.values())] for factor in factors]
        if sum(max(map(len, texts)) + 2 for texts in of_factor) <= max(map(len, levels)):
            return [_factor_column(factor, levels) for factor in factors]
    return [Column("arm", lambda arm: arm.name, left=True)]


def _as_named(arm: ArmRecord) -> dict[str, str]:
    """An arm's levels in the order of its name; a stored record has them sorted by factor."""
    return dict(sorted(arm.levels.items(), key=lambda level: arm.name.find(" ".join(level))))


def combination(levels: Mapping[str, str]) -> str:
    """The name of a factorial's arm: notes call it by it."""
    return ", ".join(f"{factor} {level}" for factor, level in levels.items())


def _factor_column(factor: str, levels: Mapping[str, Mapping[str, str]]) -> Column:
    return Column(factor, lambda arm: levels[arm.name][factor], left=True, names=True)


def columns_of_tests(summary: Judged) -> list[Column]:
    """All that a test says: columns about a `Comparison`."""
    metric, replication, scale = summary.metric, summary.replication, scale_of(summary.metric)
    interval, ends = attrgetter("difference.interval"), metric.natural_interval
    interval_of = "settings found" if replication.untestable else "arms"
    delta = Column(metric.scale_name, metric.natural, _in_nats, f"delta_{scale}")
    return [
        Column("pairs", lambda c: c.difference.num_pairs, name="pairs"),
        Column(name="paired_by", of=lambda _: replication.unit),  # no heading: for programs alone
        delta.about(attrgetter("difference.mean")),
        Column(interval_heading(summary), partial(_possible_ends, metric), _interval),
        *(
            Column(name=f"table_{end}_{scale}", of=itemgetter(at)).about(
                partial(_possible_ends, metric)
            )
            for at, end in enumerate(("low", "high"))
        ),
        Column(name="table_coverage", of=attrgetter("coverage")),
        Column(name=f"low_{scale}", of=lambda interval: ends(interval)[0]).about(interval),
        Column(name=f"high_{scale}", of=lambda interval: ends(interval)[1]).about(interval),
        Column(name="interval_of", of=lambda _: interval_of),
        Column(_p_heading(summary.looks), lambda c: c.difference.p, p_value, "p"),
        Column("sign-flip\np", lambda c: c.difference.p_sign_flip, p_value, "p_sign_flip"),
        Column("Holm\np", lambda c: c.p_holm, p_value, "p_holm", first=1),
        *columns_of_wins(summary),
        Column("verdict", lambda c: c.verdict, name="verdict", left=True),
        Column(name="reason", of=attrgetter("reason")),
        Column(name="within", of=attrgetter("less_than")),
        Column(name="more", of=attrgetter("pairs_needed")),
        Column(name=f"detectable_{scale}", of=attrgetter("detectable")),
    ]


def _p_heading(looks: Looks) -> str:
    if not looks.as_planned:
        return "any-time\np"
    return f"{len(looks.planned)} looks'\np" if looks.are_several else "t-test\np"


def scale_of(metric: Metric) -> str:
    """What programs get differences in: nats, or `scaled` as the metric's own scale."""
    return "nats" if metric.reports_scaled else "scaled"


def _in_nats(difference: float) -> str:
    return signed(difference, 4)


def _possible_ends(metric: Metric, comparison: Comparison) -> tuple[float, float] | None:
    """The interval of the whole table on the metric's scale; the part that is possible."""
    if comparison.is_cut and comparison.interval:
        low, high = comparison.interval
        return low / metric.factor, high / metric.factor
    return comparison.bounds and metric.natural_interval(comparison.bounds)


def _interval(interval: tuple[float, float]) -> str:
    return f"[{', '.join(map(_in_nats, interval))}]"


def _split_column(split: str, summary: Judged, digits: int) -> Column:
    decides = split == summary.split

    def cell(arm: ArmSummary) -> str | Best:
        text = mean_and_spread(arm.cells.get(split), digits)
        return Best(text) if arm.best and decides else text

    return Column(summary.shown_split if decides else split, cell, first=2 if decides else 0)


def other_metric(index: int, metric: Metric, summary: Judged) -> Column:
    """A further metric on the split that decides."""
    split = split_of(metric, summary)

    def cell(arm: ArmSummary) -> str:
        return mean_and_spread(arm.others[index].cells.get(split), metric.digits)

    heading = metric.shown + (f"\n{split}" if metric.of == SPLIT else "")
    return Column(heading, cell, apart=True)


def split_of(metric: Metric, summary: Judged) -> str:
    """The split that decides; of a metric that has no splits, what it is of."""
    return summary.split if metric.of == SPLIT else metric.of


def _floor_column(summary: Judged) -> Column:
    split = summary.split
    return Column("above\nfloor", lambda arm: above_floor(arm.cells.get(split), summary))


def mean_and_spread(cell: Cell | None, digits: int) -> str:
    """Return `mean±spread`, or a dash without a value."""
    if cell is None:
        return NONE
    spread = "" if cell.spread is None else f"±{decimal(cell.spread, digits)}"
    return f"{decimal(cell.mean, digits)}{spread}"


def above_floor(cell: Cell | None, summary: Judged) -> str:
    """How far a cell is from the best possible: in percent of perplexity, or in bits."""
    if cell is None or cell.above_floor is None or cell.floor_ratio is None:
        return NONE
    if summary.metric == BITS:
        return signed(cell.above_floor / math.log(2), 3)
    percent = 100 * (cell.floor_ratio - 1)
    return f"{signed(percent, 1)}%" if percent < 1000 else f"×{decimal(cell.floor_ratio, 0)}"


def verdict(arm: ArmSummary) -> str:
    """Return an arm's verdict with the seeds that would decide it; the base arm has none."""
    if arm.comparison is not None and arm.comparison.reason in ALIKE:
        return f"{ALIKE[arm.comparison.reason]} {arm.against or 'base arm'}"
    if arm.comparison is None:
        return NONE if not arm.is_base else ""
    return with_more(arm.comparison)


def with_more(tested: Comparison) -> str:
    """`better`, `better, by less than 1%`, `same`, or `undecided +4` with the number of further
    pairs that would probably decide it."""
    if tested.less_than and tested.verdict.decided:
        return f"{tested.verdict}, by less than {tested.less_than}"
    return (
        tested.verdict
        if tested.pairs_needed is None
        else f"{tested.verdict} +{tested.pairs_needed}"
    )


def decimals(summary: Judged) -> int:
    """As many digits as a paper would print; one number for a table, so that columns line up."""
    if summary.metric != PERPLEXITY:
        return summary.metric.digits
    means = [cell.mean for arm in summary.arms for cell in arm.cells.values()]
    # The median: one arm of huge perplexity must not take the digits of all others.
    typical = sorted(means)[len(means) // 2] if means else 0.0
    return 2 if typical < 100 else 1 if typical < 10_000 else 0


def interval_heading(summary: Judged) -> str:
    """`98.3% interval`, and its subject unless the arms are its subject."""
    return (
        f"{coverage(summary)} interval{summary.looks.interval_of}{summary.replication.interval_of}"
    )


def coverage(summary: Judged) -> str:
    """How often an interval covers the truth: `98.3%`; `shares of 95%` where a ledger gave them."""
    effects = summary.effects.effects if summary.effects else ()
    compared = [arm.comparison for arm in summary.arms if arm.comparison]
    every = {one.coverage for one in [*compared, *effects]}
    return percent(every.pop()) if len(every) == 1 else f"shares of {percent(1 - summary.alpha)}"


def percent(share: float) -> str:
    """`95%`, `98.3%`, `99.97%`: as many digits as it takes to be less than 100%."""
    digits = next(digits for digits in range(1, 16) if float(f"{100 * share:.{digits}f}") < 100)
    return f"{100 * share:.{digits}f}".rstrip("0").rstrip(".") + "%"


def completed(summary: Judged) -> list[Column]:
    """How many of an arm's results there are, where some arm lacks one."""
    if all(arm.counts.whole for arm in summary.arms):
        return []
    return [Column("n", lambda arm: f"{arm.counts.completed}/{arm.counts.planned}")]


def _delta_heading(summary: Judged) -> str:
    """Without "base" if some arms are compared with other arms, which a note names."""
    against = " row above" if summary.record.design == "path" else " base"
    shown = "" if elsewhere_noted(summary) else against
    interval = interval_heading(summary).replace(" of the", " of\nthe")
    return f"{delta_name(summary)}{shown}, {summary.shown_split}\n[{interval}]"


def delta_name(summary: Judged) -> str:
    """What the column of differences is of, if neither of the shown unit nor of its ratios."""
    return "Δ odds" if summary.metric.scale == "logit" else "Δ"


def elsewhere_noted(summary: Judged) -> dict[str, str]:
    """`Judged.elsewhere`; nothing for a path, where every arm is compared with the row above."""
    return {} if summary.record.design == "path" else summary.elsewhere


def delta(arm: ArmSummary, metric: Metric, digits: int) -> str:
    """Return an arm's difference with its interval, or that it is the base arm."""
    if arm.is_base:
        return "base arm"
    if arm.comparison is None:
        return NONE
    return changed(metric, arm.comparison.delta, arm.comparison.interval, digits)


def with_interval(delta: float, interval: tuple[float, float] | None, digits: int) -> str:
    """Return `+0.12 [-0.03, +0.27]`, or the number alone."""
    text = signed(delta, digits)
    if interval is None:
        return text
    low, high = interval
    return f"{text} [{signed(low, digits)}, {signed(high, digits)}]"


def p_value(p: float | None) -> str:
    """Return p without its leading zero, or nothing if there was no test."""
    if p is None:
        return ""
    # From .9995 on, three digits would round up to 1.000.
    return "<.001" if p < 0.001 else "1" if p >= 0.9995 else f"{p:.3f}".lstrip("0")
