"""A study while it runs, and after: its answer, its table, and everything that it has tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ablate.compare.formats import Column, Table, for_people
from ablate.compare.judged import Judged
from ablate.compare.page.parts import Grid, Text, made_parts, table_parts
from ablate.compare.page.sections import arms as of_arms
from ablate.compare.table.full_table import every_test, full_table
from ablate.compare.table.other_scales import tables_of_other_scales
from ablate.compare.table.study_table import answer_sentences, study_table
from ablate.compare.text.figures import duration, shown
from ablate.live import figures, forecast, times
from ablate.live.followed import Followed
from ablate.live.parts import Bar, Block, Facts, Files, Link, Part, Plotted
from ablate.live.views import show, trials
from ablate.live.views.index import address, of_trial
from ablate.live.views.rows import Rows, chosen_rows
from ablate.store import states
from ablate.store.outcome import Status
from ablate.store.store import Store

MOST_ARMS = 12  # whose settings are shown unfolded
Maker = Callable[[Followed, Mapping[str, str]], Block]


def blocks(study: Followed, params: Mapping[str, str]) -> dict[str, Callable[[], Block]]:
    """The blocks of the page by name, each made when it is asked for."""
    if params.get("show"):
        return {name: lambda make=make: make(study) for name, make in show.MAKERS.items()}
    makers: Mapping[str, Maker] = {
        "now": _now,
        "table": _table,
        "curves": _curves,
        "searches": _searches,
        "costs": _costs,
        "trouble": trials.trouble,
        "workers": trials.workers,
        "trials": trials.listed,
    }
    return {name: lambda make=make: make(study, params) for name, make in makers.items()}


def _now(study: Followed, params: Mapping[str, str]) -> Block:
    """The answer, and how far the study has come."""
    answer = study.once("answer", lambda judged: [*answer_sentences(judged)])
    said = [Text(each, "answer") for each in answer or ["Nothing is compared yet."]]
    return Block("now", "", [*said, *_progress(study)])


def _progress(study: Followed) -> list[Part]:
    """One bar while there is something to run, then when and how long it was."""
    record, left = study.record, forecast.seconds_left(study)
    counts = states.counts(record, None, study.ends, study.driver is not None)
    if record.imported:
        return [Text("Its trials were not run here.", "small")]
    budget = [Facts(pairs)] if (pairs := forecast.budget(study)) else []
    if not study.driver and not counts[Status.LEFT]:
        return [Text(_ended(study), "small"), *budget]
    time_left = f"about {duration(left)} left" if left is not None else ""
    bar = Facts([("", Bar(counts, time_left if study.driver else "not running"))])
    command = [] if study.driver or not record.command else [Text(record.resume, "command")]
    return [bar, *budget, *command]


def _ended(study: Followed) -> str:
    span = times.span(study.journals.values())
    if span is None:
        return "Ended."
    took = duration((span[1] - span[0]).total_seconds())
    return f"Ended {span[1].strftime(times.SHOWN)}, after {took}."


def _table(study: Followed, params: Mapping[str, str]) -> Block:
    number = int(params.get("rows", "1"))

    def make(judged: Judged) -> Block:
        tables = study.once("tables", lambda judged: _tables(judged, study.store))
        return _of_table(*tables, chosen_rows(judged, number, address(study.key)), study.key)

    return study.once(f"table {number}", make)


def _tables(judged: Judged, store: Store) -> tuple[Table, Table, Table | None]:
    """The study's own table, all of it, and its tests; the page writes nothing, so no reference is
    saved."""
    others = tables_of_other_scales(judged, store)
    return study_table(judged), full_table(judged, other_scales=others), every_test(judged)


def _of_table(table: Table, whole: Table, tests: Table | None, rows: Rows, key: str) -> Block:
    bare = replace(rows.of(table), answer=())  # which is above already
    linked = [
        [Link(str(cell), trials.address(key, arm=name)), *others]
        for name, (cell, *others) in zip(rows.shown, bare.rows, strict=True)
    ]
    parts: list[Part] = [*rows.links, *table_parts(replace(bare, rows=linked))]
    parts += [Files(f"/figure{address(key)[6:]}/{figures.OF_TABLE}"), *made_parts(rows.of(whole))]
    if tests is not None:
        parts += [Grid(rows.named(tests), folded="Tests in full")]
    return Block("table", "", parts)


def _curves(study: Followed, params: Mapping[str, str]) -> Block:
    """Where the figures are; the script draws them, and looks for new points later."""
    parts = _drawings(study, figures.OF_ARMS)
    return Block("curves", "Curves" if parts else "", parts)


def _costs(study: Followed, params: Mapping[str, str]) -> Block:
    """The cost of each arm, and its settings."""

    def make(judged: Judged) -> Block:
        (section,) = of_arms.sections(judged, study.store)
        folded = f"{len(judged.record.arms)} arms" if len(judged.record.arms) > MOST_ARMS else ""
        grid, values = section.parts
        parts = [replace(grid, folded=folded), values, *_drawings(study, figures.OF_COSTS)]
        return Block("costs", "Costs", parts)

    return study.once("costs", make)


def _searches(study: Followed, params: Mapping[str, str]) -> Block:
    return study.once("searches", lambda _: _of_searches(study))


def _of_searches(study: Followed) -> Block:
    record = study.record
    if not record.searches:
        return Block("searches", "", [])
    columns = [
        Column("arm", lambda s: s.arm, left=True),
        Column("search", lambda s: s.repeat + 1),
        Column("started", lambda s: len(s.trials)),
        Column("of", lambda s: s.num_trials),
        Column("inherits from", lambda s: s.inherits or "", left=True),
        Column("winner", lambda s: _winner(s.chosen, study.key), left=True),
        Column(f"its {record.metric.shown} of valid", lambda s: _value(s.chosen, study)),
    ]
    parts: list[Part] = [Grid(for_people(columns, record.searches, title="searches"))]
    if not all(search.chosen for search in record.searches):  # else the table has them
        parts += figures.best_settings(study.judged)
    parts += _drawings(study, figures.OF_SEARCHES)
    known = states.STATES[0] in study.ends.values()
    more = ("which settings mattered", f"ablate plot importance {study.key}")
    return Block("searches", "Searches", [*parts, *([Facts([more])] if known else [])])


def _winner(chosen: str | None, key: str) -> Link | str:
    return Link(chosen, of_trial(chosen, key)) if chosen else "not yet"


def _value(chosen: str | None, study: Followed) -> str:
    metric, journal = study.record.metric, study.journals.get(chosen or "")
    loss = None if journal is None else metric.loss_of(journal.metrics, "valid")
    return "" if loss is None else shown(metric, loss)


def _drawings(study: Followed, names: tuple[str, ...]) -> list[Part]:
    drawn = {name: study.figure(name) for name in names}
    where = f"/figure{address(study.key)[6:]}"
    return [Plotted(f"{where}/{name}", one) for name, one in drawn.items() if one is not None]
