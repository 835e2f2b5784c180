"""Two trials, or two studies, side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ablate.compare.formats import Column, Table, for_people
from ablate.compare.judged import Judged
from ablate.compare.page.parts import Grid, Text
from ablate.compare.study_summary import open_study
from ablate.compare.table import columns as shown
from ablate.compare.table.rows import ArmSummary
from ablate.compare.text.figures import NONE
from ablate.live.parts import Block, Link, Marked, Part, Plotted
from ablate.live.views import by_epoch
from ablate.live.views import trial as trials
from ablate.live.views.index import address
from ablate.store import study_record
from ablate.store.store import Store


def blocks(store: Store, a: str, b: str) -> list[Block]:
    """The blocks of two studies, if both are studies, and otherwise of two trials."""
    if not (a and b):
        return [
            Block("hint", "", [Text("Give two studies (`name@scale`) or two trials (their ids).")])
        ]
    known = study_record.names(store)
    are_studies = [any(one in (key, key.split("@")[0]) for key in known) for one in (a, b)]
    return _of_studies(store, a, b) if all(are_studies) else _of_trials(store, a, b)


def _of_studies(store: Store, a: str, b: str) -> list[Block]:
    both = [open_study(store, name) for name in (a, b)]
    arms = list(dict.fromkeys(arm.name for one in both for arm in one.arms))
    keys = [one.record.key for one in both]
    columns = [Column("arm", str, left=True), *(c for one in both for c in _of_study(one))]
    parts: list[Part] = [Grid(for_people(columns, arms, title=" beside ".join(keys)))]
    facts = [_facts(one) for one in both]
    questions = [Column("study", lambda row: row[0], left=True), *_values(*keys)]
    rows = [(name, one, other) for (name, one), (_, other) in zip(*facts, strict=True)]
    links = [Column(key, lambda _, key=key: Link(key, address(key)), left=True) for key in keys]
    return [
        Block("studies", "", [Grid(for_people(links, [0])), Grid(for_people(questions, rows))]),
        Block("arms", "Arm by arm", [*parts, Text(
            "Each difference is from its own study's base arm, with its study's intervals; the two "
            "studies are not tested against each other (`ablate table compare` does).", "small")]),
        *(Block(f"pictures{at}", one.record.key, [_deltas(one)]) for at, one in enumerate(both)),
    ]  # fmt: skip


def _deltas(judged: Judged) -> Part:
    from ablate.live import figures

    figure = figures.one(judged, "deltas")
    if figure is None:
        return Text("Nothing is compared yet.")
    where = f"/figure{address(judged.record.key)[6:]}/deltas"
    return Plotted(where, figure)


def _of_study(judged: Judged) -> list[Column]:
    by_name = {arm.name: arm for arm in judged.arms}
    digits, key = shown.decimals(judged), judged.record.key

    def mean(name: str) -> str:
        arm = by_name.get(name)
        return shown.mean_and_spread(arm.cells.get(judged.split), digits) if arm else NONE

    def delta(name: str) -> str:
        arm: ArmSummary | None = by_name.get(name)
        return shown.delta(arm, judged.metric, digits) if arm and arm.comparison else NONE

    def verdict(name: str) -> str:
        arm = by_name.get(name)
        return shown.verdict(arm) if arm else NONE

    return [
        Column(f"{key}: {judged.unit} of {judged.split}", mean),
        Column("difference", delta),
        Column("verdict", verdict, left=True),
    ]


def _facts(judged: Judged) -> list[tuple[str, str]]:
    record = judged.record
    return [
        ("question", record.question),
        ("base arm", record.base_arm),
        ("corpus", record.corpus),
        ("seeds", record.seeds),
        ("design", record.design),
        ("judged by", record.metric.shown),
        ("trials", f"{len(judged.journals)} of {record.num_trials()}"),
    ]


def _values(*headings: str) -> list[Column]:
    return [
        Column(name, lambda row, at=at: row[at], left=True) for at, name in enumerate(headings, 1)
    ]


def _of_trials(store: Store, a: str, b: str) -> list[Block]:
    both = [trials.view(store, one) for one in (a, b)]
    journals = [one.journal for one in both]
    names = [journal.trial.name for journal in journals]
    names = [f"{name} ({one.id[:6]})" for name, one in zip(names, both, strict=True)]
    links = [Column(name, lambda _, one=one: Link(one.id, f"/trial/{one.id}"), left=True)
             for name, one in zip(names, both, strict=True)]  # fmt: skip
    configs = [journal.config or journal.trial.values for journal in journals]
    figure = by_epoch.curves_of(journals, names)
    query = f"?a={both[0].id}&b={both[1].id}"
    drawing = [Plotted("/beside/curves", figure, query)] if figure else []
    settings = [
        Grid(_pairs("setting", names, configs, only=True), "What differs"),
        Grid(_pairs("setting", names, configs), folded="All settings"),
    ]
    return [
        Block("trials", "", [Grid(for_people(links, [0]))]),
        Block("results", "Results", [Grid(_numbers(names, [j.metrics for j in journals]))]),
        Block("curves", "Curves" if drawing else "", drawing),
        Block("settings", "Settings", settings),
    ]


def _numbers(names: list[str], metrics: list[Mapping]) -> Table:
    rows = [
        (name, *(each.get(name) for each in metrics)) for name in sorted({*metrics[0], *metrics[1]})
    ]
    columns = [Column(name, lambda row, at=at: row[at]) for at, name in enumerate(names, 1)]
    return for_people([Column("metric", lambda row: row[0], left=True), *columns], rows)


def _pairs(what: str, names: list[str], values: list[Mapping], only: bool = False) -> Table:
    """A row for each name that either has; a value that differs is marked."""
    rows = []
    for name in sorted({*values[0], *values[1]}):
        one, other = (json.dumps(each[name]) if name in each else NONE for each in values)
        if one != other or not only:
            rows.append((name, one, Marked(other) if one != other else other))
    return for_people([Column(what, lambda row: row[0], left=True), *_values(*names)], rows)
