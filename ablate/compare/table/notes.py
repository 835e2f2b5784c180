"""What a study's table says around its rows: settings, holes, how to read it, what to beware of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ablate.compare.formats import BEST
from ablate.compare.judged import Judged
from ablate.compare.statistics.power import MAX_PAIRS
from ablate.compare.statistics.verdicts import rule
from ablate.compare.table import columns as shown
from ablate.compare.table import costs
from ablate.compare.table.advice import advice
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.compare.table.wins import about_wins
from ablate.compare.text.figures import NONE, count, decimal, duration
from ablate.compare.text.lists import capital
from ablate.config.metrics import SPLITS, Metric
from ablate.results.arm import EnsembleResult
from ablate.results.result import RAISED
from ablate.results.sizes import shown_size
from ablate.store.outcome import TEXT
from ablate.store.replication import MIN_PAIRS, counted, plural

_WITHHELD = {
    "to run": "some of its trials or {other}'s are still to run",
    "lost seeds": "the seeds it {lost} may have been its worst",
    "other arm lost seeds": "the seeds {other} {lost} may have been its worst",
    "values of 0": "a value of 0 has no logarithm, and the test compares logarithms",
    "same trials": "its settings are those of {other}, and so are its trials",
    "same results": "every seed has exactly the result of {other}: what it differs in was not "
    "read, or changed nothing",
    "1 pair": "one pair of seeds has no spread",
    "no spread": "every seed gives the same difference (does the trial use its seed?)",
}


ONE_TRAINING = (
    "each arm is one training, which says nothing of how trainings vary: what is decided is "
    "decided of these very trainings"
)


def settings(summary: Judged) -> Iterable[str]:
    """Corpus, repetitions, base arm, unit, and what it cost."""
    record = summary.record
    if record.changed:
        yield f"changed on the command line: {record.changed}"
    if record.corpus:
        yield f"corpus {record.corpus}, digest {record.corpus_digest[:16]}"
    digits = shown.decimals(summary)
    floors = [f"{decimal(summary.floor[s], digits)} {s}" for s in SPLITS if s in summary.floor]
    best = f" · best possible {', '.join(floors)}" if floors else ""
    if record.imported:
        yield f"imported from {record.imported}"
    yield f"{repeated(summary)} · base arm {record.base_arm} · {summary.unit}{best}"
    yield from filter(None, [str(summary.looks), *other_seeds(summary)])
    tokens = _range([arm.tokens for arm in summary.arms if arm.trials and not arm.together])
    if tokens:
        yield f"trained on {tokens} tokens a seed · {duration(summary.seconds)} of training in all"


def other_seeds(summary: Judged) -> Iterable[str]:
    """The looks at other seeds that this study was run with before."""
    record = summary.record
    others = _grouped(
        (str(look.first_seed), str(look.num))
        for look in record.made
        if look.first_seed != record.first_seed
    )
    for first, numbers in others.items():
        yield f"before these seeds, looked at {', '.join(numbers)} seeds from {first} on"


def repeated(summary: Judged) -> str:
    """The searches and seeds, which of them are paired, and what intervals are over."""
    replication, blocks = summary.replication, summary.blocks
    if blocks is not None and blocks.alone:
        return f"one training an arm, paired on {counted(blocks.num, blocks.unit)}"
    seeds = summary.record.seeds if not summary.record.imported else _range_of_seeds(summary)
    on = f" on {counted(blocks.num, blocks.unit)}" if blocks and blocks.unit != TEXT else ""
    how = [*(["a pair is a search"] if replication.by_search else []), *_over(summary)]
    text = f"{_paired(seeds)}{on}" + (f" ({'; '.join(how)})" if how else "")
    if replication.num_searches is None:
        return text
    confirmed = "each confirmed" if replication.num_searches > 1 else "confirmed"
    return f"{replication.searches} an arm, {confirmed} on {text}"


def _over(summary: Judged) -> Iterable[str]:
    """What may be drawn anew where an interval holds: `over seeds and text`."""
    blocks, of_text = summary.blocks, summary.metric.is_of_tokens and not summary.record.imported
    tested = [arm.comparison for arm in summary.arms if arm.comparison]
    if (blocks or of_text) and any(one.interval is not None for one in tested):
        more = f" and {blocks}" if blocks else f", for this {summary.split} text"
        yield f"over {plural(summary.replication.unit)}{more}"


def _paired(seeds: str) -> str:
    """`5 paired seeds`; of arms that have different numbers of seeds, not all are."""
    if " to " in seeds:
        return f"{seeds}, paired where two arms share one"
    return seeds.replace(" seed", " paired seed", 1)


def _range_of_seeds(summary: Judged) -> str:
    """`5 seeds`, or `3 to 7 seeds`: arms that were run elsewhere may have different ones."""
    numbers = [arm.counts.planned for arm in summary.arms]
    low = min(numbers)
    return counted(low, "seed") if low == max(numbers) else f"{low} to {max(numbers)} seeds"


def _range(numbers: Sequence[int]) -> str:
    if not numbers or max(numbers) == 0:
        return ""
    low, high = count(min(numbers)), count(max(numbers))
    return low if low == high else f"{low} to {high}"


def holes(summary: Judged) -> Iterable[str]:
    """The arms with trials that gave no value, and why."""
    if not summary.whole:
        yield f"INCOMPLETE: {'; '.join(_hole(a) for a in summary.arms if not a.whole)}."


def at_floor(summary: Judged) -> Iterable[str]:
    """The arms with values that no mean and no test has, though their trials completed."""
    for arm in summary.arms:
        if num := arm.counts.at_floor:
            yield (
                f"{arm.name}: {num} of {arm.counts.completed} values are 0, which has no "
                "logarithm: they are in no mean and no test here. A metric with "
                'scale="linear" compares them.'
            )


def fewer_seeds(summary: Judged) -> Iterable[str]:
    """The columns whose means leave out completed results, which did not report them."""
    texts = [
        f"{arm.name} {num} of {arm.counts.completed} in {column.metric.shown}"
        for arm in summary.arms
        for column in (() if arm.unmeasured else arm.others)
        if (num := min((cell.num for cell in column.cells.values()), default=0))
        and num < arm.counts.completed
    ]
    if texts:
        yield f"Means over fewer seeds: {'; '.join(texts)}."


def _hole(arm: ArmSummary) -> str:
    counts = arm.counts
    lost = {
        "diverged": counts.diverged,
        RAISED: counts.raised,
        "failed": counts.failed - counts.raised,
        "stopped early": counts.pruned,
        "to run": counts.missing,
    }
    reasons = ", ".join(f"{num} {reason}" for reason, num in lost.items() if num)
    trials = [] if counts.whole else [f"{counts.completed} of {counts.planned} ({reasons})"]
    models = [f"{counted(arm.unmeasured, 'model')} not measured"] if arm.unmeasured else []
    return f"{arm.name}: {', '.join([*trials, *models])}"


def ensembles(summary: Judged) -> Iterable[str]:
    """Yield the result of every ensemble of an arm's models."""
    for ensemble in summary.ensembles:
        result = _result(ensemble, summary)
        yield f"ensemble of {ensemble.num_members} × {ensemble.arm}: {result}"


def _result(ensemble: EnsembleResult, summary: Judged) -> str:
    if not ensemble.cells:
        return "not run yet" if ensemble.status == "missing" else ensemble.status
    digits = shown.decimals(summary)
    cells = [f"{s} {shown.mean_and_spread(c, digits)}" for s, c in ensemble.cells.items()]
    above = shown.above_floor(ensemble.cells.get(summary.split), summary)
    return ", ".join([*cells, *([] if above == NONE else [f"{above} above floor"])])


def run_next(summary: Judged) -> Iterable[str]:
    """What to run next, of results that were made elsewhere; a study's own plan says it."""
    if summary.record.imported:
        yield from (f"Run next for {one}" for one in advice(summary))


def verdicts(summary: Judged) -> Iterable[str]:
    """How to read the verdicts, and what the marks mean."""
    replication = summary.replication
    if summary.num_comparisons and not replication.untestable:
        yield (
            f"Verdicts: paired {_test(summary)} on {_decides_on(summary)}, "
            f"Holm-corrected over {_family(summary)} at "
            f"{100 * summary.alpha:g}%, from {MIN_PAIRS} pairs on. {_about_intervals(summary)}"
        )
        yield from _about_same(summary)
    yield from _about_looks(summary)
    yield from _about_spread(summary)
    yield from _about_delta(summary)
    elsewhere = shown.elsewhere_noted(summary)
    if elsewhere:
        pairs = _grouped((other, f"'{arm}'") for arm, other in elsewhere.items())
        texts = (f"{', '.join(arms)} with '{other}'" for other, arms in pairs.items())
        yield f"Compared with another arm than the base arm: {'; '.join(texts)}."
    yield from _about_undecided(summary)
    if any(arm.best for arm in summary.arms):
        yield f"{BEST}: better than every other arm by the same test, corrected over those."


def _test(summary: Judged) -> str:
    """The test that decides, over pairs or over blocks too."""
    blocks = summary.blocks
    if blocks is not None and blocks.alone:
        return f"t-test over {blocks} (exact where answers are right or wrong)"
    over = plural(summary.replication.unit)
    if blocks is not None:
        return f"{summary.looks.test} over {over} and {blocks}"
    return summary.looks.test + ("" if over == "seeds" else f" over {over}")


def _about_intervals(summary: Judged) -> str:
    """What the intervals are of, and the one case in which they and the words differ."""
    return (
        "All intervals of the table cover the truth together in "
        f"{shown.percent(1 - summary.alpha)} of studies; one that contains 0 stands beside a "
        "verdict where Holm's correction decided other rows first."
    )


def _about_looks(summary: Judged) -> Iterable[str]:
    """The arms that a look decided, and what looks without a plan cost."""
    looks, num = summary.looks, summary.looks.pairs
    stopped = _grouped(
        (str(arm.stopped_at), arm.name) for arm in summary.arms if arm.stopped_at is not None
    )
    if stopped:
        of = counted(num, looks.unit)
        texts = (f"{', '.join(names)} at {at} of {of}" for at, names in stopped.items())
        yield f"Decided by a planned look, and trained no more: {'; '.join(texts)}."
    if not looks.as_planned and not summary.replication.untestable:
        imported = summary.record.imported
        fresh = "ablate judge --ledger FILE --draw NUM" if imported else "ablate study --replicate"
        yield (
            f"These {plural(looks.unit)} were looked at in a way that was not planned. Verdicts "
            "and intervals therefore hold at any number of them, and decide later than a t-test. "
            f"Fresh {plural(looks.unit)} ({fresh}) are judged by one."
        )


def _decides_on(summary: Judged) -> str:
    """The metric and the split, on its scale; what was imported has no split."""
    of = "" if summary.record.imported else f" of {summary.split}"
    return f"{summary.metric.scale_name}{of}"


def _family(summary: Judged) -> str:
    """What the correction is over."""
    if summary.family == summary.num_comparisons:
        return counted(summary.num_comparisons, "comparison")
    return f"{summary.family} tests (arms, main effects and interactions)"


def _about_same(summary: Judged) -> Iterable[str]:
    """What `same` means, if the study has a margin."""
    if summary.record.margin is not None and summary.looks.as_planned:
        family = max(1, summary.family, *summary.record.counted_as.values())
        tests = family * max(1, len(summary.looks.planned))
        level = 100 * (1 - 2 * summary.alpha / tests)
        yield (
            f"same: less than {shown_size(summary.record.margin, summary.metric)} apart, by two "
            f"one-sided tests (the {level:.4g}% interval lies within). A decided row that may be "
            "on either side of this margin keeps its share of the error."
        )


def _about_undecided(summary: Judged) -> Iterable[str]:
    """What +n means, and what could have been found of the rows that have none."""
    arms = [(arm.name, arm.comparison) for arm in summary.arms if arm.comparison]
    effects = [(e.name, e) for e in (summary.effects.every if summary.effects else ())]
    rows: list[tuple[str, Comparison]] = [*arms, *effects]
    unit = plural(summary.replication.unit)
    if any(tested.pairs_needed for _, tested in rows):
        yield (
            f"+n: more {unit} that decide it with a probability of 80%, given what is seen so far, "
            "by the test that holds at any time: it judges what was not planned."
        )
    least = [
        f"{shown_size(tested.detectable, summary.metric)} ({name})"
        for name, tested in rows
        if tested.pairs_needed is None and tested.detectable is not None
    ]
    if least:
        yield (
            f"Undecided without +n: up to {MAX_PAIRS} {unit} do not reach 80%. With 80%, these "
            f"{unit} would have found a difference of {', '.join(least)}."
        )


def _about_spread(summary: Judged) -> Iterable[str]:
    cells = (cell for arm in summary.arms for each in arm.every for cell in each.cells.values())
    if any(cell.spread is not None for cell in cells):
        yield "a±b: the mean over seeds, and the standard deviation over them."


def _about_delta(summary: Judged) -> Iterable[str]:
    """Describe the column of differences, and name the intervals that are cut."""
    if not any(arm.comparison for arm in summary.arms):
        return
    metric = summary.metric
    is_base = not summary.elsewhere and summary.record.design != "path"
    other = "the base arm" if is_base else "the arm compared with"
    if not metric.in_percent:
        yield f"Δ: the mean difference from {other} over the pairs."
    else:
        ratios = "ratios" if metric.scale == "log" else "ratios of odds"
        yield (
            f"{shown.delta_name(summary)}: the geometric mean of the pairs' {ratios} to {other}, "
            "as a change in percent. It is not the difference of the two means shown."
        )
    yield about_wins(summary)
    cut = [arm.name for arm in summary.arms if arm.comparison and arm.comparison.is_cut]
    effects = summary.effects.every if summary.effects else ()
    cut += [effect.name for effect in effects if effect.is_cut]
    yield from _cut_intervals(metric, cut)


def _cut_intervals(metric: Metric, names: Sequence[str]) -> Iterable[str]:
    """Which t intervals are cut at the end of what a metric can be."""
    low, high = metric.range
    ends = f"from {low:g} to {high:g}" if math.isfinite(high) else f"{low:g} or more"
    if math.isinf(low):
        ends = f"{high:g} or less"
    if names:
        yield f"{metric.shown} is {ends}: cut there is the t interval of {', '.join(names)}."


def cautions(summary: Judged) -> Iterable[str]:
    """Withheld verdicts, what is unusual, and whether published numbers are comparable."""
    imported = summary.record.imported
    lost = "has no number for" if imported else "lost to divergence, early stopping or errors"
    for reason, meaning in _WITHHELD.items():
        withheld = [arm.name for arm in summary.arms if _is_withheld(arm, reason)]
        others = (summary.elsewhere.get(name, "the base arm") for name in withheld)
        texts = (meaning.format(other=other, lost=lost) for other in others)
        for text, names in _grouped(zip(texts, withheld, strict=True)).items():
            yield f"No verdict on {', '.join(names)}: {text}."
    yield from costs.cautions(summary)
    if summary.blocks is not None and summary.blocks.alone:
        yield f"{capital(ONE_TRAINING)}."
    yield from summary.notes
    record = summary.record
    if record.paper or record.level:  # papers' numbers are of texts
        yield _about_published(summary)
    if summary.effects is not None and not summary.effects.effects:
        yield from summary.effects.notes


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """First text -> the second texts of its pairs, in order."""
    groups: dict[str, list[str]] = {}
    for first, second in pairs:
        groups.setdefault(first, []).append(second)
    return groups


def _about_published(summary: Judged) -> str:
    scale = f"scale {summary.record.scale}"
    if not summary.record.published_scale:
        return f"{scale}: not comparable with published numbers."
    measured = [each for arm in summary.arms for each in arm.every if each.published]
    if not measured:
        return f"{scale}: no published numbers are recorded for these arms."
    return rule([*dict.fromkeys(each.metric for each in measured)])


def _is_withheld(arm: ArmSummary, reason: str) -> bool:
    of_arm = arm.comparison.reason if arm.comparison else ""
    return of_arm == reason or (reason == "to run" and of_arm.endswith("to run"))
