"""What docs/notes/performance.md says of each processor is what was measured on it."""

from __future__ import annotations

from benchmarks import columns, table


def test_the_tables_are_those_of_the_files():
    """If not: `python -m benchmarks.columns`."""
    page = columns.PAGE.read_text(encoding="utf-8")
    assert columns.rendered(page, columns.read_all()) == page


def test_every_row_has_a_table_and_every_table_rows():
    page = columns.PAGE.read_text(encoding="utf-8")
    named = [row for found in columns.BLOCK.finditer(page) for row in found["rows"].split()]
    assert sorted(named) == sorted(table.ROWS)
