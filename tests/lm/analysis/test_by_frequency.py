"""Classes by hand, and the whole against the loss that the trial itself recorded."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.lm.analysis import by_frequency
from ablate.lm.analysis.by_frequency import ByFrequencyOptions


def test_classes_are_powers_of_ten():
    counts = np.array([0, 1, 9, 10, 99, 100, 12_345])
    assert by_frequency.frequency_class(counts).tolist() == [0, 1, 1, 2, 2, 3, 5]
    names = [by_frequency.class_name(number) for number in (0, 1, 2, 5)]
    assert names == ["0", "1 to 9", "10 to 99", "10,000 to 99,999"]


@pytest.mark.slow
def test_the_classes_make_up_the_loss_that_was_recorded(irlm, ngram):
    finding = by_frequency.run(irlm, ngram, options=ByFrequencyOptions())
    *classes, overall = [list(row) for row in finding.rows]
    assert sum(row[2] for row in classes) == overall[2] == 499
    for place, subject in ((3, irlm), (4, ngram)):
        recorded = subject.journal.outcome.metrics["valid_nll"]
        mean = sum(row[2] * math.log(row[place]) for row in classes) / 499
        assert mean == pytest.approx(recorded, rel=1e-5)
        assert overall[place] == pytest.approx(math.exp(recorded), rel=1e-5)
    for row in classes:
        assert row[5] == pytest.approx(math.log(row[4] / row[3]))


def test_a_class_by_a_loop_over_the_tokens(irlm):
    finding = by_frequency.run(irlm, options=ByFrequencyOptions())
    counts, stream = irlm.corpus.counts().tolist(), irlm.stream("valid").tolist()
    log_probs = irlm.log_probs("valid").tolist()
    rare = [p for token, p in zip(stream[1:], log_probs, strict=True) if 1 <= counts[token] <= 9]
    words = {token for token in stream[1:] if 1 <= counts[token] <= 9}
    row = next(row for row in finding.rows if row[0] == "1 to 9")
    assert row[1:] == [len(words), len(rare), pytest.approx(math.exp(-np.mean(rare)))]
