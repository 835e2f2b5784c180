"""The changes that `pairs.py` found, as a table and for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ablate.compare.formats import Table, table_of, table_of_values, text
from ablate.compare.records.pairs import Change, Exchange
from ablate.compare.statistics import computed
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.replication import counted
from ablate.compare.text.figures import NONE, signed
from ablate.config.metrics import PERPLEXITY, Metric

NATS = PERPLEXITY.scale_name
SHOWN = 40  # rows in a terminal


def table(exchanged: Exchange) -> Table:
    """Every number of every change."""
    metrics = [change.metric for change in exchanged.changes]
    in_nats = all(metric.scale_name == NATS for metric in metrics)
    delta = ["difference_nats"] if in_nats else ["metric", "better", "difference"]
    names = ["before", "after", "corpus", "split", *delta, "low", "high", "p_holm"]
    names += ["verdict", "pairs", "settings", "studies", "lost_pairs", "diverged"]
    names += ["seeds_not_computed_alike", "edited_files"]
    p_values = _p_holm(exchanged)
    rows = []
    for change, metric, p in zip(exchanged.changes, metrics, p_values, strict=True):
        d = change.difference
        row = [*describe_change(change.before, change.after), change.corpus, exchanged.split]
        row += [] if in_nats else [metric.scale_name, metric.better]
        row += [d and d.mean, *((d and d.interval) or (None, None)), p, statistics.verdict(d, p)]
        row += [change.num_pairs, change.num_settings, ", ".join(change.studies), change.num_lost]
        row += [", ".join(point.trial for point in change.diverged), ", ".join(change.not_alike)]
        row += [", ".join(change.edited)]
        rows.append(row)
    return table_of_values(names, rows)


def _p_holm(exchanged: Exchange) -> list[float | None]:
    differences = [change.difference for change in exchanged.changes]
    return statistics.holm([d and d.p for d in differences])


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
    what, changes = ", ".join(exchanged.names), exchanged.changes
    if not changes:
        return f"No two of {exchanged.num_trials} completed trials differ only in {what}."
    rows = _shown_rows(exchanged)
    studies = sorted({study for change in changes for study in change.studies})
    notes = [
        f"{exchanged.num_trials} completed trials; pairs differ only in {what}. Mean "
        f"difference on {exchanged.split}, {_better(changes)}; paired t, Holm-corrected over "
        f"{counted(len(rows), 'row')}.",
        *_left_out(exchanged),
        f"From the studies {', '.join(studies)}.",
        *_without_spread(changes),
        *_not_alike(changes),
        *_edited_between(changes),
    ]
    if len(rows) > SHOWN:
        more = counted(len(rows) - SHOWN, "more row")
        notes.append(f"{more}: --format csv has them all.")
    left = ["corpus", "metric", "verdict"]
    body = [[*row.values()] for row in rows[:SHOWN]]
    return text.write(table_of([*rows[0]], body, left, notes=notes), width)


def _shown_rows(exchanged: Exchange) -> list[dict[str, str]]:
    """A row for each change, by heading; without the columns that say nothing here."""
    changes = exchanged.changes
    scales = list(dict.fromkeys(change.metric.scale_name for change in changes))
    delta = f"Δ {scales[0]}" if len(scales) == 1 else "Δ"
    rows = []
    for change, p in zip(changes, _p_holm(exchanged), strict=True):
        d, digits = change.difference, _digits(change.metric)
        ends = d and d.interval and [signed(end, digits) for end in d.interval]
        rows.append(
            {
                "change": _arrow(change),
                **({"corpus": change.corpus} if any(c.corpus for c in changes) else {}),
                **({"metric": change.metric.scale_name} if len(scales) > 1 else {}),
                delta: NONE if d is None else signed(d.mean, digits),
                "95%\ninterval": f"[{', '.join(ends)}]" if ends else NONE,
                "pairs": str(change.num_pairs),
                "settings": str(change.num_settings),
                "verdict": statistics.verdict(d, p),
            }
        )
    return rows


def _arrow(change: Change) -> str:
    return " → ".join(describe_change(change.before, change.after))


def _digits(metric: Metric) -> int:
    """Decimal places of a difference on a metric's scale; of shown values it has `digits`."""
    if metric.scale != "linear" or metric.reports_scaled:
        return 4
    return max(0, metric.digits + round(math.log10(metric.factor)))


def _better(changes: Iterable[Change]) -> str:
    """`below 0 is better`, with the names of the metrics if they differ in this."""
    scales: dict[str, list[str]] = {}
    for change in changes:
        known = scales.setdefault(change.metric.better, [])
        known += [name for name in [change.metric.scale_name] if name not in known]
    side = {"lower": "below 0", "higher": "above 0", "neither": "neither side of 0"}
    if len(scales) == 1:
        return f"{side[next(iter(scales))]} is better"
    return "better if " + ", ".join(
        f"{side[better]} for {' and '.join(names)}" for better, names in sorted(scales.items())
    )


def _without_spread(changes: Iterable[Change]) -> list[str]:
    """A note on the changes that no test can decide."""
    named = [_arrow(each) for each in changes if each.difference and each.difference.is_constant]
    return [f"No test, as every pair has the same difference: {'; '.join(named)}."] if named else []


def _not_alike(changes: Iterable[Change]) -> list[str]:
    """A note on the pairs of which kernels computed one trial and torch the other."""
    named = [
        f"{_arrow(change)}{change.corpus and f' on {change.corpus}'}, "
        f"seeds {', '.join(change.not_alike)}"
        for change in changes
        if change.not_alike
    ]
    if not named:
        return []
    return [f"Pairs of a trial by kernels and one by torch: {'; '.join(named)}. {computed.ADVICE}"]


def _edited_between(changes: Iterable[Change]) -> list[str]:
    """A note on the pairs of which one trial ran an earlier version of the user's file."""
    named = [f"{_arrow(change)}: {', '.join(change.edited)}" for change in changes if change.edited]
    if not named:
        return []
    return [
        f"Pairs from before and after an edit of a file ({'; '.join(named)}). If the edit "
        "changed what is computed, raise the version in its @register or @task and run them again."
    ]


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
