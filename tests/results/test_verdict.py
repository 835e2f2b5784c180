"""What a verdict says, and of whom it speaks well."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from ablate.config.metrics import ACCURACY, PERPLEXITY, Metric
from ablate.results.verdict import Verdict

UNDIRECTED = replace(PERPLEXITY, better="neither")


@pytest.mark.parametrize(
    ("verdict", "metric", "favours"),
    [
        (Verdict.LOWER, PERPLEXITY, True),
        (Verdict.HIGHER, PERPLEXITY, False),
        (Verdict.LOWER, ACCURACY, False),
        (Verdict.HIGHER, ACCURACY, True),
        (Verdict.LOWER, UNDIRECTED, None),
        (Verdict.HIGHER, UNDIRECTED, None),
        (Verdict.UNDECIDED, PERPLEXITY, None),
        (Verdict.WITHHELD, ACCURACY, None),
    ],
)
def test_it_favours_the_better_arm(verdict: Verdict, metric: Metric, favours: bool | None):
    assert verdict.favours(metric) is favours


def test_only_a_direction_is_decided_and_has_an_opposite():
    assert [verdict for verdict in Verdict if verdict.decided] == [Verdict.LOWER, Verdict.HIGHER]
    assert [verdict.opposite for verdict in Verdict] == [
        "higher",
        "lower",
        "undecided",
        "no verdict",
    ]


def test_it_is_written_as_its_words():
    line = io.StringIO()
    csv.writer(line).writerow(Verdict)
    assert line.getvalue() == "lower,higher,undecided,no verdict\r\n"
    assert json.dumps([*Verdict]) == '["lower", "higher", "undecided", "no verdict"]'
