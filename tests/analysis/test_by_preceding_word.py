"""Means after words by a loop over the tokens; the interval against the delta method."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.analysis import by_preceding_word
from ablate.analysis.by_preceding_word import (
    ByPrecedingWordOptions,
    bootstrap_ratios,
    by_sentence,
    intervals,
)


def test_sums_by_sentence_and_word():
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    sentences, groups = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 0, -1, 1])
    np.testing.assert_array_equal(
        by_sentence(values, sentences, groups, (2, 2)), [[5.0, 2.0], [0.0, 16.0]]
    )


def sentences_of(rng, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums that vary by sentence, over counts that do, too, of two groups."""
    counts = rng.integers(1, 6, size=(num, 2)).astype(float)
    return counts * rng.normal([0.1, -0.3], [0.5, 1.0], size=(num, 2)), counts


def test_the_spread_of_the_draws_is_the_delta_methods():
    sums, counts = sentences_of(np.random.default_rng(1), 400)
    ratios = bootstrap_ratios(sums, counts, 4000)
    ratio = sums.sum(0) / counts.sum(0)
    residual = sums - ratio * counts
    error = np.sqrt((residual**2).sum(0)) / counts.sum(0)
    np.testing.assert_allclose(ratios.mean(0), ratio, atol=0.1 * error.min())
    np.testing.assert_allclose(ratios.std(0), error, rtol=0.05)
    low, high = intervals(ratios, 0.95)
    np.testing.assert_allclose(high - low, 2 * 1.96 * error, rtol=0.08)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    covered = []
    for seed in range(150):
        ratios = bootstrap_ratios(*sentences_of(rng, 120), 300, seed)
        low, high = intervals(ratios, 0.9)
        covered += ((low < [0.1, -0.3]) & (high > [0.1, -0.3])).tolist()
    assert 0.84 < np.mean(covered) < 0.95


def test_draws_without_a_word_are_left_out():
    sums, counts = np.array([[1.0], [0.0], [0.0]]), np.array([[2.0], [0.0], [0.0]])
    ratios = bootstrap_ratios(sums, counts, 200)
    assert np.isnan(ratios).any() and set(ratios[~np.isnan(ratios)]) == {0.5}
    assert intervals(ratios, 0.95).ravel().tolist() == [0.5, 0.5]


def test_the_number_of_draws_in_memory_changes_nothing(monkeypatch):
    sums, counts = sentences_of(np.random.default_rng(3), 50)
    whole = bootstrap_ratios(sums, counts, 40)
    monkeypatch.setattr(by_preceding_word, "AT_A_TIME", 350)
    np.testing.assert_allclose(bootstrap_ratios(sums, counts, 40), whole, rtol=1e-12)


def test_the_table_by_a_loop_over_the_tokens(irlm, ngram):
    options = ByPrecedingWordOptions(words=("the", "<eos>"))
    finding = by_preceding_word.run(irlm, ngram, options=options)
    stream = irlm.stream("valid").tolist()
    kept = [subject.log_probs("valid").tolist() for subject in (irlm, ngram)]
    for row, word in zip(finding.rows, ("the", "<eos>"), strict=False):
        token = irlm.token(word)
        places = [i for i, before in enumerate(stream[:-1]) if before == token]
        nll = [-np.mean([each[i] for i in places]) for each in kept]
        assert row[:2] == [word, len(places)]
        assert row[2:5] == pytest.approx([*map(math.exp, nll), nll[1] - nll[0]])
        assert row[5] < row[4] < row[6]
    recorded = [s.journal.outcome.metrics["valid_ppl"] for s in (irlm, ngram)]
    assert finding.rows[-1][0] == "(any word)"
    assert finding.rows[-1][2:4] == pytest.approx(recorded, rel=1e-4)


def test_a_trial_does_not_differ_from_itself(irlm):
    finding = by_preceding_word.run(irlm, irlm, options=ByPrecedingWordOptions(num=8))
    assert all(row[4] == 0 and set(row[5:]) <= {0.0, None} for row in finding.rows)


def test_a_word_of_few_sentences_gets_no_interval(irlm, ngram):
    stream = irlm.stream("valid")
    once = [t for t in range(irlm.corpus.num_words) if np.count_nonzero(stream[:-1] == t) == 1]
    options = ByPrecedingWordOptions(words=(irlm.word(once[0]),))
    first, *_ = by_preceding_word.run(irlm, ngram, options=options).rows
    assert first[1] == 1 and first[5:] == [None, None]
