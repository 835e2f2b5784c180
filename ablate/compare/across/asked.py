"""What `ablate query` and `ablate table compare` find in all records, also from Python.

The mirror is brought up to date first. One that turns out to be damaged is rebuilt, and the query
runs once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from ablate import papers
from ablate.compare.across import matched, matched_table
from ablate.compare.across import query as queries
from ablate.compare.across import side_by_side as beside
from ablate.compare.across.query import MirrorDamaged
from ablate.compare.formats import Table
from ablate.compare.shown import Answer
from ablate.compare.statistics.claims import claims
from ablate.compare.study_summary import open_study
from ablate.compare.table.claimed import of_claims
from ablate.errors import ConfigError
from ablate.record.mirror.syncing import Mirror, duckdb, update_mirror
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


def studies_of(published: Workspace, names: Sequence[str]) -> list[str]:
    """The published studies of the papers named, unless studies are named too."""
    if not set(names) <= set(papers.ids()):
        return []
    store = published.store
    records = (study_record.read(store, key) for key in study_record.names(store))
    return [record.key for record in records if record.paper in names]


def query(workspace: Workspace, sql: str) -> Answer:
    """The result of one SELECT."""
    table, notes = _ask(workspace, lambda mirror: queries.ask(mirror, sql))
    written = partial(queries.written, form="text")
    return Answer(table, lambda: table, written, notes)


def side_by_side(workspace: Workspace, names: Sequence[str], split: str | None = None) -> Answer:
    """Studies next to papers: our numbers and published ones."""
    verdicts = partial(_verdicts, workspace)

    def read(mirror: Mirror) -> Table:
        return beside.side_by_side(mirror, names, split, verdicts)

    def for_people() -> Table:
        try:
            table = read(mirror)
        except MirrorDamaged:  # or another process has replaced its files since
            table, _ = _ask(workspace, read)
        claimed = _claims(workspace, names, split)
        return replace(table, further=[*table.further, *claimed])

    # The numbers alone need no study to be opened.
    (numbers, mirror), notes = _ask(
        workspace, lambda mirror: (beside.side_by_side(mirror, names, split), mirror)
    )
    return Answer(numbers, for_people, notes=notes)


def exchange(
    workspace: Workspace, slots: Sequence[str], split: str = "valid", searches: bool = False
) -> Answer:
    """The effect of a change in these slots or fields, over all pairs of trials."""
    found, notes = _ask(workspace, lambda mirror: matched.exchange(mirror, slots, split, searches))
    others = (*matched_table.other_trials(found), *matched_table.other_values(found))
    numbers = matched_table.table(found)
    table = replace(numbers, notes=[*numbers.notes, *others])
    return Answer(numbers, lambda: table, lambda _: matched_table.plain_text(found), notes, others)


def _verdicts(workspace: Workspace, key: str) -> Mapping[tuple[str, str, str], str]:
    """The verdicts on a study's published numbers; none if the store does not have its trials."""
    if not study_record.exists(workspace.store, key):
        return {}
    judged = open_study(workspace.store, key)
    return judged.verdicts if judged.journals else {}


def _claims(workspace: Workspace, names: Sequence[str], split: str | None) -> list[Table]:
    """A table for each study that has a claim; other studies, and papers, have no such table."""
    known = study_record.names(workspace.store)
    keys = dict.fromkeys(k for name in names for k in known if name in (k, k.split("@")[0]))
    every = {key: claims(open_study(workspace.store, key)) for key in keys}
    rows = {key: [c for c in own if split in (None, c.split)] for key, own in every.items()}
    return [of_claims(own, key) for key, own in rows.items() if own]


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
