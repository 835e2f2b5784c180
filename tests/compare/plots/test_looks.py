"""Where pictures put their lines, and how these look: the parts that a whole picture hides."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ablate.compare import plots
from ablate.compare.judged import Judged
from ablate.compare.plots import chosen, curves, parameters, search, static, style
from ablate.compare.plots import figure as fig
from ablate.config.metrics import ACCURACY, PERPLEXITY, Metric
from ablate.store.epoch import Epoch
from ablate.study.designs import factorial
from tests.support.studies_by_hand import ByHand
from tests.support.whole_study import judged_of


def described(name: str, judged: Judged) -> Any:
    figure = plots.get(name).described(judged)
    assert figure is not None
    return figure


PLAIN = Metric("score", better="lower", scale="linear")


def test_one_bad_trial_does_not_hide_the_others():
    """The axis ends at the median and four times its distance from the best."""
    scale = search._loss_scale([1.0, 2.0, 3.0, 30.0], PLAIN)
    assert scale.heights == pytest.approx([0, 0.1, 0.2, 1.0])
    assert [text for _, text in scale.marks] == ["1.00", "≥ 11.00"]
    whole = search._loss_scale([1.0, 2.0, 3.0], PLAIN)
    assert whole.heights == [0, 0.5, 1] and whole.marks[-1] == (1.0, "3.00")
    assert search._loss_scale([2.0, 2.0], PLAIN).heights == [0, 0]
    assert search._loss_scale([-0.9, -0.8, -0.1], ACCURACY).marks[-1][1].startswith("≤ ")
    assert search._loss_scale([], PLAIN).marks == []


def test_the_eighth_line_has_a_colour_again_with_other_dashes_and_another_marker():
    first, second = style.COLOURS[:2]
    assert style.nth(6) == (style.COLOURS[6], style.DASHES[6], style.MARKERS[6])
    assert style.nth(7) == (first, style.DASHES[1], style.MARKERS[1])
    assert style.nth(15) == (second, style.DASHES[3], style.MARKERS[3])
    assert style.line(7) == {"color": first, "linestyle": (0, style.DASHES[1])}
    assert style.line(0)["linestyle"] == "-"
    assert style.marker(15) == {"color": second, "marker": style.MARKERS[3]}


def test_a_picture_replaces_the_one_before(tmp_path):
    file = tmp_path / "pictures" / "deltas.svg"
    for data in (b"first", b"second"):
        static.save(file, data)
    assert file.read_bytes() == b"second"


@pytest.mark.parametrize(
    ("metric", "first", "top"),
    [
        (PERPLEXITY, [900.0, 300.0, 200.0], 1.05 * 480.0),  # 1.6 times the median of the first
        (PERPLEXITY, [900.0, 150.0, 120.0], 1.05 * 240.0),
        (PERPLEXITY, [110.0, 105.0, 104.0], 1.05 * 115.0),  # no higher than any
        (ACCURACY, [0.2, 0.5, 0.6], None),
    ],
)
def test_the_axis_of_curves_leaves_out_bad_first_epochs(metric, first, top):
    last = 100.0 if metric is PERPLEXITY else 0.9
    above = {900.0: 950.0}
    lines = [([start, last], [start, last], [above.get(start, start + 5), last]) for start in first]
    low, high = curves._value_axis(lines, metric, "").limits or (0, 0)
    if top is not None:
        assert (low, high) == pytest.approx((97.0, top))
    else:
        assert 0.4 < low < 0.5 and high > 0.9


def test_a_name_beside_a_panel_says_how_far_beyond_its_limits_the_point_is():
    labels = []
    for limits in ((50, 60.0), (50, 59.9), (60.1, 70)):
        point = fig.Series(x=[1.0], y=[60.0], name="a")
        panel = fig.Panel(x=fig.Axis(), y=fig.Axis(limits=limits), marks=[point], names="ends")
        labels += [(end.text, end.y) for end in panel.ends]
    assert labels == [("a", 60.0), ("a ↑ 60", 59.9), ("a ↓ 60", 60.1)]


@pytest.mark.parametrize(
    ("metric", "values", "drawn"),
    [
        (PERPLEXITY, [60.0, 62.0, 8000.0], (60.0, 248.0)),
        (PLAIN, [-0.5, 0.0, 9.0], (-0.5, 2.0)),
        (PLAIN, [0.0, 0.0, 9.0], (0.0, 9.0)),
        (ACCURACY, [1.0, 90.0, 92.0], (92.0, 82.0)),
        (ACCURACY, [1.0, 2.0, 90.0], (90.0, 1.0)),
        (Metric("r2", better="higher"), [-0.5, 0.1, 0.3], (0.3, -0.5)),
        (Metric("rank", better="neither"), [1.0, 2.0, 90.0], (1.0, 90.0)),
    ],
)
def test_only_an_arm_that_is_far_worse_is_left_out_of_the_plot_of_parameters(metric, values, drawn):
    assert parameters._range(values, metric) == drawn


def of_metric(metric: Metric, values: dict[str, list[float]], **fields: Any) -> ByHand:
    """Arms that report these values, of 1000, 2000, ... parameters."""
    study = ByHand({arm: [1.0] * len(seeds) for arm, seeds in values.items()}, next(iter(values)))
    study.record_fields = {"judged_by": metric, **fields}
    for size, (arm, seeds) in enumerate(values.items(), 1):
        for index, value in enumerate(seeds):
            reported = {metric.key("valid"): value, metric.key("test"): value}
            study.end(f"{arm}-{index}", "completed", metrics=reported, num_parameters=1000 * size)
    return study


def test_values_below_zero_are_drawn_in_a_picture_of_its_size():
    values = {"base": [-0.5, -0.4], "better": [0.1, 0.12], "best": [0.3, 0.32]}
    judged = judged_of(of_metric(Metric("r2", better="higher"), values))
    figure = static.drawn(described("parameters", judged))
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    assert low < -0.45 < 0.31 < high and axes.get_yscale() == "linear"
    heights = struct.unpack(">II", static.written(figure, "png")[16:24])
    assert max(heights) < 2000


def test_interactions_are_drawn_where_higher_is_better():
    arms = factorial({"a": {"off": {}, "on": {}}, "b": {"off": {}, "on": {}}}).arms
    values = {arm.name: [0.5 + 0.1 * i, 0.52 + 0.1 * i] for i, arm in enumerate(arms)}
    study = of_metric(ACCURACY, values, design="factorial")
    study.arm_fields = {arm.name: {"levels": dict(arm.levels)} for arm in arms}
    figure = static.drawn(described("interactions", judged_of(study)))
    (_, (low, high), _) = figure.axes[0].containers[0].lines
    half = 12.706  # t of two seeds, 50 and 52
    assert low.get_ydata()[0] == pytest.approx(51 - half, abs=0.01)
    assert high.get_ydata()[0] == pytest.approx(51 + half, abs=0.01)


def test_the_plot_of_differences_names_the_arm_that_a_row_is_compared_with():
    study = ByHand({"base": [4.3, 4.31, 4.3], "b": [4.1, 4.13, 4.12], "c": [4.0, 4.01, 4.04]})
    study.arm_fields = {"c": {"against": "b"}}
    figure = static.drawn(described("deltas", judged_of(study)))
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["c (less b)", "b"]
    caption = described("deltas", judged_of(study)).caption
    assert "from the base arm, or from the one in brackets," in caption
    study.record_fields = {"design": "path"}
    assert "from the arm before with" in described("deltas", judged_of(study)).caption


@pytest.mark.parametrize(
    ("metric", "lowest", "logarithmic"),
    [(PLAIN, 0.5, True), (PLAIN, 0.0, False), (ACCURACY, 0.5, False)],
)
def test_the_caption_of_curves_says_which_scale_they_have(metric, lowest, logarithmic):
    study = of_metric(metric, {"base": [0.6, lowest]})
    for journal in study.journals.values():
        value = journal.metrics[metric.key("valid")]
        shares = enumerate((0.9, value), 1)
        journal.epochs = [Epoch(number, {metric.key("valid"): share}) for number, share in shares]
    judged = judged_of(study)
    figure = static.drawn(described("curves", judged))
    assert (figure.axes[0].get_yscale() == "log") == logarithmic
    assert ("is logarithmic" in described("curves", judged).caption) == logarithmic


def many(num: int) -> Judged:
    """Arms of which the last is the best."""
    losses = {f"arm {i}": [5.0 - 0.001 * i, 5.01 - 0.001 * i] for i in range(num)}
    study = ByHand(losses, "arm 0")
    for at, (trial, journal) in enumerate([*study.journals.items()]):
        study.end(trial, "completed", metrics=journal.metrics, num_parameters=1000 + at // 2)
    return judged_of(study)


@pytest.mark.parametrize("name", ["deltas", "curves", "parameters"])
def test_a_plot_of_many_arms_has_a_bounded_number_of_parts_and_says_what_it_leaves_out(name):
    """Otherwise a report of 1,000 arms takes hours: a panel of an arm has a line of every arm."""
    most = plots.get(name).MOST_ARMS
    few, more = (described(name, many(num)) for num in (most + 2, most + 30))
    parts = [len(static.drawn(figure).findobj()) for figure in (few, more)]
    assert parts[0] == pytest.approx(parts[1], rel=0.05)  # but for the marks of their axes
    skipped = 1 if name == "deltas" else 2  # the base arm has no difference from itself
    assert f"Not drawn: {skipped} more arm" in few.caption
    assert f"Not drawn: {28 + skipped} more arms, which the table has." in more.caption


def test_the_base_arm_and_the_best_arms_are_drawn_in_the_order_of_the_study():
    judged = many(9)
    assert chosen.arms([f"arm {i}" for i in range(9)], 3, judged) == ["arm 0", "arm 7", "arm 8"]
    assert chosen.arms([f"arm {i}" for i in range(1, 9)], 2, judged) == ["arm 7", "arm 8"]
    names = ["arm 0", "b", "c", "d"]
    assert "the base arm and the best 2 others." in chosen.left_out(names, 3, judged)
    assert "shows the best 2 arms. Not drawn: 1 more arm," in chosen.left_out(
        ["b", "c", "d"], 2, judged
    )
