"""CSV: a header and one row for each row, every number unrounded."""

from __future__ import annotations

import csv
import io

from ablate.compare.formats import Table

EXACT = True


def write(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.headings)
    writer.writerows(table.rows)  # None is an empty field
    return text.getvalue().rstrip("\n")
