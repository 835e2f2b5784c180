"""The interactive writer: valid plotly, hostile names as text, hover texts, few traces."""

from __future__ import annotations

import json
from typing import Any

from ablate.compare import plots
from ablate.compare.plots import geometry, interactive, search, traces
from ablate.compare.plots.figure import Axis, Figure, Label, LineStyle, Panel, Series
from tests.support.whole_study import judged_of, whole_study

HOSTILE = "</script><img onerror=a()>&%{x}"


def of_series(*marks: Any, x: Axis | None = None, y: Axis | None = None, **more: Any) -> Figure:
    panel = Panel(x=x or Axis("epoch"), y=y or Axis("loss"), marks=marks, **more)
    return Figure(title="t", caption="c", panels=[panel])


def data_of(figure: Figure) -> list[dict[str, Any]]:
    return json.loads(interactive.as_json(figure))["data"]


def test_plotly_knows_every_property():
    """Its figures refuse a property, or a value, that the script would ignore."""
    for figure in plots.described(judged_of(whole_study())).values():
        drawn = interactive.drawn(figure)
        assert len(drawn.data) == len(data_of(figure))
        assert drawn.layout.height == geometry.height(figure)


def test_what_users_named_is_text_for_plotly_and_for_the_page():
    figure = of_series(Series(x=[1], y=[2], name=HOSTILE), Label(1, 2, HOSTILE), title=HOSTILE)
    text = interactive.as_json(figure)
    assert "<" not in text
    whole = json.loads(text)
    (trace,) = whole["data"]
    escaped = "&lt;/script&gt;&lt;img onerror=a()&gt;&amp;%{x}"
    assert trace["name"] == escaped and trace["hovertext"][0].startswith(escaped)
    assert {each["text"] for each in whole["layout"]["annotations"]} == {escaped}
    assert "hovertemplate" not in trace  # which would replace %{x}


def test_nothing_leaves_the_page():
    """plotly's own default is a button that uploads a figure's numbers."""
    assert interactive.CONFIG["showSendToCloud"] is False


def test_a_reader_who_points_is_told_name_place_value_and_interval():
    ours = Series(x=[0.0, 1.04], y=[0.5, 0.25], name="b: on", low=[0.6, 0.3], high=[0.4, 0.2])
    x, y = Axis("a", ticks=[(0, "off"), (1, "on")]), Axis("share")
    (trace,) = data_of(of_series(ours, x=x, y=y))
    assert trace["hovertext"] == [
        "b: on<br>a: off<br>share: 0.5 (0.4 to 0.6)",
        "b: on<br>a: on<br>share: 0.25 (0.2 to 0.3)",
    ]
    counted = Series(x=[2_000_000.0], y=[1.5], name="a")
    (trace,) = data_of(of_series(counted, x=Axis("tokens", numbers="counts")))
    assert trace["hovertext"] == ["a<br>tokens: 2M<br>loss: 1.5"]


def test_hundreds_of_trials_are_few_traces():
    """A trace takes a browser milliseconds: lines that look the same are one, with gaps."""
    looks = [search._look(rank, 380) for rank in range(400)]
    lines = [Series(x=[0, 1], y=[i, i], look=look) for i, look in enumerate(looks)]
    data = data_of(of_series(*lines))
    assert len(data) <= search.BEST + search.SHADES + 2
    assert sum(len(trace["y"]) - trace["y"].count(None) for trace in data) == 800


def test_a_legend_names_what_looks_tell_apart_and_labels_the_rest():
    def names(*looks: LineStyle) -> tuple[list[str], list[str]]:
        marks = [Series(x=[1], y=[i], name=f"n{i}", look=look) for i, look in enumerate(looks)]
        whole = json.loads(
            interactive.as_json(of_series(*marks, y=Axis("y", (0, 9)), names="ends"))
        )
        return (
            [trace["name"] for trace in whole["data"] if trace["showlegend"]],
            [each["text"] for each in whole["layout"]["annotations"]],
        )

    assert names(LineStyle(), LineStyle(dashes=(1, 2))) == (["n0", "n1"], [])
    assert names(LineStyle(), LineStyle()) == ([], ["n0", "n1"])


def test_panels_do_not_overlap_and_are_told_apart():
    panel = Panel(x=Axis("x"), y=Axis("y"), marks=[], title="t")
    figure = Figure(title="t", caption="c", panels=[panel] * 7, columns=3, height=6, shared="xy")
    boxes = geometry.boxes(figure)
    assert [box.number for box in boxes] == ["", *"234567"]
    for one in boxes:
        assert 0 <= one.left < one.right <= 1.0001 and -1e-9 <= one.bottom < one.top <= 1
        for other in boxes:
            apart = one.right <= other.left or other.right <= one.left
            assert one is other or apart or one.bottom >= other.top or other.bottom >= one.top
    assert [box.outer_x for box in boxes] == [False] * 4 + [True] * 3
    assert [box.outer_y for box in boxes] == [True, False, False] * 2 + [True]


def test_every_marker_has_a_symbol():
    from ablate.compare.plots import style

    assert {*style.MARKERS, "D", "<", ">"} <= traces.SYMBOLS.keys()


def test_plotlys_script_is_without_its_loader_and_with_its_licences():
    script = interactive.script()
    assert script.startswith("/**") and "Licensed under the MIT license" in script[:200]
    assert "typeof module" not in script[:1000] and "window.Plotly = Plotly" in script[-200:]
    assert interactive._unwrapped("of another version") == "of another version"
