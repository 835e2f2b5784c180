"""The changes that `matched.py` found, as a table and for a terminal."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from ablate.compare.across.changes import (
    MOST_VALUES,
    NOTHING,
    Change,
    Setting,
    Variant,
    texts,
)
from ablate.compare.across.matched import Exchange
from ablate.compare.formats import Column, Table, table_of_values, text
from ablate.compare.statistics import computed
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.clusters import MIN_CLUSTERS
from ablate.compare.statistics.possible import within
from ablate.compare.table.notes import cut_intervals
from ablate.compare.text.figures import NONE, signed
from ablate.compare.text.plain import paragraph
from ablate.config.metrics import PERPLEXITY, Metric
from ablate.results.verdict import Verdict, of_loss
from ablate.store.replication import counted

NATS = PERPLEXITY.scale_name
NOT_SET = "not set"
SHOWN = 40  # rows in a terminal
DELTA, INTERVAL = "Δ", "95%\ninterval"


def table(exchanged: Exchange) -> Table:
    """Every number of every change."""
    metrics = [change.metric for change in exchanged.changes]
    in_nats = all(metric.scale_name == NATS for metric in metrics)
    delta = ["difference_nats"] if in_nats else ["metric", "better", "difference"]
    names = ["before", "after", "corpus", "split", *delta, "low", "high", "p_holm"]
    names += ["verdict", "pairs", "settings", "setting", "studies", "lost_pairs", "lost"]
    names += ["seeds_not_computed_alike", "edited_files"]
    p_values = _p_holm(exchanged)
    rows = []
    sides = _sides(exchanged.changes)
    for change, metric, p, side in zip(exchanged.changes, metrics, p_values, sides, strict=True):
        d = change.difference
        row = [*side, change.corpus, exchanged.split]
        row += [] if in_nats else [metric.scale_name, metric.better]
        row += [d and d.mean, *((d and d.interval) or (None, None)), p, _verdict(change, p)]
        row += [change.num_pairs, change.num_settings, change.setting, ", ".join(change.studies)]
        row += [change.num_lost, ", ".join(lost.trial for lost in change.lost)]
        row += [", ".join(change.not_alike), ", ".join(change.edited)]
        rows.append(row)
    return table_of_values(names, rows)


def _p_holm(exchanged: Exchange) -> list[float | None]:
    differences = [change.difference for change in exchanged.changes]
    return statistics.holm([d and d.p for d in differences])


def _sides(changes: Sequence[Change]) -> list[tuple[str, str]]:
    """Each change's two variants, each by what the other does not have; in full, where two changes
    would have the same names."""
    brief = [describe_change(change.before, change.after) for change in changes]
    in_full = _ambiguous(brief, changes)
    return [
        (_in_full(change.before), _in_full(change.after)) if full else sides
        for sides, full, change in zip(brief, in_full, changes, strict=True)
    ]


def _ambiguous(brief: Sequence[Hashable], changes: Sequence[Change]) -> list[bool]:
    """Return of each change whether its brief name is not enough to tell it from the others.

    Of a change with a history and one without, the one with a history is named in full.
    """
    rows = [(name, *_place(change)) for name, change in zip(brief, changes, strict=True)]
    history = [len(change.before) > 1 or len(change.after) > 1 for change in changes]
    of_all, of_kind = Counter(rows), Counter(zip(rows, history, strict=True))
    return [
        of_kind[row, has] > 1 or (has and of_all[row] > 1)
        for row, has in zip(rows, history, strict=True)
    ]


def _place(change: Change) -> tuple[str, ...]:
    """What a row shows of a change beside its variants."""
    return change.corpus, _unit(change.metric), change.setting


def _in_full(variant: Variant) -> str:
    """All that is named of a trial, and then of what it builds on, which may differ."""
    return ", trained on from ".join(", ".join(stage) or NOT_SET for stage in texts(variant))


def describe_change(before: Variant, after: Variant) -> tuple[str, str]:
    """Two variants, each by what the other does not have."""
    ours, theirs = (_in_full((settings,)) for settings in _changed(before, after))
    return ours, theirs


def _changed(before: Variant, after: Variant) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
    one, other = (dict.fromkeys(itertools.chain(*variant)) for variant in (before, after))
    return tuple(s for s in one if s not in other), tuple(s for s in other if s not in one)


class Wording:
    """How the changes of a result are named in a terminal: `dropout (input=0.1) → not set`.

    Left out is what tells nothing: a word or a zero that a field has in all changes, a zero where
    the other variant does not have the field, and the slot's own name.
    """

    def __init__(self, exchanged: Exchange) -> None:
        self._slot = exchanged.names[0] if len(exchanged.names) == 1 else ""
        values: dict[str, set[str]] = {}
        for change in exchanged.changes:
            for field, value in itertools.chain(*_changed(change.before, change.after)):
                values.setdefault(field, set()).add(value)
        self._silent = {
            field
            for field, known in values.items()
            if len(known) == 1 and all(value[:1].isalpha() or _is_zero(value) for value in known)
        }
        in_full = _ambiguous([*map(self._brief, exchanged.changes)], exchanged.changes)
        self._in_full = {c for c, full in zip(exchanged.changes, in_full, strict=True) if full}

    def arrow(self, change: Change) -> str:
        """The change, briefly unless the brief name is also another change's."""
        if change not in self._in_full:
            return self._brief(change)
        return f"{_in_full(change.before)} → {_in_full(change.after)}"

    def _brief(self, change: Change) -> str:
        before, after = map(dict, _changed(change.before, change.after))
        return f"{self._side(before, after)} → {self._side(after, before)}"

    def _side(self, variant: Mapping[str, str], other: Mapping[str, str]) -> str:
        said: dict[str, list[str]] = {}
        for field, value in variant.items():
            technique, _, name = field.rpartition(".")
            of_technique = said.setdefault(technique or field, [])
            if field == self._slot:
                of_technique.append(f"{name}={value}" if technique else value)
            elif field not in self._silent and (field in other or not _is_zero(value)):
                short = technique == self._slot or "." in technique
                of_technique.append(f"{name if short else field}={value}")
        return ", ".join(map(self._technique, said, said.values())) or NOT_SET

    def _technique(self, technique: str, said: Sequence[str]) -> str:
        text = ", ".join(said)
        if said and (technique == self._slot or "." not in technique):
            return text
        name = technique.removeprefix(f"{self._slot}.")
        return f"{name} ({text})" if said else name


def _is_zero(value: str) -> bool:
    return value in ("0", "0.0")


def plain_text(exchanged: Exchange, width: int | None = None) -> str:
    """The changes for a terminal."""
    what, changes = ", ".join(exchanged.names), exchanged.changes
    wording = Wording(exchanged)
    if not changes:
        none = (
            f"No two of {counted(exchanged.num_trials, 'completed trial')} differ only in {what}."
        )
        return "\n".join(
            paragraph(" ".join([none, *other_trials(exchanged)]), width or text.terminal_width())
        )
    rows = _shown_rows(exchanged, wording)
    studies = sorted({study for change in changes for study in change.studies})
    notes = [
        f"{counted(exchanged.num_trials, 'completed trial')}; pairs differ only in {what}. Mean "
        f"difference on {exchanged.split}, {_better(changes)}; paired t, Holm-corrected over "
        f"{counted(len(rows), 'row')}.",
        *other_trials(exchanged),
        *_about_settings(changes),
        *_left_out(exchanged),
        f"From the studies {', '.join(studies)}.",
        *_without_spread(changes, wording),
        *_cut_intervals(changes, wording),
        *_not_alike(changes, wording),
        *_edited_between(changes, wording),
    ]
    if len(rows) > SHOWN:
        more = counted(len(rows) - SHOWN, "more row")
        notes.append(f"{more}: --format csv has them all.")
    notes += other_values(exchanged)
    body = [[*row.values()] for row in rows[:SHOWN]]
    return text.write(Table([*map(_column, rows[0])], body, notes=notes), width)


def _column(heading: str) -> Column:
    """The column of a heading of `_shown_rows`; a narrow terminal's first part has the verdicts."""
    decides = heading in ("metric", "verdict") or heading.startswith(DELTA)
    left = heading in ("change", "corpus", "metric", "setting", "verdict")
    return Column(heading, left=left, first=1 if decides else 2 if heading == INTERVAL else 0)


def _shown_rows(exchanged: Exchange, wording: Wording) -> list[dict[str, str]]:
    """A row for each change, by heading; without the columns that say nothing here."""
    changes = exchanged.changes
    scales = list(dict.fromkeys(_unit(change.metric) for change in changes))
    delta = f"{DELTA} {scales[0]}" if len(scales) == 1 else DELTA
    rows = []
    for change, p in zip(changes, _p_holm(exchanged), strict=True):
        d, metric = change.difference, change.metric
        ends = d and d.interval and [_shown(metric, end) for end in _cut(change, d.interval)]
        rows.append(
            {
                "change": wording.arrow(change),
                **({"corpus": change.corpus} if any(c.corpus for c in changes) else {}),
                **({"metric": _unit(metric)} if len(scales) > 1 else {}),
                delta: NONE if d is None else _shown(metric, d.mean),
                INTERVAL: f"[{', '.join(ends)}]" if ends else NONE,
                "pairs": str(change.num_pairs),
                "settings": str(change.num_settings),
                **({"setting": change.setting} if any(c.setting for c in changes) else {}),
                "verdict": _verdict(change, p),
            }
        )
    return rows


def _verdict(change: Change, p_holm: float | None) -> Verdict:
    """The verdict on a difference, which is in the metric's own direction."""
    decided, metric = statistics.verdict(change.difference, p_holm), change.metric
    if change.difference is None or not decided.decided:
        return decided
    below = metric.natural(change.difference.mean) < 0
    before, after = change.withheld_from
    return Verdict.UNDECIDED if (after if below else before) else of_loss(below, metric)


def _cut(change: Change, interval: tuple[float, float]) -> tuple[float, float]:
    """The part of an interval that is possible, from the mean of the first trials."""
    metric = change.metric
    if metric.in_percent:
        return interval
    low, high = ((end - change.at) / metric.factor for end in metric.range)
    return within(interval, (low, high))


def _cut_intervals(changes: Iterable[Change], wording: Wording) -> list[str]:
    """Notes on the intervals that are cut."""
    named: dict[Metric, list[str]] = {}
    for change in changes:
        interval = change.difference and change.difference.interval
        if interval and _cut(change, interval) != interval:
            named.setdefault(change.metric, []).append(wording.arrow(change))
    return [note for metric, names in named.items() for note in cut_intervals(metric, names)]


def _unit(metric: Metric) -> str:
    """The unit of differences: what people read, or the scale, if people read another one."""
    return metric.shown if _as_read(metric) else metric.scale_name


def _as_read(metric: Metric) -> bool:
    return metric.scale == "linear" and not metric.reports_scaled


def _shown(metric: Metric, difference: float) -> str:
    if _as_read(metric):
        return signed(metric.factor * difference, metric.digits)
    return signed(difference, 4)


def _better(changes: Iterable[Change]) -> str:
    """`below 0 is better`, with the names of the metrics if they differ in this."""
    scales: dict[str, list[str]] = {}
    for change in changes:
        known = scales.setdefault(change.metric.better, [])
        known += [name for name in [_unit(change.metric)] if name not in known]
    side = {"lower": "below 0", "higher": "above 0", "neither": "neither side of 0"}
    if len(scales) == 1:
        return f"{side[next(iter(scales))]} is better"
    return "better if " + ", ".join(
        f"{side[better]} for {' and '.join(names)}" for better, names in sorted(scales.items())
    )


def _about_settings(changes: Iterable[Change]) -> list[str]:
    """What is tested of changes with several settings."""
    notes = []
    if any(change.num_settings >= MIN_CLUSTERS for change in changes):
        notes.append(
            f"From {MIN_CLUSTERS} settings on, the test and the interval are over the settings' "
            "means: each counts once, however many pairs it has."
        )
    if any(change.setting for change in changes):
        notes.append(
            "Two settings are two rows: they do not show how much the difference varies between "
            "settings, so a verdict is on that setting alone."
        )
    return notes


def _without_spread(changes: Iterable[Change], wording: Wording) -> list[str]:
    """A note on the changes that no test can decide."""
    constant = [c for c in changes if c.difference and c.difference.is_constant]
    named = dict.fromkeys(map(wording.arrow, constant))
    return [f"No test, as every pair has the same difference: {'; '.join(named)}."] if named else []


def _not_alike(changes: Iterable[Change], wording: Wording) -> list[str]:
    """A note on the pairs of which kernels computed one trial and torch the other."""
    named = [
        f"{wording.arrow(change)}{change.corpus and f' on {change.corpus}'}, "
        f"seeds {', '.join(change.not_alike)}"
        for change in changes
        if change.not_alike
    ]
    if not named:
        return []
    return [f"Pairs of a trial by kernels and one by torch: {'; '.join(named)}. {computed.ADVICE}"]


def _edited_between(changes: Iterable[Change], wording: Wording) -> list[str]:
    """A note on the pairs of which one trial ran an earlier version of the user's file."""
    named = [
        f"{wording.arrow(change)}: {', '.join(change.edited)}"
        for change in changes
        if change.edited
    ]
    if not named:
        return []
    return [
        f"Pairs from before and after an edit of a file ({'; '.join(named)}). If the edit "
        "changed what is computed, raise the version in its @register or @task and run them again."
    ]


def other_trials(exchanged: Exchange) -> list[str]:
    """A note on the trials that are in no pair because of their kind."""
    kinds = [f"{num} {kind}" for kind, num in sorted(exchanged.left_out.items())]
    if not kinds:
        return []
    first, *others = kinds
    number, _, kind = first.partition(" ")
    listed = ", ".join([f"{counted(int(number), 'trial')} {kind}", *others])
    return [f"Left out: {listed}. Pairs are of trials that count for a study's result."]


def other_values(exchanged: Exchange) -> list[str]:
    """A note on the values that are not compared because there are too many."""
    if exchanged.num_values <= MOST_VALUES:
        return []
    return [
        f"{exchanged.num_values} values: only the {MOST_VALUES} with the most trials are compared. "
        "`ablate query` reads the others; a field instead of a slot, or --results or --store with "
        "fewer studies, asks for less."
    ]


def _left_out(exchanged: Exchange) -> list[str]:
    """A note on the pairs without a difference, with the trials that were lost."""
    num = sum(change.num_lost for change in exchanged.changes)
    if not num:
        return []
    trials = dict.fromkeys(lost for change in exchanged.changes for lost in change.lost)
    named = [
        f"{t.trial} ({t.study}, {describe_change(NOTHING, t.lineage.variant)[1]}, seed {t.seed})"
        for t in [*trials][:SHOWN]
    ]
    more = f", and {len(trials) - SHOWN} more" if len(trials) > SHOWN else ""
    pairs = "1 pair is" if num == 1 else f"{num} pairs are"
    return [
        f"{pairs} left out because a trial diverged, was stopped early or raised an error: "
        f"{', '.join(named)}{more}. These may have been the worst of their side, so no verdict is "
        "in its favour."
    ]
