"""A table fits its terminal: nothing is left out, no word is broken, and no line is too wide."""

from __future__ import annotations

import io
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.compare.formats import Column, Drawn, Table, text
from ablate.compare.text.drawing import axis
from ablate.compare.text.plain import display_width, paragraph

words = st.text("abc,[]±+-0123日", min_size=1, max_size=14)
cells = st.lists(words, max_size=6).map(" ".join)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    num = draw(st.integers(1, 9))
    flags = st.booleans()
    columns = [
        Column(draw(cells), left=draw(flags), wraps=draw(flags), first=draw(flags))
        for _ in range(num)
    ]
    rows = draw(st.lists(st.lists(cells, min_size=num, max_size=num), max_size=5))
    return Table(columns, rows)


def all_words(table: Table) -> list[str]:
    return [word for row in [table.headings, *table.rows] for cell in row for word in cell.split()]


@settings(max_examples=60, deadline=None)
@given(tables(), st.integers(20, 120))
def test_every_word_is_there_and_no_line_is_wider_than_the_terminal(table: Table, width: int):
    lines = text.lines(table, width)
    longest = max(map(display_width, all_words(table)), default=0)
    assert max(map(display_width, lines), default=0) <= max(width, longest + len("    :"))
    shown = " ".join(lines).split()
    for word in all_words(table):
        if display_width(word) > width - len("    :"):  # too wide for a line: broken
            assert word.strip(",:") in "".join(shown)
        else:
            assert any(word.strip(",:") in x for x in shown)


@pytest.mark.parametrize("width", [60, 70, 80, 90, 100])
def test_what_is_said_of_one_metric_is_not_beside_the_difference_of_another(width: int):
    """Wins stood to the right of the second metric's difference: "loss is better in 1 of 5"."""
    names = ("arm", "loss", "BLEU", "Δ BLEU", "Δ base", "Holm p", "sign-flip", "wins", "verdict")
    apart = ("BLEU", "Δ BLEU")
    columns = [
        Column(
            name,
            left=name == "arm",
            first=int(name in ("Δ base", "Holm p", "verdict")),
            apart=name in apart,
        )
        for name in names
    ]
    table = Table(columns, [[f"{name} of the arm" for name in names]])
    headings = [line for line in text.lines(table, width) if line.startswith("arm ")][::2]
    assert len(headings) > 1
    for line in headings:
        assert ("BLEU" in line) != any(name in line for name in names[4:])


WIDE = Table(
    [
        Column("arm", left=True),
        Column("params"),
        Column("valid"),
        Column("difference", first=True),
        Column("verdict", left=True, first=True),
    ],
    [("DOC 15,5,0,0, balance 0.001", "1.23M", "93.41±0.10", "-0.32 [-0.45, -0.12]", "better")],
)


def test_a_table_that_is_too_wide_is_split_and_what_decides_comes_first():
    lines = text.lines(WIDE, 60)
    assert lines == [
        "arm                                    difference  verdict",
        "----------------------------------------------------------",
        "DOC 15,5,0,0, balance 0.001  -0.32 [-0.45, -0.12]  better",
        "",
        "arm                          params       valid",
        "-----------------------------------------------",
        "DOC 15,5,0,0, balance 0.001   1.23M  93.41±0.10",
    ]
    assert len(text.lines(WIDE, 100)) == 3


def test_every_part_has_the_columns_that_tell_its_rows_apart():
    """The names of the rows are not declared; a number tells rows apart where no text does."""
    columns = [Column("table", left=True), Column("value"), Column("system", left=True)]
    columns += [Column(f"what was measured of it, {i}") for i in range(2)]
    rows = [(f"Table {i}", "1.5", name, "0.1", "0.2") for i in (3, 4) for name in ("mos", "doc")]
    headings = [line for line in text.lines(Table(columns, rows), 60) if "system" in line]
    assert len(headings) == 2 and all("table" in heading for heading in headings)
    twice = Table(columns, [*rows, ("Table 4", "1.6", "doc", "0.1", "0.2")])
    headings = [line for line in text.lines(twice, 62) if "system" in line]
    assert len(headings) == 2 and all("value" in heading for heading in headings)


@pytest.mark.parametrize(("columns", "width"), [("72", 72), ("9", 60), ("1000", 200), ("x", 100)])
def test_columns_is_honoured_within_limits(monkeypatch, columns: str, width: int):
    monkeypatch.setattr("sys.stdout", io.StringIO())  # no terminal
    monkeypatch.setenv("COLUMNS", columns)
    assert text.terminal_width() == width


def test_without_a_terminal_the_width_is_100(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.delenv("COLUMNS", raising=False)
    assert text.terminal_width() == 100 and text.terminal_width(10_000) == 10_000


def test_a_long_word_of_a_sentence_stays_whole():
    path = "/a/very/long/path/that/can/be/copied"
    assert paragraph(f"see {path} there", 20) == ["see", path, "there"]


def test_no_axis_goes_below_minus_100_percent():
    """Three times as much is as far from 0 as a third of it."""
    drawn = Drawn(800.0, "%", 200.0, (-200 / 3, 800.0))
    assert axis(drawn, 21).split() == ["÷9", "0", "×9"] and axis(drawn, 21, False)[0] == "/"
    assert [round(drawn.place(end), 9) for end in (-200 / 3, 0, 200, 800)] == [-0.5, 0, 0.5, 1]
    assert drawn.place(-100.0) == -math.inf
    assert Drawn(60.0, "%").ends_of_axis == ("−60%", "+60%")
    assert Drawn(600.0, "").ends_of_axis == ("−600", "+600")
