"""`ablate table compare` on 80 columns: the verdict comes first, rows can be told apart."""

from __future__ import annotations

import pytest

from ablate.compare.across.reading import tables
from ablate.compare.across.row import OURS, Row
from ablate.compare.formats import Table, text

WHY_NOT = "not comparable: scale small, corpus ag_news"
NAMES = ("EncDec", "EncDec+DOC (i3=2)", "EncDec+DOC (i3=i2=2)")


def rows() -> list[Row]:
    """The arms of a study whose two metrics are printed in the paper."""
    found = []
    for name in NAMES:
        row = Row("doc_headlines@small", name, 741e3)
        for unit in ("ROUGE-1", "perplexity"):
            for split in ("valid", "test"):
                row.values["ag_news", split, unit, OURS] = "317.19±12.55 (9 of 11, 3 searches)"
            row.beside["ag_news", "test", unit] = ("46.91", WHY_NOT)
        found.append(row)
    return found


def test_a_metric_has_a_table_of_its_own():
    first = tables(rows())
    assert [table.title for table in (first, *first.further)] == [
        "doc_headlines@small · ag_news · ROUGE-1",
        "doc_headlines@small · ag_news · perplexity",
    ]


@pytest.mark.parametrize("table", [tables(rows()), *tables(rows()).further], ids=lambda t: t.title)
def test_verdicts_are_in_the_first_part_and_every_part_names_arm_and_split(table: Table):
    parts = "\n".join(text.lines(table, 80)).split("\n\n")
    assert len(parts) == 2 and {"ours", "verdict"} <= {*parts[0].splitlines()[0].split()}
    for part in parts:
        assert {"arm", "model", "split"} <= {*part.splitlines()[0].split()}
