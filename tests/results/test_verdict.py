"""What a verdict says, and of whom it speaks well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate.config.metrics import ACCURACY, PERPLEXITY, Metric
from ablate.results.verdict import Verdict, of_loss

UNDIRECTED = replace(PERPLEXITY, better="neither")


@pytest.mark.parametrize(
    ("below_0", "metric", "verdict", "favours"),
    [
        (True, PERPLEXITY, "better", True),
        (False, PERPLEXITY, "worse", False),
        (True, ACCURACY, "better", True),  # a loss below the other's, whatever people read
        (False, ACCURACY, "worse", False),
        (True, UNDIRECTED, "lower", None),
        (False, UNDIRECTED, "higher", None),
    ],
)
def test_it_is_in_the_words_of_the_metric(
    below_0: bool, metric: Metric, verdict: str, favours: bool | None
):
    assert of_loss(below_0, metric) == verdict
    assert of_loss(below_0, metric).favours is favours
    assert of_loss(below_0, metric).decided


def test_without_a_direction_nothing_is_favoured():
    undecided = [verdict for verdict in Verdict if not verdict.decided]
    assert undecided == [Verdict.SAME, Verdict.UNDECIDED, Verdict.WITHHELD]
    assert {verdict.favours for verdict in undecided} == {None}
