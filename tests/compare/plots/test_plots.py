"""Pictures show what the tables say, and their lines can be distinguished."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from ablate.commands.plot import Files, plot
from ablate.compare import plots
from ablate.compare.plots import apart, static, style
from ablate.compare.plots.static import KINDS, written
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.curves import budget_curves
from ablate.errors import ConfigError
from ablate.store import study_record
from ablate.store.journal import Journal
from tests.support.studies_by_hand import ByHand
from tests.support.whole_study import judged_of, whole_study


def axes_of(name, judged, index=0):
    return static.drawn(described(name, judged)).axes[index]


def described(name, judged) -> Any:
    figure = plots.get(name).described(judged)
    assert figure is not None
    return figure


@pytest.mark.slow
@pytest.mark.parametrize("name", plots.NAMES)
def test_every_picture_is_drawn_as_png_and_svg_the_same_every_time(name, judged):
    figure = described(name, judged)
    picture = static.drawn(figure)
    files = {kind: written(picture, kind) for kind in KINDS}
    assert files["png"].startswith(b"\x89PNG") and len(files["png"]) > 5000
    assert ET.fromstring(files["svg"]).tag.endswith("svg")
    again = static.drawn(described(name, judged))
    assert {kind: written(again, kind) for kind in KINDS} == files
    assert figure.caption and figure.table.rows


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deltas", "search"])
def test_a_dollar_in_a_name_is_no_formula(name):
    r"""`$\write18{id}$` ended every plot with an error of mathtext."""
    asked = r"$\write18{id}$"
    study = whole_study(asked)
    figure = static.drawn(described(name, judged_of(study)))
    figure.draw_without_rendering()
    assert written(figure, "svg")
    assert any(asked in text.get_text() for text in figure.findobj(Text))


@pytest.mark.parametrize("name", plots.NAMES)
def test_a_study_without_results_has_no_picture(name):
    assert plots.get(name).described(judged_of(ByHand({"base": [None]}))) is None


@pytest.mark.parametrize("tuned", [True, False])
def test_deltas_are_where_the_table_has_them(study, tuned):
    """Filled where they are decided: of arms that one search tuned, nowhere."""
    if not tuned:
        del study.record_fields["searches"]
    judged = judged_of(study)
    axes = axes_of("deltas", judged)
    names = [label.get_text() for label in axes.get_yticklabels()]
    arms = [arm for arm in judged.arms if arm.comparison]
    assert names == [arm.name for arm in reversed(arms)]
    marked = [line for line in axes.lines if line.get_marker() in ("o", "s", "D")]
    dots, drawn = ([line for line in marked if bool(line.get_linewidth()) == x] for x in (0, 1))
    for line, arm in zip(dots, reversed(arms), strict=True):
        pairs = map(judged.metric.change, arm.comparison.difference.deltas)
        assert [*line.get_xdata()] == [*pairs]
    for line, arm in zip(drawn, reversed(arms), strict=True):
        assert line.get_xdata()[0] == arm.comparison.delta
        decided = arm.comparison.verdict.decided
        assert (line.get_markerfacecolor() != "white") == decided
    assert any(line.get_markerfacecolor() != "white" for line in drawn) == (not tuned)
    ends = [tuple(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2][1:]
    assert ends == [arm.comparison.interval for arm in reversed(arms)]


def test_an_arm_far_from_all_others_is_an_arrow_and_hides_nothing():
    losses = {"base": [4.0, 4.01, 4.03], "near": [3.98, 4.0, 4.0], "mid": [4.03, 4.02, 4.05]}
    judged = judged_of(ByHand({**losses, "lost": [9.0, 9.1, 9.0]}))
    axes = axes_of("deltas", judged)
    assert axes.get_xlim()[1] < 20
    (arrow,) = (line for line in axes.lines if line.get_marker() == ">")
    assert 0 < arrow.get_xdata()[0] * 1.05 == pytest.approx(axes.get_xlim()[1])
    assert any("×151" in text.get_text() and "lost" not in text.get_text() for text in axes.texts)


def test_learning_curves_are_the_mean_and_the_range_of_the_seeds(study, judged):
    axes = axes_of("curves", judged)
    line, band = axes.lines[0], axes.collections[0]
    finals = [study.journals[f"a off, b off-{seed}"] for seed in range(4)]
    at_end = [journal.epochs[-1].metrics["valid_nll"] for journal in finals]
    assert line.get_ydata()[-1] == pytest.approx(math.exp(sum(at_end) / 4))
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(math.exp(min(at_end)))
    assert len(line.get_xdata()) == 3 and len(axes.lines) == 4


def test_the_curve_of_a_stage_continues_that_of_the_stage_before():
    study = ByHand({"base": [4.0, 4.1]})
    for index in range(2):
        first = study.trials[index]
        study.trials[index] = study_record.PlannedTrial(
            **{**vars(first), "final": False, "stage": "train"}
        )
        study.plan(
            f"tuned-{index}", "base", index, stage="finetune", final=True, parents=(first.id,)
        )
        study.end(f"tuned-{index}", "completed", metrics={"valid_nll": 3.9})
    axes = axes_of("curves", judged_of(study))
    assert len(axes.lines[0].get_xdata()) == 4


def test_a_published_point_of_an_arm_that_is_not_comparable_is_named_with_the_reason():
    study = ByHand({"base": [4.0] * 3})
    study.record_fields = {"paper": "inan2017tying", "tables": ("Table 2",), "corpus": "ptb"}
    study.record_fields["published_scale"] = True
    study.arm_fields = {
        "base": {"published": {"test": 78.9}, "not_comparable": "trained by Adam"},
    }
    study.end("base-0", "completed", metrics={"test_nll": 3.9}, num_parameters=5000)
    judged = judged_of(study)
    axes = axes_of("parameters", judged)
    shown = {float(container.lines[0].get_ydata()[0]) for container in axes.containers}
    assert 78.9 not in shown and 100.0 not in shown
    caption = described("parameters", judged).caption
    assert "Not comparable (trained by Adam): CharCNN (Kim et al., 2015)." in caption
    assert "Not comparable (another text): Sum-Prod Net (Cheng et al., 2014)." in caption


def test_the_budget_curve_is_the_expected_best(judged):
    axes = axes_of("budget", judged)
    curves = budget_curves(judged)
    bold = [line for line in axes.lines if line.get_linewidth() == 2]
    for line, curve in zip(bold, curves, strict=True):
        assert [*line.get_xdata()] == [point.tokens for point in curve.expected]
        assert [*line.get_ydata()] == [math.exp(point.loss) for point in curve.expected]


def test_interactions_show_the_mean_at_every_two_levels(study, judged):
    axes = axes_of("interactions", judged)
    (first, *_), (second, *_) = [container.lines for container in axes.containers]
    off = [statistics.mean(study.losses[f"a {level}, b off"]) for level in ("off", "on")]
    assert [*first.get_ydata()] == pytest.approx([math.exp(mean) for mean in off])
    assert len(second.get_xdata()) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["b: off", "b: on"]


def test_a_trial_that_never_started_is_in_no_picture(study):
    study.journals["a off, b off-10"] = Journal(study.journals["a off, b off-10"].trial)
    axes = axes_of("search", judged_of(study))
    assert axes.get_title(loc="left").endswith("4 trials, 3 completed")


def test_in_grey_a_line_that_looks_like_another_has_other_dashes():
    def grey(colour: str) -> float:
        red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for a, b in itertools.combinations(map(style.line, range(style.MAX_LINES)), 2):
        apart = abs(grey(a["color"]) - grey(b["color"]))
        assert apart > 0.15 or a["linestyle"] != b["linestyle"]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.01, 0.08))
def test_labels_are_moved_apart_and_stay_in_order(places, gap):
    places = sorted(places)
    moved = apart.spread(places, gap)
    assert all(b - a >= gap - 1e-9 for a, b in itertools.pairwise(moved))
    assert min(moved) >= -1e-9 and max(moved) <= 1 + 1e-9


def test_labels_that_are_apart_stay_where_they_are():
    assert apart.spread([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])


@pytest.mark.slow
def test_the_command_writes_files_and_lists_plots_without_data(workspace):
    study = ByHand({"base": [4.0, 4.1, 4.2], "other": [3.9, 4.0, 4.2]})
    study_record.write(workspace.store, study.record)
    for journal in study.journals.values():
        journal.write(workspace.store)
    printed = plot(workspace, "mixture_layers", (), Files())
    folder = workspace.study_folder(study.record.key) / "pictures"
    assert sorted(file.name for file in folder.iterdir()) == [
        *("curves.png", "curves.svg", "deltas.png", "deltas.svg")
    ]
    assert "budget: nothing to draw; needs a search" in printed
    with pytest.raises(ConfigError, match="Did you mean 'deltas'"):
        plot(workspace, "mixture_layers", ("delta",), Files())


@pytest.mark.slow
def test_a_paper_s_plot_has_serif_letters_and_its_width(workspace):
    study = whole_study()
    study_record.write(workspace.store, study.record)
    for journal in study.journals.values():
        journal.write(workspace.store)
    files = Files(str(workspace.folder / "paper"), ("pdf", "svg"), "serif")
    printed = plot(workspace, study.record.key, ("deltas",), files)
    names = [Path(line.strip()).name for line in printed.splitlines() if line.startswith("  ")]
    assert names == ["deltas.pdf", "deltas.svg"]
    pdf = (workspace.folder / "paper" / "deltas.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and b"STIXGeneral" in pdf and b"DejaVuSans" not in pdf
    assert b"/FontType 42" in pdf or b"/CIDFontType2" in pdf  # letters that publishers take
    figure = described("deltas", judged_of(study))
    assert static.drawn(figure, "serif").get_figwidth() == pytest.approx(5.5)
    assert written(static.drawn(figure, "serif"), "pdf", "serif") == pdf
