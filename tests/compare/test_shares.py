"""The share of seeds on which an arm is better, and its interval, against scipy's."""

from __future__ import annotations

import pytest
from scipy import stats

from ablate.compare.formats import csv as as_csv
from ablate.compare.judged import Judged
from ablate.compare.statistics.shares import exact_interval, share_better
from ablate.compare.table import numbers
from ablate.compare.table.full_table import full_table as study_table
from ablate.config.metrics import RANK


@pytest.mark.parametrize(("num", "of"), [(0, 3), (3, 3), (10, 12), (1, 2), (50, 100)])
def test_the_interval_is_clopper_and_pearsons(num, of):
    expected = stats.binomtest(num, of).proportion_ci(method="exact")
    assert exact_interval(num, of) == pytest.approx((expected.low, expected.high))


def test_an_equal_value_is_not_better():
    assert str(share_better([-1.0] * 10 + [0.0, 1.0])) == "10/12 [52, 98%]"


def test_the_column_stands_in_the_table_and_its_numbers_in_csv(by_hand):
    study = by_hand({"base": [4.0, 4.1, 4.2], "other": [3.9, 4.0, 4.3]})
    summary = Judged(study.record, study.journals)
    table = study_table(summary)
    at = table.headings.index("better")
    assert [row[at] for row in table.rows] == ["", "2/3 [9, 99%]"]
    assert any(note.startswith("better: the pairs of seeds") for note in table.notes)
    text = as_csv.write(numbers.arms(summary, "k"))
    assert "num_better,better_low,better_high" in text and ",2,0.09429" in text


def test_one_pair_has_no_share_and_a_metric_without_direction_is_lower(by_hand):
    study = by_hand({"base": [4.0], "other": [3.9]})
    table = study_table(Judged(study.record, study.journals))
    assert [row[table.headings.index("better")] for row in table.rows] == ["", ""]
    study.record_fields = {"judged_by": RANK}
    assert "lower" in study_table(Judged(study.record, study.journals)).headings
