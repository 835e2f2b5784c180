"""What every writer has to do with a table, whatever the table is of."""

from __future__ import annotations

import csv
import datetime
import io
import json
import re

import pytest

from ablate.compare import formats
from ablate.compare.formats import (
    BEST,
    Best,
    Column,
    Table,
    html,
    table_of,
    table_of_values,
    text,
)
from tests.support.golden import changes

NASTY = "a|b *c* <b>d</b> [e](http://f) & 5% of {x}_1"


def whole() -> Table:
    columns = [Column("name", left=True), Column("two\nlines"), Column("note")]
    return Table(
        columns,
        [("alpha", Best("2.5"), "gamma"), (NASTY, 1.0, None)],
        title="study@scale · paper",
        question="Which is lower?",
        settings=["five seeds"],
        below=["an ensemble: 2.1"],
        warnings=["INCOMPLETE: one of two."],
        notes=[f"{BEST}: lower than every other."],
        cautions=["take care"],
        further=[table_of(["effect", "size"], [["first", "+1"]], notes=["an effect"])],
        reference="Table 0123",
    )


@pytest.mark.parametrize("form", [name for name in formats.names() if not formats.is_exact(name)])
def test_all_that_surrounds_a_table_is_written_once(form):
    text = formats.writer(form).write(whole())
    for part in ("Which is lower?", "five seeds", "an ensemble", "take care", "an effect", "+1"):
        assert text.count(part) == 1
    assert "INCOMPLETE" in text and BEST not in text
    mark = "*" if form == "text" else "bold"
    assert f"{mark}: lower than every other." in text


@pytest.mark.parametrize(
    ("form", "markup"),
    [
        ("html", r"<b>d|& 5"),
        ("markdown", r"(?<!\\)(\*c|<b>|\]\(|a\|b)"),
        ("latex", r"(?<!\\)(& 5|% of|\{x|\}_1)"),
    ],
)
def test_text_is_no_markup(form, markup):
    text = formats.writer(form).write(whole())
    assert re.search(markup, text) is None


@pytest.mark.parametrize("formula", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-x"])
def test_a_spreadsheet_takes_no_text_of_a_csv_for_a_formula(formula):
    rows = [[formula], ["-0.5"], ["+1e-3"], [-0.5], ["a=b"]]
    text = formats.writer("csv").write(table_of_values([formula], rows))
    cells = [row[0] for row in csv.reader(io.StringIO(text, newline=""))]
    assert cells == [f"'{formula}", f"'{formula}", "-0.5", "+1e-3", "-0.5", "a=b"]


def test_on_a_page_a_cell_takes_several_lines_from_41_characters_on():
    page = html.write(table_of_values(["a", "b"], [("x" * 40, "y" * 41)]))
    one, other = page.split("<td")[1:]
    assert one.startswith(">") and other.startswith(' class="long">')


@pytest.mark.golden
def test_the_formats_are_the_golden_ones():
    """A table with all that may surround it, and one of numbers, dates and nothing."""
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    numbers = (1234567, 1234567.891, 0.000012345, 1e300, float("nan"), float("inf"), -0.0)
    values = table_of_values(
        ["kind", "value", "what a long heading may do to a narrow column"],
        [*(("number", number, None) for number in numbers), ("time", when, True), ("text", "", 3)],
    )
    texts = [
        f"== {form}\n{formats.writer(form).write(table)}"
        for form in formats.names()
        for table in ([values] if formats.is_exact(form) else [whole(), values])
    ]
    texts += [f"== {width} wide\n{text.write(whole(), width)}" for width in (24, 40, 60)]
    assert not changes("formats.txt", "\n".join(texts) + "\n")


def test_latex_takes_no_cell_for_an_option_of_the_row_before():
    rows = [["[15,0]", "x"], ["*best*", "[y]"], ["a [b]", "z"]]
    written = formats.writer("latex").write(table_of(["[5mm]", "x"], rows))
    lines = written.splitlines()
    assert r"{}[5mm] & x \\" in lines and r"{}[15,0] & x \\" in lines
    assert r"{}*best* & [y] \\" in lines and r"a [b] & z \\" in lines


def test_json_keeps_columns_of_equal_names_and_any_keys():
    table = table_of_values(["a", "a", "a_2", "a"], [(1, 2, 3, 4)])
    assert json.loads(formats.writer("json").write(table)) == [
        {"a": 1, "a_3": 2, "a_2": 3, "a_4": 4}
    ]
    day, moment = datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 3)
    table = table_of_values(["map"], [({day: [moment, float("inf")], 2: {"b": day}},)])
    (row,) = json.loads(formats.writer("json").write(table))
    wanted = {"2026-01-02": ["2026-01-02T03:00:00", "inf"], "2": {"b": "2026-01-02"}}
    assert row == {"map": wanted}
