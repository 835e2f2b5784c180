"""A study's table in every format."""

from __future__ import annotations

from ablate.compare import formats
from ablate.compare.judged import Judged
from ablate.compare.table import numbers, provenance
from ablate.compare.table.full_table import full_table
from ablate.compare.table.study_table import study_table

KEY = "0123456789abcdef"


def written(
    summary: Judged, form: str = "text", other_scales=(), *, short: bool = False, **options
) -> str:
    """Format a table as `ablate table` does with `--notes`, or `short`, as without; `options` are
    those of the writer."""
    if formats.is_exact(form):
        return formats.writer(form).write(numbers.arms(summary, KEY))
    reference = "" if form == "text" else provenance.reference(KEY)
    table = full_table(summary, other_scales=other_scales, reference=reference)
    if short:
        table = study_table(summary, reference=reference)
    return formats.writer(form).write(table, **options)
