"""The cost of each arm, and its settings where they differ from those of the base arm."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from ablate.compare.formats import Column, for_people, table_of
from ablate.compare.judged import Judged
from ablate.compare.page import as_trained
from ablate.compare.page.parts import Grid, Section
from ablate.compare.text.figures import count, duration
from ablate.store.store import Store


def sections(judged: Judged, store: Store) -> Iterator[Section]:
    """A row for each arm, and the values of the base arm folded up."""
    record = judged.record
    summaries = {arm.name: arm for arm in judged.arms}
    changes = as_trained.differences(judged)
    summary = itemgetter(1)  # an arm that is only an ensemble of others has none
    tokens = Column("tokens a seed", lambda arm: count(arm.tokens)).about(summary)
    columns = [
        Column("arm", lambda row: row[0].name, left=True),
        Column("parameters", lambda row: count((row[1] or row[0]).num_parameters)),
        *([tokens] if record.level else []),
        Column("training in all", lambda arm: duration(arm.seconds)).about(summary),
        Column(
            "differs from the base arm in, as trained", lambda row: changes[row[0].name], left=True
        ),
    ]
    if any(arm.stopped_at is not None for arm in record.arms):
        columns.insert(-1, Column("decided at", lambda row: row[0].stopped_at))
    arms = for_people(columns, [(arm, summaries.get(arm.name)) for arm in record.arms])
    values = table_of(["field", "value"], as_trained.base_values(judged), ["value"])
    yield Section("Arms", [Grid(arms), Grid(values, folded="The values of the base arm")])
