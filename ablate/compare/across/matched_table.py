"""The changes that `matched.py` found, as a table and for a terminal."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from operator import attrgetter

from ablate.compare.across.changes import MOST_VALUES, Change
from ablate.compare.across.lineage import Setting, Variant, texts
from ablate.compare.across.matched import Exchange
from ablate.compare.formats import Column, Table, for_people, for_programs, text
from ablate.compare.statistics.clusters import MIN_CLUSTERS
from ablate.compare.statistics.computed import ADVICE
from ablate.compare.table.columns import percent
from ablate.compare.table.rows import Comparison
from ablate.compare.table.short_columns import drawn_column
from ablate.compare.text.figures import changed
from ablate.compare.text.plain import paragraph
from ablate.config.metrics import PERPLEXITY, Metric
from ablate.results.verdict import Verdict
from ablate.store.replication import counted

NATS = PERPLEXITY.scale_name
NOT_SET = "not set"
SHOWN = 40  # rows in a terminal
ALONE = (
    "Two settings are two rows: they do not show how much the difference varies between settings, "
    "so a verdict is on that setting alone."
)
EDITED = (
    "If the edit changed what is computed, raise the version in its @register or @task and run "
    "them again."
)


def table(exchanged: Exchange) -> Table:
    """Every number of every change."""
    changes, sides = exchanged.changes, sides_of(exchanged.changes)
    in_nats = all(change.metric.scale_name == NATS for change in changes)
    of_metric = [
        Column(name="metric", of=lambda c: c.metric.scale_name),
        Column(name="better", of=lambda c: c.metric.better),
    ]
    columns = [
        Column(name="before", of=lambda c: sides[c][0]),
        Column(name="after", of=lambda c: sides[c][1]),
        Column(name="corpus", of=attrgetter("corpus")),
        Column(name="split", of=lambda _: exchanged.split),
        *([] if in_nats else of_metric),
        Column(
            name="difference_nats" if in_nats else "difference",
            of=lambda c: c.difference and c.metric.natural(c.difference.mean),
        ),
        Column(name="low", of=lambda c: _ends(c)[0]),
        Column(name="high", of=lambda c: _ends(c)[1]),
        Column(name="p_holm", of=lambda c: c.comparison and c.comparison.p_holm),
        Column(name="verdict", of=_word),
        Column(name="pairs", of=attrgetter("num_pairs")),
        Column(name="settings", of=attrgetter("num_settings")),
        Column(name="setting", of=attrgetter("setting")),
        Column(name="studies", of=lambda c: ", ".join(c.studies)),
        Column(name="lost_pairs", of=attrgetter("num_lost")),
        Column(name="lost", of=lambda c: ", ".join(c.lost)),
        Column(name="seeds_not_computed_alike", of=lambda c: ", ".join(c.not_alike)),
        Column(name="edited_files", of=lambda c: ", ".join(c.edited)),
    ]
    return for_programs(columns, changes)


def _ends(change: Change) -> tuple[float | None, float | None]:
    """The change's own interval, at 95%."""
    interval = change.difference and change.difference.interval
    return change.metric.natural_interval(interval) if interval else (None, None)


def sides_of(
    changes: Sequence[Change], silent: Collection[str] = ()
) -> dict[Change, tuple[str, str]]:
    """Each change's two variants, each by what the other does not have; in full, where two changes
    would have the same names: of a change with a history and one without, that with a history."""
    brief = {c: describe_change(c.before, c.after, silent) for c in changes}
    rows = {c: (*brief[c], c.corpus, c.metric.shown, c.setting) for c in changes}
    of_all = Counter(rows.values())
    alone = Counter(row for change, row in rows.items() if not change.has_history)

    def is_clear(change: Change) -> bool:
        others = of_all if change.has_history else alone
        return others[rows[change]] == 1

    return {
        c: brief[c] if is_clear(c) else (_in_full(c.before), _in_full(c.after)) for c in changes
    }


def describe_change(
    before: Variant, after: Variant, silent: Collection[str] = ()
) -> tuple[str, str]:
    """Two variants, each by what the other does not have."""
    ours, theirs = (
        _in_full((tuple(s for s in settings if s[0] not in silent) or settings,))
        for settings in _apart(before, after)
    )
    return ours, theirs


def _apart(before: Variant, after: Variant) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
    one, other = (dict.fromkeys(itertools.chain(*variant)) for variant in (before, after))
    return tuple(s for s in one if s not in other), tuple(s for s in other if s not in one)


def _in_full(variant: Variant) -> str:
    """All that is named of a trial, and then of what it builds on, which may differ."""
    return ", trained on from ".join(", ".join(stage) or NOT_SET for stage in texts(variant))


def plain_text(exchanged: Exchange, width: int | None = None) -> str:
    """The changes for a terminal: a table for each metric."""
    what, changes = ", ".join(exchanged.names), exchanged.changes
    if not changes:
        trials = counted(exchanged.num_trials, "completed trial")
        sentences = [f"No two of {trials} differ only in {what}.", *other_trials(exchanged)]
        return "\n".join(paragraph(" ".join(sentences), width or text.terminal_width()))
    arrow = arrows(exchanged).__getitem__
    groups: dict[Metric, list[Change]] = {}
    for change in changes[:SHOWN]:
        groups.setdefault(change.metric, []).append(change)
    tables = [
        for_people(
            _columns(rows, metric, arrow),
            rows,
            title=f"{what} exchanged, all else equal: {exchanged.split} {_directed(metric)}",
        )
        for metric, rows in groups.items()
    ]
    *before, last = tables
    first, *others = [*before, replace(last, notes=_notes(exchanged, arrow))]
    return text.write(replace(first, further=others), width)


def arrows(exchanged: Exchange) -> dict[Change, str]:
    """Each change's name, without what tells nothing: a word or a zero that a field has in all
    changes, and the slot's own name, if it is asked for alone."""
    values: dict[str, set[str]] = defaultdict(set)
    for change in exchanged.changes:
        for field, value in itertools.chain(*_apart(change.before, change.after)):
            values[field].add(value)
    silent = {field for field, known in values.items() if len(known) == 1 and _is_plain(*known)}
    sides = sides_of(exchanged.changes, silent)
    names = exchanged.names if len(exchanged.names) == 1 else ()
    slot = re.compile("|".join(rf"(?<![^ ]){re.escape(name)}[.=]" for name in names) or r"(?!)")
    return {change: slot.sub("", " → ".join(both)) for change, both in sides.items()}


def _is_plain(value: str) -> bool:
    return value[:1].isalpha() or value in ("0", "0.0")


def _directed(metric: Metric) -> str:
    """The metric with its better direction, if it has one."""
    return f"{metric.shown}, {metric.better} is better" if metric.directed else metric.shown


def _columns(
    changes: Sequence[Change], metric: Metric, arrow: Callable[[Change], str]
) -> list[Column]:
    """The columns that say something here."""
    found = [change.comparison for change in changes if change.comparison]
    level = f" [{percent(found[0].coverage)}]" if any(one.interval for one in found) else ""
    tested = attrgetter("comparison")

    def delta(one: Comparison) -> str:
        return changed(metric, one.delta, one.interval, metric.digits)

    def named(name: str) -> list[Column]:
        column = Column(name, attrgetter(name), left=True)
        return [column] if any(getattr(change, name) for change in changes) else []

    return [
        Column("change", arrow, left=True, wraps=True),
        *named("corpus"),
        Column(f"Δ{level}", delta, left=True, first=1).about(tested),
        drawn_column(found, metric).about(tested),
        Column("pairs", attrgetter("num_pairs")),
        Column("settings", attrgetter("num_settings")),
        *named("setting"),
        Column("verdict", _verdict, left=True, first=1),
    ]


def _word(change: Change) -> Verdict:
    return change.comparison.verdict if change.comparison else Verdict.UNDECIDED


def _verdict(change: Change) -> str:
    """The verdict, and why there is none."""
    reason = change.comparison.reason if change.comparison else "lost seeds"
    return f"{_word(change)} ({reason})" if reason else _word(change)


def _notes(exchanged: Exchange, arrow: Callable[[Change], str]) -> list[str]:
    changes, trials = exchanged.changes, counted(exchanged.num_trials, "completed trial")
    lost = dict.fromkeys(trial for change in changes for trial in change.lost)
    not_alike = {arrow(c): f"seeds {', '.join(c.not_alike)}" for c in changes if c.not_alike}
    edited = {arrow(c): ", ".join(c.edited) for c in changes if c.edited}
    notes = [
        f"{trials}; pairs differ only in {', '.join(exchanged.names)}. Paired t over the pairs, or "
        f"from {MIN_CLUSTERS} settings on over their means; verdicts and intervals are corrected "
        f"over {counted(len(changes), 'row')}.",
        *other_trials(exchanged),
        *([ALONE] if any(change.setting for change in changes) else []),
    ]
    if lost:
        num, more = sum(change.num_lost for change in changes), len(lost) - SHOWN
        named = f"{', '.join([*lost][:SHOWN])}{f' and {more} more' if more > 0 else ''}"
        notes.append(
            f"Without a difference, as a trial was lost: {counted(num, 'pair')} of {named}. No "
            "verdict favours their side."
        )
    alike = (
        ("computed in two ways", not_alike, ADVICE),
        ("before and after an edit", edited, EDITED),
    )
    for said, of, advice in alike:
        named = "; ".join(f"{name}: {what}" for name, what in of.items())
        notes += [f"Pairs {said} ({named}). {advice}"] if of else []
    if len(changes) > SHOWN:
        notes.append(f"{counted(len(changes) - SHOWN, 'more row')}: --format csv has them all.")
    return [*notes, *other_values(exchanged)]


def other_trials(exchanged: Exchange) -> list[str]:
    """A note on the trials that are in no pair because of their kind."""
    kinds = [f"{num} {kind}" for kind, num in sorted(exchanged.left_out.items())]
    if not kinds:
        return []
    said = f"Trials left out: {', '.join(kinds)}."
    return [f"{said} Pairs are of trials that count for a study's result."]


def other_values(exchanged: Exchange) -> list[str]:
    """A note on the values that are not compared because there are too many."""
    if exchanged.num_values <= MOST_VALUES:
        return []
    return [
        f"{exchanged.num_values} values: only the {MOST_VALUES} with the most trials are compared. "
        "`ablate query` reads the others; a field instead of a slot, or --results or --store with "
        "fewer studies, asks for less."
    ]
