"""A described figure, as any writer reads it."""

from __future__ import annotations

from ablate.compare.plots.figure import Axis, Figure, Panel, Rule, Series


def figure_of(panel: Panel) -> Figure:
    return Figure(title="t", caption="c", panels=[panel])


def test_the_table_has_every_point_that_has_a_name():
    ours = Series(x=[1, 2], y=[0.5, 0.25], name="a")
    marks = [Rule(0), Series(x=[1], y=[9.0]), ours]
    table = figure_of(Panel(x=Axis("epoch"), y=Axis("loss"), marks=marks)).table
    assert table.headings == ["name", "epoch", "loss"]
    assert table.rows == [["a", 1, 0.5], ["a", 2, 0.25]]


def test_the_table_has_intervals_in_order_and_the_texts_of_ticks():
    """Of a share, the lower end of the loss is the higher end of what is shown."""
    bars = Series(x=[0, 1.04], y=[0.5, 0.6], name="b: on", low=[0.7, 0.8], high=[0.4, 0.5])
    alone = Series(x=[0], y=[0.1], name="b: off")
    x = Axis("a", ticks=[(0, "off"), (1, "on")])
    table = figure_of(Panel(x=x, y=Axis("share"), marks=[bars, alone])).table
    assert table.headings == ["name", "at", "share", "from", "to"]
    assert [row[1:] for row in table.rows] == [
        ["a: off", 0.5, 0.4, 0.7],
        ["a: on", 0.6, 0.5, 0.8],
        ["a: off", 0.1, None, None],
    ]
