"""The rungs of the study's ladder, and what is found over all of them."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare.judged import Judged
from ablate.compare.page.parts import Drawing, Section, table_parts
from ablate.compare.plots.ladder import figure
from ablate.compare.statistics.ladder import over_rungs
from ablate.compare.study_summary import open_parts
from ablate.compare.table.ladder_table import over_rungs_table
from ablate.store.store import Store
from ablate.store.study_record import study_key


def sections(judged: Judged, store: Store) -> Iterator[Section]:
    """The table and the figure over the rungs, once the study has been run on two."""
    record = judged.record
    if not record.rungs:
        return
    every = open_parts(store, study_key(record.name, record.one_of))
    if len(every) < 2:
        return
    found = over_rungs(every)
    yield Section(
        "On each rung of the ladder, and over all", [*table_parts(over_rungs_table(found))]
    )
    drawn = figure(found)
    if drawn is not None:
        yield Section(drawn.title, [Drawing("ladder", drawn)])
