"""The table of a study's ladder, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from ablate.compare.formats import Column, Table, for_people, for_programs
from ablate.compare.judged import Judged
from ablate.compare.statistics.equivalent import FAR, Equivalent
from ablate.compare.statistics.ladder import BEYOND, LARGEST, SLOPE, OverRow, OverRungs, RungRow
from ablate.compare.statistics.trend import Hold, Trend
from ablate.compare.table import columns as shown
from ablate.compare.table.rows import ArmSummary, Comparison
from ablate.compare.table.short_columns import drawn_column
from ablate.compare.text.figures import NONE, changed, count
from ablate.store.replication import counted, plural
from ablate.store.study_record import study_key

Row = RungRow | OverRow
OF_TREND = {  # what is said of the saving: of what the base needs, over what the arm uses
    Trend.GROWS: "its saving grows with compute",
    Trend.SHRINKS: "its saving shrinks with compute",
    Trend.NONE: "no trend of its saving is shown",
}
OF_HOLD = {
    Hold.HOLDS: "it is shown to hold at {times} times the compute",
    Hold.NOT_SHOWN: "it is not shown to hold at {times} times the compute",
    Hold.WORSE: "the arm is worse than {against} is with as much compute",
}


def over_rungs_table(found: OverRungs, *, full: bool = False) -> Table:
    """The table for people: what each arm saves over all rungs, then every rung. `full`: with all
    about how its numbers were made."""
    first = found.first
    key = study_key(first.record.name, first.record.one_of)
    around = {
        "title": f"{key} · {len(first.record.rungs)} rungs",
        "question": first.record.question,
        "settings": [*_settings(found)],
        "warnings": [*_warnings(found)],
        "answer": [sentence(row, found) for row in found.over if not _is_said(row, found)],
    }
    how = [*_notes(found)] if full else [f"How these numbers were made: ablate table {key} --notes"]
    notes = [*_of_this(found), *how]
    if not found.over:
        return for_people(_rung_columns(found), found.rows, notes=notes, **around)
    every_rung = for_people(_rung_columns(found), found.rows)
    return for_people(_over_columns(found), found.over, notes=notes, further=[every_rung], **around)


def _over_columns(found: OverRungs) -> list[Column]:
    largest, times, percent = found.rungs[-1], found.times, f"[{100 * (1 - found.first.alpha):g}%]"
    others = {row.against for row in found.over}
    base = found.first.called(*others) if len(others) == 1 else "base"
    return [
        Column("arm", attrgetter("arm"), left=True, names=True),
        Column(f"{base} needs\non {largest} {percent}", lambda row: needs(row.needed), first=1),
        Column("for ten times\nthe compute", lambda row: needs(row.change)),
        Column(f"at {times:g} times\n{largest}", lambda row: needs(row.beyond)),
        Column("verdict", _verdict, left=True, first=1),
    ]


def _rung_columns(found: OverRungs) -> list[Column]:
    first = found.first
    name, coverage = shown.delta_name(first), shown.percent(1 - first.alpha / max(1, found.family))
    gains = [row.gain for row in found.rows]
    return [
        Column("rung", attrgetter("rung"), left=True, names=True),
        Column("arm", attrgetter("arm"), left=True, names=True),
        Column("params", lambda row: count(row.own.num_parameters), spare=2),
        Column("compute", lambda row: count(row.compute), spare=3),
        Column(first.split, _mean),
        Column(f"{name} from base\n[{coverage}]", _gain, left=True, first=1),
        drawn_column(gains, first.metric).about(_own_or_gain),
        Column("base needs", lambda row: needs(row.needed), first=1),
        Column("verdict", _verdict, left=True, first=1),
    ]


def _own_or_gain(row: RungRow) -> ArmSummary | Comparison | None:
    return row.own if row.own.is_base else row.gain


def _is_said(row: OverRow, found: OverRungs) -> bool:
    """Return whether a warning says already why no number says what the compared arm needs."""
    return row.arm in found.climbs and bool(found.climbs[row.arm].problem)


def sentence(row: OverRow, found: OverRungs) -> str:
    """What is found of an arm, in words."""
    largest = found.rungs[-1]
    if row.needed is None:
        gets = f"no number says what {row.against} needs to get there: {row.problem}"
    else:
        beyond = ", extrapolated beyond the ladder" if row.needed.beyond else ""
        gets = f"{row.against} needs {_as_much(row.needed)} to get there{beyond}"
    said = f"{row.arm}, on rung {largest}: {gets}"
    if row.reason:
        return f"{said}. Over all rungs: {row.reason}."
    hold = OF_HOLD[row.hold].format(largest=largest, against=row.against, times=f"{found.times:g}")
    return f"{said}; {OF_TREND[row.trend]}; {hold}."


def needs(needed: Equivalent | None, mark: str = "*") -> str:
    """`1.18x [1.09, 1.27]`, with a mark if the curve is extrapolated for it."""
    if needed is None:
        return ""
    low, high = (None if end is None else _times(end) for end in (needed.low, needed.high))
    if low is None and high is None:
        ends = "[open]"
    elif low is None or high is None:
        ends = f"[{low} or more]" if low else f"[{high} or less]"
    else:
        ends = f"[{low}, {high}]"
    if needed.ratio is None:
        return f"far {'above' if needed.beyond else 'below'} {ends}"
    return f"{_times(needed.ratio)}x{mark if needed.beyond else ''} {ends}"


def _as_much(needed: Equivalent) -> str:
    if needed.ratio is not None:
        return f"{needs(needed, mark='')} as much compute"
    _, _, ends = needs(needed).partition("[")
    return f"far {'more' if needed.beyond else 'less'} compute, [{ends} times as much,"


def over_rungs_numbers(found: OverRungs) -> Table:
    """Every number, for programs: differences on the scale of the tests."""
    scale = shown.scale_of(found.first.metric)
    columns = [
        Column(name="study", of=_key),
        Column(name="rung", of=_of_rung(attrgetter("rung"), None)),
        Column(name="arm", of=attrgetter("arm")),
        Column(name="metric", of=lambda row: row.of.metric.name),
        Column(name="split", of=lambda row: row.of.split),
        Column(name="parameters", of=_of_rung(lambda row: row.own.num_parameters, None)),
        Column(name="compute", of=_of_rung(attrgetter("compute"), None)),
        *(Column(name=n, of=_of_rung(partial(_of_cell, n), None)) for n in ("mean", "spread")),
        *_comparison_columns(_of_rung(attrgetter("gain"), None), scale, found.first),
        Column(name="paired_by", of=lambda row: row.of.replication.unit),
        *(
            Column(name=name, of=attrgetter(of)).about(attrgetter("needed"))
            for name, of in (*_ends("base_needs"), ("base_needs_extrapolated", "beyond"))
        ),
        *_test_columns("base_needs", LARGEST),
        *_ratio_columns("base_needs_change", "change"),
        *_test_columns("base_needs_change", SLOPE),
        *_ratio_columns("base_needs_beyond", "beyond"),
        *_test_columns("base_needs_beyond", BEYOND),
        Column(name="beyond", of=_of_all(lambda row: found.times, None)),
        Column(name="verdict", of=_word),
        Column(name="reason", of=_reason),
    ]
    return for_programs(columns, [*found.rows, *found.over])


def _comparison_columns(
    of: Callable[[RungRow], Comparison | None], scale: str, first: Judged
) -> list[Column]:
    """A difference with its interval and its tests."""

    def end(at: int, compared: Comparison) -> float | None:
        interval = compared.difference.interval
        return interval and first.metric.natural_interval(interval)[at]

    columns = [
        Column(name=f"delta_{scale}", of=lambda c: first.metric.natural(c.difference.mean)),
        Column(name=f"delta_low_{scale}", of=partial(end, 0)),
        Column(name=f"delta_high_{scale}", of=partial(end, 1)),
        Column(name="delta_p", of=lambda c: c.difference.p),
        Column(name="delta_p_holm", of=lambda c: c.p_holm),
    ]
    return [column.about(of) for column in columns]


def _ratio_columns(name: str, of: str) -> Iterator[Column]:
    """A number of an arm over all rungs, with its interval."""
    for each, part in _ends(name):
        yield Column(name=each, of=attrgetter(part)).about(_of_all(attrgetter(of), None))


def _test_columns(name: str, what: str) -> Iterator[Column]:
    """A test of an arm over all rungs."""
    tested = _of_all(lambda row: row.tests.get(what), None)
    yield Column(name=f"{name}_p", of=lambda test: test.difference.p).about(tested)
    yield Column(name=f"{name}_p_holm", of=attrgetter("p_holm")).about(tested)


def _ends(name: str) -> tuple[tuple[str, str], ...]:
    return (name, "ratio"), (f"{name}_low", "low"), (f"{name}_high", "high")


def _of_rung(value: Callable[[RungRow], Any], otherwise: Any = "") -> Callable[[Row], Any]:
    return lambda row: value(row) if isinstance(row, RungRow) else otherwise


def _of_all(value: Callable[[OverRow], Any], otherwise: Any = "") -> Callable[[Row], Any]:
    return lambda row: value(row) if isinstance(row, OverRow) else otherwise


def _key(row: Row) -> str:
    record = row.of.record
    return record.key if isinstance(row, RungRow) else study_key(record.name, record.one_of)


def _of_cell(name: str, row: RungRow) -> float | None:
    cell = row.own.cells.get(row.of.split)
    return cell and getattr(cell, name)


def _mean(row: RungRow) -> str:
    return shown.mean_and_spread(row.own.cells.get(row.of.split), shown.decimals(row.of))


def _gain(row: RungRow) -> str:
    if row.own.is_base:
        return "base"
    gain, digits = row.gain, shown.decimals(row.of)
    return changed(row.of.metric, gain.delta, gain.interval, digits) if gain else NONE


def _reason(row: Row) -> str | None:
    if isinstance(row, OverRow):
        return row.reason
    return row.gain and row.gain.reason


def _word(row: Row) -> str | None:
    if isinstance(row, OverRow):
        return row.verdict
    return row.gain and row.gain.verdict


def _verdict(row: Row) -> str:
    if isinstance(row, RungRow) and row.own.is_base:
        return ""
    word, reason = _word(row), _reason(row)
    if not word:
        return NONE
    return f"{word} ({reason})" if reason else word


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.3g}"


def _settings(found: OverRungs) -> Iterator[str]:
    record = found.first.record
    yield f"{record.seeds} per arm and rung; base arm '{record.base_arm}'"
    fields = ", ".join(record.sizes)
    yield f"Rungs: {fields}" + (f"; transferred: {record.rule}" if record.rule else "")


def _warnings(found: OverRungs) -> Iterator[str]:
    if found.missing:
        yield f"Not run yet on {', '.join(found.missing)}."
    short = [s.record.part for s in found.summaries if not s.whole]
    if short:
        yield f"Some results are missing on {', '.join(short)}."
    problems = {climb.problem: climb.against for climb in found.climbs.values() if climb.problem}
    for problem, against in problems.items():
        yield f"No number says how much compute {against} needs: {problem}."


def _of_this(found: OverRungs) -> Iterator[str]:
    """What to know of this very table."""
    if elsewhere := found.first.elsewhere:
        named = ", ".join(f"{arm} with {other}" for arm, other in elsewhere.items())
        yield f"Not compared with the base arm, which 'base' then stands for: {named}."
    if any(row.needed and row.needed.beyond for row in found.rows):
        yield "*: more than the base has on the largest rung; its curve is extrapolated."
    if any(row.needed and row.needed.ratio is None for row in found.rows):
        yield (
            f"Far above, far below: more than {FAR:g} times the compute of the largest rung, or "
            f"less than a {FAR:g}th of the smallest's, so no number is given."
        )


def _notes(found: OverRungs) -> Iterator[str]:
    """How the numbers were made."""
    first = found.first
    units = plural(first.replication.unit)
    yield (
        "Compute: operations of a seed's training, without the optimizer. Base needs: the compute "
        "at which the base's curve E + A C^-a reaches the arm's loss, over the arm's own."
    )
    if unclear := [row.arm for row in found.over if row.unclear]:
        yield (
            f"Over {len(found.rungs)} rungs, an interval of {', '.join(unclear)} excludes 1 "
            "although the corrected test decided nothing."
        )
    if not found.over:
        yield "Trends are tested once every rung has been run."
        return
    yield (
        "Over all rungs, the words are of the saving: of what the base needs, over what the arm "
        f"uses. Its logarithm has a line over log compute for each of the {units}; a paired t over "
        "their slopes and over their ends decides. For ten times the compute: by what the saving "
        f"is multiplied. At {found.times:g} times the largest: that the line and the base's curve "
        "go on is assumed."
    )
    yield (
        f"All {counted(found.family, 'test')} of this table, of gains on rungs and of savings over "
        "them, are Holm-corrected together. The tables of single rungs have families of their own "
        f"(ablate table {first.record.key})."
    )
