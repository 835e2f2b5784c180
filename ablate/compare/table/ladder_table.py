"""The table of a study's ladder, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from ablate.compare.formats import Column, Table, for_people, for_programs
from ablate.compare.statistics.equivalent import FAR, Equivalent
from ablate.compare.statistics.ladder import OverRow, OverRungs, RungRow
from ablate.compare.statistics.trend import Hold, Trend
from ablate.compare.table import columns as shown
from ablate.compare.table.notes import about_unclear
from ablate.compare.table.rows import Comparison, Summary
from ablate.compare.text.figures import NONE, changed, count
from ablate.results.replication import counted, plural
from ablate.store.study_record import study_key

Row = RungRow | OverRow
OF_TREND = {  # what is said of a gain in the metric's unit
    Trend.GROWS: "its gain in {} grows with compute",
    Trend.SHRINKS: "its gain in {} shrinks with compute",
    Trend.NONE: "no trend of its gain in {} is shown",
}
OF_HOLD = {  # what is said of what is left of it
    Hold.HOLDS: "it still holds {beyond}",
    Hold.NOT_SHOWN: "it is not shown to hold {beyond}",
    Hold.WORSE: "the arm is worse on rung {largest}",
}


def over_rungs_table(found: OverRungs) -> Table:
    """The table for people."""
    first = found.first
    record, percent = first.record, f"[{100 * (1 - first.alpha):g}%]"
    name = shown.delta_name(first)
    rows = [*found.rows, *found.over]
    columns = [
        Column("rung", lambda row: _rung(row, found), left=True, names=True),
        Column("arm", lambda row: row.arm, left=True, names=True),
        Column("params", _of_rung(lambda row: count(row.own.num_parameters))),
        Column("compute", _of_rung(lambda row: count(row.compute))),
        Column(first.split, _of_rung(_mean)),
        Column(f"{name} base, {first.split}\n{percent}", _of_rung(_gain), first=1),
        Column(f"base needs\n{percent}", lambda row: needs(row.needed), first=1),
    ]
    if found.over:
        columns += [
            Column(f"{name} for ten times\nthe compute", _of_all(_line("slope"))),
            Column(f"{name} at {found.times:g} times\nthe largest", _of_all(_line("beyond"))),
            Column("base needs for ten\ntimes the compute", _of_all(lambda row: needs(row.change))),
        ]
    columns.append(Column("verdict", _verdict, left=True, first=1))
    return for_people(
        columns,
        rows,
        title=f"{study_key(record.name, record.one_of)} · {len(record.rungs)} rungs",
        question=record.question,
        settings=[*_settings(found)],
        below=[*map(partial(sentence, found=found), found.over)],
        warnings=[*_warnings(found)],
        notes=[*_notes(found)],
    )


def sentence(row: OverRow, found: OverRungs) -> str:
    """What is found of an arm, in words."""
    largest = found.rungs[-1]
    if row.needed is None:
        gets = f"no number says what {row.against} needs to get there: {row.problem}"
    else:
        beyond = ", extrapolated beyond the ladder" if row.needed.beyond else ""
        gets = f"{row.against} needs {_as_much(row.needed)} to get there{beyond}"
        if row.change:
            gets += f", and for ten times the compute {needs(row.change, mark='')} of that"
    if row.reason:
        return f"{row.arm}, on rung {largest}: {gets}. Over all rungs: {row.reason}."
    beyond = f"at {found.times:g} times the compute of {largest}, where the line is extrapolated"
    trend = OF_TREND[row.trend].format(row.of.metric.shown)
    hold = OF_HOLD[row.hold].format(beyond=beyond, largest=largest)
    return f"{row.arm}, on rung {largest}: {gets}; {trend}, and {hold}."


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
        *_comparison_columns("delta", _of_rung(attrgetter("gain"), None), scale, found.first),
        Column(name="paired_by", of=lambda row: row.of.replication.unit),
        *(
            Column(name=name, of=attrgetter(of)).about(attrgetter("needed"))
            for name, of in (*_ends("base_needs"), ("base_needs_extrapolated", "beyond"))
        ),
        *_comparison_columns("slope", _of_all(attrgetter("slope"), None), scale, found.first),
        *_comparison_columns("carried", _of_all(attrgetter("beyond"), None), scale, found.first),
        *(
            Column(name=name, of=attrgetter(of)).about(_of_all(attrgetter("change"), None))
            for name, of in _ends("base_needs_change")
        ),
        Column(name="carried_to", of=_of_all(lambda row: found.times, None)),
        Column(name="verdict", of=_word),
        Column(name="reason", of=lambda row: _tested(row) and _tested(row).reason),
    ]
    return for_programs(columns, [*found.rows, *found.over])


def _comparison_columns(
    name: str, of: Callable[[Row], Comparison | None], scale: str, first: Summary
) -> list[Column]:
    """A difference with its interval and its tests."""

    def end(at: int, compared: Comparison) -> float | None:
        interval = compared.difference.interval
        return interval and first.metric.natural_interval(interval)[at]

    columns = [
        Column(name=f"{name}_{scale}", of=lambda c: first.metric.natural(c.difference.mean)),
        Column(name=f"{name}_low_{scale}", of=partial(end, 0)),
        Column(name=f"{name}_high_{scale}", of=partial(end, 1)),
        Column(name=f"{name}_p", of=lambda c: c.difference.p),
        Column(name=f"{name}_p_holm", of=lambda c: c.p_holm),
    ]
    return [column.about(of) for column in columns]


def _ends(name: str) -> tuple[tuple[str, str], ...]:
    return (name, "ratio"), (f"{name}_low", "low"), (f"{name}_high", "high")


def _of_rung(value: Callable[[RungRow], Any], otherwise: Any = "") -> Callable[[Row], Any]:
    return lambda row: value(row) if isinstance(row, RungRow) else otherwise


def _of_all(value: Callable[[OverRow], Any], otherwise: Any = "") -> Callable[[Row], Any]:
    return lambda row: value(row) if isinstance(row, OverRow) else otherwise


def _rung(row: Row, found: OverRungs) -> str:
    return row.rung if isinstance(row, RungRow) else f"{len(found.rungs)} rungs"


def _key(row: Row) -> str:
    record = row.of.record
    return record.key if isinstance(row, RungRow) else study_key(record.name, record.one_of)


def _of_cell(name: str, row: RungRow) -> float | None:
    cell = row.own.cells.get(row.of.split)
    return cell and getattr(cell, name)


def _mean(row: RungRow) -> str:
    return shown.mean_and_spread(row.own.cells.get(row.of.split), shown.decimals(row.of))


def _gain(row: RungRow) -> str:
    return shown.delta(row.own, row.of.metric, shown.decimals(row.of))


def _line(of: str) -> Callable[[OverRow], str]:
    def written(row: OverRow) -> str:
        line: Comparison = getattr(row, of)
        return changed(row.of.metric, line.delta, line.interval, shown.decimals(row.of))

    return written


def _tested(row: Row) -> Any:
    return row.gain if isinstance(row, RungRow) else row.slope


def _word(row: Row) -> str | None:
    if isinstance(row, OverRow):
        return row.verdict
    return row.gain and row.gain.verdict


def _verdict(row: Row) -> str:
    if isinstance(row, RungRow) and row.own.is_base:
        return ""
    word, tested = _word(row), _tested(row)
    if not word:
        return NONE
    return f"{word} ({tested.reason})" if tested.reason else word


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


def _unclear(found: OverRungs) -> Iterator[str]:
    """The rows on which an interval and the corrected test differ."""
    for row in found.rows:
        if row.gain and row.gain.unclear:
            yield f"{row.arm} on {row.rung}"
    for row in found.over:
        if row.slope.unclear or row.beyond.unclear:
            yield f"{row.arm} over {len(found.rungs)} rungs"


def _notes(found: OverRungs) -> Iterator[str]:
    first = found.first
    units = plural(first.replication.unit)
    if elsewhere := first.elsewhere:
        named = ", ".join(f"{arm} with {other}" for arm, other in elsewhere.items())
        yield f"Not compared with the base arm, which 'base' then stands for: {named}."
    yield (
        "Compute: operations of a seed's training, without the optimizer. Base needs: the compute "
        "at which the base's curve E + A C^-a reaches the arm's loss, over the arm's own."
    )
    if any(row.needed and row.needed.beyond for row in found.rows):
        yield "*: more than the base has on the largest rung; its curve is extrapolated."
    if any(row.needed and row.needed.ratio is None for row in found.rows):
        yield (
            f"Far above, far below: more than {FAR:g} times the compute of the largest rung, or "
            f"less than a {FAR:g}th of the smallest's, so no number is given."
        )
    yield from about_unclear([*_unclear(found)])
    if not found.over:
        yield "Trends are tested once every rung has been run."
        return
    yield (
        f"Trends are a paired t over the slopes of {units}, against log compute. What is carried "
        f"to {found.times:g} times the compute of the largest rung assumes that the line goes on."
    )
    if any(row.trend for row in found.over):
        yield (
            f"Grows, shrinks: the gain in {first.metric.shown}. Where the base's curve flattens, a "
            "constant factor of compute is a smaller and smaller difference: the gain of an arm "
            "that is better shrinks, and that of an arm that is worse grows. Base needs for ten "
            "times the compute: by what the factor itself is multiplied. That is not tested."
        )
    yield (
        f"All {counted(found.family, 'test')} of this table, of gains on rungs and of lines over "
        "them, are Holm-corrected together. The tables of single rungs have families of their own "
        f"(ablate table {first.record.key})."
    )
