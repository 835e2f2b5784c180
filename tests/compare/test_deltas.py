"""Δ: what a table says that it is, and the intervals that no metric can have."""

from __future__ import annotations

import csv
import io
import math
import re

import pytest

from ablate.compare.formats import csv as as_csv
from ablate.compare.formats import html, latex, markdown, text
from ablate.compare.judged import Judged
from ablate.compare.statistics.paired import mean
from ablate.compare.table import numbers
from ablate.compare.table.full_table import every_test
from ablate.compare.table.full_table import full_table as study_table
from ablate.config.metrics import BLEU, Metric

LOSSES = {"base": [4.0, 4.2, 4.4], "other": [3.2, 4.1, 4.35]}  # of ratios that vary


def of_metric(by_hand, metric: Metric, values: dict[str, list[float]], **record):
    study = by_hand({arm: [None] * len(each) for arm, each in values.items()})
    for arm, each in values.items():
        for index, value in enumerate(each):
            reported = {metric.key(split): value for split in ("valid", "test")}
            study.end(f"{arm}-{index}", "completed", metrics=reported)
    study.record_fields = {"judged_by": metric, **record}
    return Judged(study.record, study.journals)


def test_delta_is_what_its_note_says(by_hand):
    study = by_hand(LOSSES)
    summary = Judged(study.record, study.journals)
    base, other = summary.arms
    ratio = math.exp(mean([b - a for a, b in zip(*LOSSES.values(), strict=True)]))
    assert other.comparison.delta == pytest.approx(100 * (ratio - 1))
    of_means = 100 * (other.cells["test"].mean / base.cells["test"].mean - 1)
    assert abs(other.comparison.delta - of_means) > 1, "another number"
    note = "Δ: the geometric mean of the pairs' ratios to the base arm"
    table = study_table(summary)
    for writer, word in ((text, note), (markdown, note), (html, note), (latex, note)):
        written = " ".join(writer.write(table).split())
        assert word.replace("Δ", "").replace("'", "") in re.sub("'|&#39;", "", written)


@pytest.mark.parametrize(
    ("metric", "word"),
    [
        (Metric("accuracy", better="higher"), "Δ: the mean difference from the base arm"),
        (Metric("accuracy", better="higher", scale="logit"), "pairs' ratios of odds to the base"),
    ],
)
def test_the_note_is_of_the_metric_s_scale(by_hand, metric, word):
    summary = of_metric(by_hand, metric, {"base": [0.5, 0.6, 0.7], "other": [0.6, 0.8, 0.7]})
    assert any(word in note for note in study_table(summary).notes)
    if metric.scale == "linear":
        base, other = (arm.cells["test"].mean for arm in summary.arms)
        assert summary.arms[1].comparison.delta == pytest.approx(other - base)


TRANSLATED = {"base": [35.1, 33.9, 33.2], "iog": [23.7, 3.4, 0.7]}


def test_no_interval_leaves_what_the_metric_can_be(by_hand):
    summary = of_metric(by_hand, BLEU, TRANSLATED)
    (base, iog) = summary.arms
    low, high = iog.comparison.interval
    assert iog.comparison.is_cut and base.cells["test"].mean + low == pytest.approx(0)
    assert 0 < high < 100 - base.cells["test"].mean
    t_interval = summary.metric.natural_interval(iog.comparison.difference.interval)
    assert t_interval[0] < low and t_interval[1] == pytest.approx(high)
    note = "BLEU is from 0 to 100: cut there is the t interval of iog."
    assert note in study_table(summary).notes
    tests = every_test(summary)
    (shown,) = (row[tests.headings.index("95% interval")] for row in tests.rows)
    low_shown, high_shown = shown.strip("[]").replace("−", "-").split(", ")
    assert (float(low_shown), float(high_shown)) == pytest.approx((low, high), abs=1e-4)
    (row,) = (
        row
        for row in csv.DictReader(io.StringIO(as_csv.write(numbers.arms(summary, "k"))))
        if (row["arm"], row["split"]) == ("iog", "test")
    )
    assert float(row["low_scaled"]) == pytest.approx(t_interval[0]), "as computed"


def test_an_effect_may_be_as_large_as_the_whole_range_and_no_larger(by_hand):
    """Of two arms at 1 and 99, the mean is 50, and the effect is 98."""
    levels = {name: {"levels": {"a": name}} for name in ("off", "on")}
    values = {"off": [1.0, 1.0, 9.0], "on": [99.0, 99.0, 40.0]}
    study = by_hand({arm: [None] * 3 for arm in values}, base_arm="off", arm_fields=levels)
    for arm, each in values.items():
        for index, value in enumerate(each):
            study.end(f"{arm}-{index}", "completed", metrics={"valid_bleu": value})
    study.record_fields = {"judged_by": BLEU, "design": "factorial"}
    summary = Judged(study.record, study.journals)
    (effect,) = summary.effects.effects
    assert effect.delta == pytest.approx(mean([98, 98, 31]))
    assert effect.interval[1] == 100 and effect.is_cut
