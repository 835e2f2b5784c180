"""A ladder's table, sentence and figure, of studies made by hand."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ablate.compare.formats import text, writer
from ablate.compare.judged import Judged
from ablate.compare.plots import ladder as plot
from ablate.compare.plots.interactive import as_json
from ablate.compare.plots.static import drawn
from ablate.compare.statistics import power_law
from ablate.compare.statistics.ladder import over_rungs
from ablate.compare.statistics.paired import holm
from ablate.compare.table.ladder_table import (
    over_rungs_numbers,
    over_rungs_table,
    sentence,
)
from ablate.results.verdict import Verdict
from tests.support.studies_by_hand import ByHand

RUNGS = ("16", "24", "32", "48")
COMPUTE = (1e9, 3e9, 9e9, 3e10)


def rungs(
    gains, seeds=5, noise=0.004, compute=COMPUTE, costs=1.0, names=RUNGS, bends=None, **fields
):
    """A rung for each name; `gains` has an arm's gains in nats, rung by rung, and `bends` by how
    much the base is above a power law."""
    studies = []
    for index, (name, operations) in enumerate(zip(names, compute, strict=True)):
        draws = np.random.default_rng([index, seeds])
        mean = 1.5 + 2.0 * (operations / 1e9) ** -0.2 + (bends[index] if bends else 0)
        base = [mean + float(draws.normal(0, noise)) for _ in range(seeds)]
        own = {
            arm: [one - gain[index] + float(draws.normal(0, noise)) for one in base]
            for arm, gain in gains.items()
        }
        of = {"scale": f"s.{name}", "one_of": "s", "rungs": names, "sizes": {"w": name}}
        arms = {"base": {"compute": operations}}
        arms |= {arm: {"compute": costs * operations} for arm in gains}
        record = {**of, "beyond": 10.0, **fields}
        studies.append(ByHand({"base": base, **own}, record_fields=record, arm_fields=arms))
    return studies


def summaries(studies):
    return [Judged(study.record, study.journals) for study in studies]


def found_of(gains, **more):
    return over_rungs(summaries(rungs(gains, **more)))


GROWING, STEADY, FADING = (0.02, 0.05, 0.08, 0.11), (0.1,) * 4, (0.1, 0.07, 0.04, 0.01)


def test_the_words_are_of_t_tests_over_the_lines_that_numpy_fits_to_each_seeds_savings():
    found = found_of({"a": GROWING})
    (row,) = found.over
    fits = [np.polyfit(np.log10(COMPUTE), logs, 1) for logs in found.climbs["a"].savings]
    of_seeds = {
        "largest": found.climbs["a"].savings[:, -1],
        "slope": [slope for slope, _ in fits],
        "beyond": [np.polyval(line, np.log10(10 * COMPUTE[-1])) for line in fits],
    }
    shown = {"slope": row.change, "beyond": row.beyond}
    for what, test in row.tests.items():
        expected = stats.ttest_1samp(of_seeds[what], 0)
        assert test.difference.deltas == pytest.approx(-np.asarray(of_seeds[what]))
        assert test.difference.p == pytest.approx(expected.pvalue)
        if what in shown:
            interval = 10 ** np.array(expected.confidence_interval())
            assert [shown[what].low, shown[what].high] == pytest.approx(interval)


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        (GROWING, "grows, holds"),
        (STEADY, "grows, holds"),  # steady in nats, so a growing share of the compute
        (FADING, "shrinks, not shown to hold"),
        ((0.05, 0.0, -0.05, -0.1), "shrinks, worse"),
        ((-0.2, -0.15, -0.1, -0.05), "grows, worse"),
        ((0.0,) * 4, "not shown to hold"),
        ((0.006, -0.004, 0.004, 0.12), "grows, holds"),
        ((-0.1, -0.06, -0.02, 0.0), "grows, not shown to hold"),
    ],
)
def test_the_words_say_what_is_shown_of_the_gain(gains, words):
    (row,) = found_of({"a": gains}).over
    assert row.verdict == words


TENFOLD = (1e9, 1e10, 1e11, 1e12)
QUIET = {"noise": 0.001, "compute": TENFOLD}


def of_a_factor(factor, change=1.0):
    """The gains of an arm that needs so many times less compute than the base on the smallest rung,
    and by `change` times that on each further one."""
    factors = [factor * change**rung for rung in range(len(TENFOLD))]
    of_rungs = zip(TENFOLD, factors, strict=True)
    return tuple(2.0 * (c / 1e9) ** -0.2 * (1 - saves**-0.2) for c, saves in of_rungs)


@pytest.mark.parametrize(
    ("factor", "change", "words"),
    [
        (2.0, 1.0, "holds"),
        (1.2, 1.0, "holds"),
        (1.5, 1.3, "grows, holds"),
        (4.0, 0.8, "shrinks, holds"),
        (4.0, 0.7, "shrinks, not shown to hold"),
        (0.7, 1.0, "worse"),
        (0.7, 1.1, "grows, worse"),
    ],
)
def test_words_are_of_the_saving_and_not_of_nats_which_shrink_where_curves_flatten(
    factor, change, words
):
    (row,) = found_of({"a": of_a_factor(factor, change)}, **QUIET).over
    assert row.verdict == words
    assert row.change.low < change < row.change.high
    assert row.beyond.low < factor * change**4 < row.beyond.high


def test_an_arm_that_costs_twice_what_its_gain_saves_is_worse():
    found = found_of({"a": of_a_factor(1.5)}, costs=3.0, **QUIET)
    assert {one.gain.verdict for one in found.rows if one.gain} == {Verdict.BETTER}
    assert found.over[0].verdict == "worse"


def test_all_tests_of_the_table_are_corrected_together():
    found = found_of({"a": GROWING, "b": (0.0, 0.004, 0.0, 0.002)})
    assert found.family == 2 * (4 + 3)
    tests = [row.gain for row in found.rows if row.gain]
    tests += [test for row in found.over for test in row.tests.values()]
    corrected = holm([one.difference.p for one in tests])
    assert [one.p_holm for one in tests] == pytest.approx(corrected)
    weak = next(row for row in found.rows if (row.arm, row.rung) == ("b", "24"))
    assert weak.gain.p_holm > weak.own.comparison.p_holm  # of the rung's own table


def test_the_change_of_what_the_base_needs_is_that_of_each_seed():
    found = found_of({"a": STEADY}, noise=0.001)
    (row,), climb = found.over, found.climbs["a"]
    logs = np.log10(COMPUTE)

    def change_with(step):
        losses, base = climb.losses.mean(0) + step[0], climb.base.mean(0) + step[1]
        law = power_law.fit(climb.base_compute, base.tolist(), above_zero=True)
        needed = [law.compute_for(loss) for loss in losses.tolist()]
        return np.polyfit(logs, np.log10(needed) - logs, 1)[0]

    mean, size = change_with(np.zeros((2, 4))), 1e-5
    moves = np.zeros((2, 4))
    for at in np.ndindex(2, 4):
        step = np.zeros((2, 4))
        step[at] = size
        moves[at] = (change_with(step) - change_with(-step)) / (2 * size)
    away = np.stack([climb.losses, climb.base], 1)
    of_seeds = mean + ((away - away.mean(0)) * moves).sum((1, 2))
    interval = stats.ttest_1samp(of_seeds, 0).confidence_interval()
    assert row.change.ratio == pytest.approx(10**mean)
    assert (row.change.low, row.change.high) == pytest.approx(
        (10**interval.low, 10**interval.high), rel=0.002
    )


def test_an_interval_of_a_rung_is_that_of_the_whole_table():
    found = found_of({"a": (0.0, 0.004, 0.0, 0.006), "b": GROWING}, seeds=3)
    gains = [row.gain for row in found.rows if row.gain]
    close = [gain for gain in gains if gain.difference.p < 0.05 < gain.p_holm]
    assert close and all(gain.contains_0 for gain in close)
    assert all(gain.verdict.decided for gain in gains if not gain.contains_0)
    assert f"[{100 * (1 - 0.05 / found.family):.1f}%]" in text.write(over_rungs_table(found), 200)


def test_a_saving_whose_interval_excludes_1_without_a_word_is_named():
    found = found_of({"a": of_a_factor(1.5), "b": GROWING}, seeds=3, noise=0.01, compute=TENFOLD)
    (row, _) = found.over
    assert row.verdict == "not shown to hold" and row.beyond.low > 1
    said = text.write(over_rungs_table(found, full=True), 200).replace("\n  ", " ")
    assert "Over 4 rungs, an interval of a" in said and "excludes 1" in said


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"compute": (1e9, 9e9, 3e9, 3e10)}, "its compute does not rise from rung to rung"),
        ({"noise": 0.6}, "its loss does not fall from rung to rung"),
        ({"bends": (0, 0.04, 0.02, 0)}, "its losses are not on a curve E + A C^-a"),
    ],
)
def test_without_a_curve_there_is_no_number_and_a_reason(more, why):
    found = found_of({"a": STEADY}, **more)
    assert all(row.needed is None for row in found.rows)
    assert found.climbs["a"].problem == why
    assert why in text.write(over_rungs_table(found)).replace("\n  ", " ")
    assert [row.verdict for row in found.over] == ["undecided"] * ("compute" not in more)
    assert {row.reason for row in found.over} <= {"no curve"}


@pytest.mark.parametrize(
    ("bends", "noise", "names"),
    [
        ((0, 0.04, 0.02, 0), 0.04, RUNGS),  # within what seeds vary
        ((0, -0.04, -0.02), 0.004, RUNGS[:3]),  # a curve of three numbers goes through these
    ],
)
def test_a_curve_that_is_not_shown_to_be_wrong_is_used(bends, noise, names):
    compute = COMPUTE[: len(names)]
    found = found_of({"a": (0.0,) * 4}, bends=bends, noise=noise, names=names, compute=compute)
    assert not found.climbs["a"].problem
    assert [row.verdict for row in found.over] == ["not shown to hold"]


def test_nothing_is_decided_before_every_rung_and_every_result_is_there():
    studies = rungs({"a": GROWING})
    first = over_rungs(summaries(studies[:3]))
    assert (first.over, first.missing) == ([], ["48"])
    assert "Not run yet on 48." in text.write(over_rungs_table(first))
    del studies[2].journals["a-1"]
    (row,) = over_rungs(summaries(studies)).over
    assert (row.verdict, row.reason) == ("undecided", "results missing on 1 of 4 rungs")
    assert len(row.tests["slope"].difference.deltas) == 4  # the seed is left out on all rungs


@pytest.mark.parametrize(("arm", "why"), [("a", "lost seeds"), ("base", "other arm lost seeds")])
def test_lost_seeds_on_one_rung_forbid_any_word(arm, why):
    studies = rungs({"a": STEADY})
    studies[3].end(f"{arm}-0", "diverged", metrics={})
    assert over_rungs(summaries(studies)).over[0].reason == why


def test_programs_get_every_row_unrounded():
    found = found_of({"a": GROWING})
    rows = [*csv.DictReader(io.StringIO(writer("csv").write(over_rungs_numbers(found))))]
    keys = [f"mixture_layers@s.{rung}" for rung in RUNGS for _ in "ab"]
    assert [row["study"] for row in rows] == [*keys, "mixture_layers@s"]
    over = found.over[0]
    assert float(rows[-1]["base_needs_change_p"]) == over.tests["slope"].difference.p
    assert float(rows[-1]["base_needs_beyond_p_holm"]) == over.tests["beyond"].p_holm
    assert float(rows[-1]["base_needs_beyond"]) == over.beyond.ratio
    assert float(rows[-1]["base_needs_low"]) == over.needed.low
    assert float(rows[-1]["base_needs_change_high"]) == over.change.high
    assert (rows[-1]["verdict"], rows[-1]["beyond"]) == ("grows, holds", "10.0")
    assert rows[1]["compute"] == "1000000000.0" and rows[0]["verdict"] == ""


def test_the_figure_has_both_curves_with_bands_and_the_gain_with_a_line_on_the_rungs():
    studies = rungs({"a": GROWING})
    every = summaries(studies)
    figure = plot.described(replace(every[-1], rungs=every))
    above, below = figure.panels
    assert [one.name for one in above.series] == ["base", "a"]
    assert [one.name for one in below.series] == ["a"]
    bands = [mark for mark in above.marks if getattr(mark, "shade", 0)]
    assert len(bands) == 2 * 2 and all(b.low[0] < b.y[0] < b.high[0] for b in bands)
    assert not any(getattr(mark, "shade", 0) for mark in below.marks)
    ends = [mark.x[-1] for mark in below.marks if len(mark.x) > len(COMPUTE)]
    assert ends == [pytest.approx(3e10)]  # what differences of losses are beyond, no line says
    assert drawn(figure) and "operations of a seed" in as_json(figure)
    assert plot.described(every[-1]) is None


@pytest.mark.parametrize(
    ("gain", "cell", "words"), [(1.9, "far above", "more"), (-9.0, "far below", "less")]
)
def test_what_is_beyond_the_ladder_by_far_has_no_number(gain, cell, words):
    found = found_of({"a": (gain,) * 4})
    written = text.write(over_rungs_table(found), 200)
    assert f"{cell} [" in written and "so no number is given" in written
    assert f"base needs far {words} compute, [" in sentence(found.over[0], found)
