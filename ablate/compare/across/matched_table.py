"""The changes that `matched.py` found, as a table and for a terminal."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from ablate.compare.across.changes import (
    MOST_VALUES,
    NOTHING,
    Change,
    Setting,
    Variant,
    texts,
)
from ablate.compare.across.matched import Exchange
from ablate.compare.formats import Column, Table, for_people, table_of_values, text
from ablate.compare.judged import ALPHA
from ablate.compare.statistics import computed
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.against import Judge
from ablate.compare.statistics.clusters import MIN_CLUSTERS
from ablate.compare.statistics.paired import Difference
from ablate.compare.statistics.possible import possible_from
from ablate.compare.table.columns import percent
from ablate.compare.table.rows import Comparison
from ablate.compare.table.short_columns import drawn_column
from ablate.compare.text.figures import changed
from ablate.compare.text.plain import paragraph
from ablate.config.metrics import PERPLEXITY, Metric
from ablate.results.verdict import Verdict
from ablate.store.looks import Looks
from ablate.store.replication import Replication, counted

NATS = PERPLEXITY.scale_name
NOT_SET = "not set"
SHOWN = 40  # rows in a terminal
ALONE = (
    "Two settings are two rows: they do not show how much the difference varies between settings, "
    "so a verdict is on that setting alone."
)


def table(exchanged: Exchange) -> Table:
    """Every number of every change."""
    metrics = [change.metric for change in exchanged.changes]
    in_nats = all(metric.scale_name == NATS for metric in metrics)
    delta = ["difference_nats"] if in_nats else ["metric", "better", "difference"]
    names = ["before", "after", "corpus", "split", *delta, "low", "high", "p_holm"]
    names += ["verdict", "pairs", "settings", "setting", "studies", "lost_pairs", "lost"]
    names += ["seeds_not_computed_alike", "edited_files"]
    rows = []
    sides = _sides(exchanged.changes)
    for (change, found), side in zip(_compared(exchanged), sides, strict=True):
        d, metric = change.difference, change.metric
        row = [*side, change.corpus, exchanged.split]
        row += [] if in_nats else [metric.scale_name, metric.better]
        ends = d and d.interval and metric.natural_interval(d.interval)
        row += [d and metric.natural(d.mean), *(ends or (None, None)), found and found.p_holm]
        row += [_verdict((change, found)), change.num_pairs]
        row += [change.num_settings, change.setting, ", ".join(change.studies)]
        row += [change.num_lost, ", ".join(lost.trial for lost in change.lost)]
        row += [", ".join(change.not_alike), ", ".join(change.edited)]
        rows.append(row)
    return table_of_values(names, rows)


def _compared(exchanged: Exchange) -> list[tuple[Change, Comparison | None]]:
    """Each change with its verdict, corrected over all of them; none without a difference."""
    changes = exchanged.changes
    p_values = statistics.holm([c.difference and c.difference.p for c in changes])
    return [
        (change, change.difference and _comparison(change, change.difference, p, len(changes)))
        for change, p in zip(changes, p_values, strict=True)
    ]


def _comparison(
    change: Change, difference: Difference, p_holm: float | None, family: int
) -> Comparison:
    """The verdict as a table of as many rows has it, of pairs that are looked at once."""
    num = difference.num_pairs
    looks = Looks(planned=(num,), made=(num,), pairs=num, unit="pair")
    judge = Judge(change.metric, ALPHA, Replication(num_seeds=num), looks)
    reason = _reservation(change, difference, p_holm)
    possible = possible_from(change.at, change.metric)
    return judge.comparison(difference, p_holm, reason, family, possible=possible)


def _reservation(change: Change, difference: Difference, p_holm: float | None) -> str:
    """Why the test cannot decide; empty if it can."""
    verdict = statistics.verdict(difference, p_holm)
    before, after = change.withheld_from
    if verdict.decided and (after if verdict == Verdict.BETTER else before):
        return "lost seeds"
    return "no spread" if difference.is_constant else "1 pair" if difference.num_pairs == 1 else ""


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
    return change.corpus, change.metric.shown, change.setting


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
    """The changes for a terminal: a table for each metric."""
    what, changes = ", ".join(exchanged.names), exchanged.changes
    wording, trials = Wording(exchanged), counted(exchanged.num_trials, "completed trial")
    if not changes:
        sentences = [f"No two of {trials} differ only in {what}.", *other_trials(exchanged)]
        return "\n".join(paragraph(" ".join(sentences), width or text.terminal_width()))
    notes = [
        f"{trials}; pairs differ only in {what}. Paired t over the pairs, or from {MIN_CLUSTERS} "
        "settings on over their means; verdicts and intervals are corrected over "
        f"{counted(len(changes), 'row')}.",
        *other_trials(exchanged),
        *([ALONE] if any(change.setting for change in changes) else []),
        *_left_out(exchanged),
        *_without_spread(changes, wording),
        *_not_alike(changes, wording),
        *_edited_between(changes, wording),
    ]
    if len(changes) > SHOWN:
        more = counted(len(changes) - SHOWN, "more row")
        notes.append(f"{more}: --format csv has them all.")
    notes += other_values(exchanged)
    groups: dict[Metric, list[tuple[Change, Comparison | None]]] = {}
    for row in _compared(exchanged)[:SHOWN]:
        groups.setdefault(row[0].metric, []).append(row)
    tables = [
        for_people(
            _columns(rows, metric, wording),
            rows,
            title=f"{what} exchanged, all else equal: {exchanged.split} {_directed(metric)}",
        )
        for metric, rows in groups.items()
    ]
    *before, last = tables
    first, *others = [*before, replace(last, notes=notes)]
    return text.write(replace(first, further=others), width)


def _directed(metric: Metric) -> str:
    """The metric with its better direction, if it has one."""
    return f"{metric.shown}, {metric.better} is better" if metric.directed else metric.shown


def _columns(
    rows: Sequence[tuple[Change, Comparison | None]], metric: Metric, wording: Wording
) -> list[Column]:
    """The columns that say something here."""
    changes = [change for change, _ in rows]
    found = [comparison for _, comparison in rows if comparison]
    level = f" [{percent(found[0].coverage)}]" if any(one.interval for one in found) else ""
    of_change, tested = itemgetter(0), itemgetter(1)

    def delta(one: Comparison) -> str:
        return changed(metric, one.delta, one.interval, metric.digits)

    drawing = drawn_column(found, metric).about(tested)
    columns = [
        Column("change", wording.arrow, left=True, wraps=True),
        *(
            [Column("corpus", lambda c: c.corpus, left=True)]
            if any(c.corpus for c in changes)
            else []
        ),
    ]
    last = [Column("pairs", lambda c: c.num_pairs), Column("settings", lambda c: c.num_settings)]
    if any(change.setting for change in changes):
        last.append(Column("setting", lambda c: c.setting, left=True))
    return [
        *(column.about(of_change) for column in columns),
        Column(f"Δ{level}", delta, left=True, first=1).about(tested),
        drawing,
        *(column.about(of_change) for column in last),
        Column("verdict", _verdict, left=True, first=1),
    ]


def _verdict(row: tuple[Change, Comparison | None]) -> Verdict:
    _, comparison = row
    return comparison.verdict if comparison else Verdict.UNDECIDED


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
