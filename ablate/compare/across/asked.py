"""What `ablate query` and `ablate table compare` find in all records, also from Python.

The mirror is brought up to date first. One that turns out to be damaged is rebuilt, and the query
runs once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from ablate import papers
from ablate.compare.across import matched, matched_table
from ablate.compare.across import query as queries
from ablate.compare.across import side_by_side as beside
from ablate.compare.across.query import MirrorDamaged
from ablate.compare.formats import Table
from ablate.compare.judged import Judged
from ablate.compare.shown import Answer
from ablate.compare.study_summary import open_study
from ablate.compare.table.beside_paper import beside_paper, with_notes
from ablate.compare.table.study_table import study_table
from ablate.errors import ConfigError
from ablate.record.mirror.syncing import duckdb, update_mirror
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.workspace import Workspace, as_folder

T = TypeVar("T")
REBUILT = "the mirror was damaged ({}) and has been rebuilt."


def published(workspace: Workspace, results: str, option: str = "--results") -> Workspace:
    """The workspace with the records of a store, or of what `ablate report publish` wrote."""
    store = Store(str(as_folder(results, option)))
    if not study_record.names(store):
        raise ConfigError(
            f"{option} {results} holds no study. Expected a folder that `ablate report publish` "
            "wrote, or a store."
        )
    return replace(workspace, store_uri=store.uri, mlflow_uri=None)


def asked_of(workspace: Workspace, results: str | None, store: str | None) -> Workspace:
    """The workspace with what is asked for: published results, or a store that the caller names."""
    if results is not None:
        return published(workspace, results)
    is_folder = store is not None and workspace.store.folder is not None
    return published(workspace, str(store), "--store") if is_folder else workspace


def query(workspace: Workspace, sql: str) -> Answer:
    """The result of one SELECT."""
    table, notes = _ask(workspace, lambda mirror: queries.ask(mirror, sql))
    written = partial(queries.written, form="text")
    return Answer(table, lambda: table, written, notes)


def side_by_side(workspace: Workspace, names: Sequence[str], split: str | None = None) -> Answer:
    """Studies next to papers: our numbers and published ones. A paper alone stands for its studies
    and its own rows."""
    published = [name for name in names if name in papers.ids()]
    studies = [name for name in names if name not in published]
    studies = studies or _studies_of(workspace.store, published)
    every = [*studies, *published]
    numbers, notes = _ask(workspace, lambda mirror: beside.side_by_side(mirror, every, split))

    def for_people() -> Table:
        if not studies:
            raise ConfigError(
                f"compare: no study of {', '.join(published)} has been run here. "
                f"{_rows_of(published)}"
            )
        known = study_record.names(workspace.store)
        if not {*studies} <= {*known, *(key.split("@")[0] for key in known)}:
            return numbers  # a server has them, and no store the trials
        tables = [
            table
            for name in studies
            for table in _beside_paper(open_study(workspace.store, name), split)
        ]
        first, *others = with_notes(tables, [_rows_of(published)] if published else [])
        return replace(first, further=others)

    return Answer(numbers, for_people, notes=notes)


def _studies_of(store: Store, published: Sequence[str]) -> list[str]:
    records = (study_record.read(store, key) for key in study_record.names(store))
    return [record.key for record in records if record.paper in published]


def _rows_of(published: Sequence[str]) -> str:
    return f"Every row of the paper's tables: ablate table papers {' '.join(published)}"


def _beside_paper(judged: Judged, split: str | None) -> list[Table]:
    """A study's numbers beside its paper's; its own table, if the paper has none of them."""
    return [*beside_paper(judged, split or judged.split)] or [study_table(judged)]


def exchange(
    workspace: Workspace, slots: Sequence[str], split: str = "valid", searches: bool = False
) -> Answer:
    """The effect of a change in these slots or fields, over all pairs of trials."""
    found, notes = _ask(workspace, lambda mirror: matched.exchange(mirror, slots, split, searches))
    others = (*matched_table.other_trials(found), *matched_table.other_values(found))
    numbers = matched_table.table(found)
    table = replace(numbers, notes=[*numbers.notes, *others])
    return Answer(numbers, lambda: table, lambda _: matched_table.plain_text(found), notes, others)


def _ask(workspace: Workspace, work: Callable[[Any], T]) -> tuple[T, tuple[str, ...]]:
    """The result of `work` on an up-to-date mirror, and notes about the mirror."""
    try:
        mirror = update_mirror(workspace)
        try:
            return work(mirror), tuple(mirror.notes)
        except MirrorDamaged as damage:
            notes = (*mirror.notes, REBUILT.format(damage))
        # Once only: a second failure is an error.
        return work(update_mirror(workspace, rebuild=True)), notes
    except duckdb().OutOfMemoryException as error:
        raise MemoryError from error  # the command line advises on it, whatever ran out
