"""Means after words by a loop over the tokens; their intervals beside `ablate trial tokens`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.compare.statistics import tokens
from ablate.lm.analysis import by_preceding_word
from ablate.lm.analysis.by_preceding_word import ByPrecedingWordOptions


@pytest.fixture
def of_few_sentences(monkeypatch):
    """A text of these tests is as long as one must be."""
    monkeypatch.setattr(tokens, "MIN_SENTENCES", 20)


@pytest.mark.usefixtures("of_few_sentences")
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


@pytest.mark.usefixtures("of_few_sentences")
def test_the_interval_after_any_word_is_that_of_ablate_tokens(irlm, ngram):
    options = ByPrecedingWordOptions(num=3)
    *_, last = by_preceding_word.run(irlm, ngram, options=options).rows
    stream = irlm.stream("valid")
    numbers = np.cumsum(stream[:-1] == irlm.corpus.eos)
    first, second = (subject.log_probs("valid") for subject in (irlm, ngram))
    one = tokens.sentence_difference(second, first, numbers)
    assert last[4:] == pytest.approx([one.mean, *one.interval])


def test_a_text_of_few_sentences_has_no_interval(irlm, ngram):
    assert np.count_nonzero(irlm.stream("valid") == irlm.corpus.eos) < tokens.MIN_SENTENCES
    finding = by_preceding_word.run(irlm, ngram, options=ByPrecedingWordOptions(num=3))
    assert all(row[5:] == [None, None] for row in finding.rows)
