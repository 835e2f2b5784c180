"""A study while it runs: what its table says so far, and everything that it has tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ablate.compare.formats import Column, Table, for_people
from ablate.compare.judged import Judged
from ablate.compare.page.parts import Grid, Text, made_parts, small, table_parts
from ablate.compare.table.full_table import every_test, full_table
from ablate.compare.table.other_scales import tables_of_other_scales
from ablate.compare.table.study_table import study_table
from ablate.compare.text.figures import NONE, count, duration
from ablate.live import figures, forecast
from ablate.live.followed import Followed
from ablate.live.parts import Bar, Block, Facts, Link, Part, Plotted
from ablate.live.views import trials
from ablate.live.views.index import address, of_trial
from ablate.live.views.rows import Rows, chosen_rows
from ablate.store import states
from ablate.store.replication import counted
from ablate.store.store import Store
from ablate.store.study_record import ArmRecord

MOST_ARMS = 60  # whose progress is shown
Maker = Callable[[Followed, Mapping[str, str]], Block]


def blocks(study: Followed, params: Mapping[str, str]) -> dict[str, Callable[[], Block]]:
    """The blocks of the page by name, each made when it is asked for."""
    makers: Mapping[str, Maker] = {
        "now": _now,
        "table": _table,
        "arms": _arms,
        "pictures": _pictures,
        "underway": _under_way,
        "searches": _searches,
        "trouble": trials.trouble,
        "workers": trials.workers,
        "trials": trials.listed,
    }
    return {name: lambda make=make: make(study, params) for name, make in makers.items()}


def _now(study: Followed, params: Mapping[str, str]) -> Block:
    record, left = study.record, forecast.seconds_left(study)
    counts = states.counts(record, None, study.ends, study.driver is not None)
    looks = str(study.judged.looks)
    pairs: list[tuple[str, Any]] = [
        ("trials", Bar(counts)),
        ("state", _state(study)),
        *([("imported from", record.imported)] if record.imported else []),
        *([("time left", f"about {duration(left)}")] if left is not None else []),
        ("trained so far", duration(study.judged.seconds)),
        *forecast.budget(study),
        ("base arm", record.base_arm),
        ("seeds", record.seeds),
        *([("looks", looks)] if looks else []),
        *([("damaged", counted(len(study.damaged), "journal"))] if study.damaged else []),
        *([("corpus", record.corpus)] if record.corpus else []),
        *([("driver", study.driver)] if study.driver else []),
    ]
    command = [] if study.driver or not record.command else [Text(record.resume, "command")]
    question = [Text(record.question)] if record.question else []
    return Block("now", "", [*question, Facts(pairs), *command])


def _state(study: Followed) -> str:
    if study.record.imported:
        return "imported: its trials were not run here"
    return "running" if study.driver else "not running"


def _table(study: Followed, params: Mapping[str, str]) -> Block:
    number = int(params.get("rows", "1"))

    def make(judged: Judged) -> Block:
        tables = study.once("tables", lambda judged: _tables(judged, study.store))
        return _of_table(judged, *tables, chosen_rows(judged, number, address(study.key)))

    return study.once(f"table {number}", make)


def _tables(judged: Judged, store: Store) -> tuple[Table, Table, Table | None]:
    """The study's own table, all of it, and its tests; the page writes nothing, so no reference is
    saved."""
    others = tables_of_other_scales(judged, store)
    return study_table(judged), full_table(judged, other_scales=others), every_test(judged)


def _of_table(judged: Judged, table: Table, whole: Table, tests: Table | None, rows: Rows) -> Block:
    parts: list[Part] = [*rows.links, *table_parts(rows.of(table)), *made_parts(rows.of(whole))]
    if tests is not None:
        parts += [Grid(rows.named(tests), folded="Tests in full"), *small(tests.notes)]
    # The question is above already.
    shown = [part for part in parts if getattr(part, "text", "") != judged.record.question]
    return Block("table", "Results", shown)


def _arms(study: Followed, params: Mapping[str, str]) -> Block:
    record, alive, ends = study.record, study.driver is not None, study.ends
    shown = record.arms[:MOST_ARMS]
    counts = {arm.name: states.counts(record, arm.name, ends, alive) for arm in shown}
    columns = [
        Column("arm", lambda a: Link(a.name, trials.address(study.key, arm=a.name)), left=True),
        Column("progress", lambda a: Bar(counts[a.name]), left=True),
        Column("against", lambda a: _against(a, record.base_arm), left=True),
        Column("parameters", lambda a: count(a.num_parameters) if a.num_parameters else NONE),
        Column("trials", lambda a: counts[a.name].total()),
    ]  # fmt: skip
    if any(arm.stopped_at is not None for arm in shown):
        columns.append(Column("decided at", lambda a: a.stopped_at))
    table = for_people(columns, shown, title="arms")
    more = len(record.arms) - len(shown)
    note = [Text(f"The first {MOST_ARMS} arms; {more} more are in the list of trials.", "small")]
    folded = "" if len(shown) <= 12 else f"The progress of {len(shown)} arms"
    return Block("arms", "Arms", [Grid(table, folded=folded), *(note if more > 0 else [])])


def _against(arm: ArmRecord, base: str) -> str:
    """The arm that it is compared with."""
    return arm.against or ("" if arm.name == base else base)


def _pictures(study: Followed, params: Mapping[str, str]) -> Block:
    """Where the figures are; the script draws them, and looks for new points later."""
    return study.once(
        "pictures", lambda _: Block("pictures", "Pictures", _drawings(study, figures.OF_ARMS))
    )


def _under_way(study: Followed, params: Mapping[str, str]) -> Block:
    """The curves of what has not ended, which change with every epoch."""
    return Block("underway", "", _drawings(study, figures.OF_RUNNING))


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
    ]
    parts: list[Part] = [Grid(for_people(columns, record.searches, title="searches"))]
    if not all(search.chosen for search in record.searches):  # else the table has them
        parts += figures.best_settings(study.judged)
    parts += _drawings(study, figures.OF_SEARCHES)
    known = states.STATES[0] in study.ends.values()
    link = Link("Which settings mattered", f"{address(study.key)}/importance")
    return Block("searches", "Searches", [*parts, *([Facts([("", link)])] if known else [])])


def _winner(chosen: str | None, key: str) -> Link | str:
    return Link(chosen, of_trial(chosen, key)) if chosen else "not yet"


def _drawings(study: Followed, names: tuple[str, ...]) -> list[Plotted]:
    drawn = {name: study.figure(name) for name in names}
    where = f"/figure{address(study.key)[6:]}"
    return [Plotted(f"{where}/{name}", one) for name, one in drawn.items() if one is not None]
