"""A study's table, as it is read; any writer of `ablate.compare.formats` takes it from here."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.compare.formats import Table
from ablate.compare.table import below, notes
from ablate.compare.table.columns import arm_columns
from ablate.compare.table.rows import Summary


def study_table(
    summary: Summary, *, other_scales: Sequence[Table] = (), reference: str = ""
) -> Table:
    """A row for each arm; below it effects, published numbers, and the study's other scales."""
    columns, cells = zip(*arm_columns(summary), strict=True)
    effects, paper = below.effects(summary), below.published(summary)
    further = [table for table in (effects, paper) if table is not None]
    record = summary.record
    source = ", ".join([record.paper, *record.tables]) if record.paper else ""
    return Table(
        columns,
        [[cell(arm) for cell in cells] for arm in summary.arms],
        title=f"{record.key} · {source}" if source else record.key,
        question=record.question,
        settings=list(notes.settings(summary)),
        below=list(notes.ensembles(summary)),
        warnings=list(notes.holes(summary)),
        notes=list(notes.verdicts(summary)),
        cautions=list(notes.cautions(summary)),
        further=[*further, *other_scales],
        reference=reference,
    )
