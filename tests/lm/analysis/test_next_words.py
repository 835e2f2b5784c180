"""Next words against the log-probabilities that the trials saved of the same text."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate import papers
from ablate.errors import CombinationError, ConfigError
from ablate.lm.analysis import next_words
from ablate.lm.analysis.next_words import Context, NextWordsOptions


@pytest.mark.parametrize("position", [1, 2, 60, 250])  # 250: beyond a window
def test_a_context_gives_the_saved_probability_of_its_token(position, irlm, doc):
    stream = irlm.stream("valid")
    for subject in (irlm, doc):
        log_probs = next_words._after(subject, Context("", stream[:position].tolist()))
        assert float(log_probs.exp().sum()) == pytest.approx(1)
        kept = subject.log_probs("valid")[position - 1]
        assert float(log_probs[stream[position]]) == pytest.approx(kept, abs=2e-5)


def test_the_table_sets_both_side_by_side(irlm, doc):
    options = NextWordsOptions(positions=(40,), num=4, common=2, tokens=100)
    finding = next_words.run(irlm, doc, options)
    words = [list(row) for row in finding.rows[:4]]
    assert [row[:2] for row in words] == [["40", rank] for rank in (1, 2, 3, 4)]
    for subject, word, p in ((irlm, 2, 3), (doc, 4, 5)):
        context = Context("", subject.stream("valid")[:40].tolist())
        log_probs = next_words._after(subject, context)
        assert [row[p] for row in words] == sorted((row[p] for row in words), reverse=True)
        for row in words:
            assert math.log(row[p]) == pytest.approx(float(log_probs[subject.token(row[word])]))
        assert log_probs.exp().max() == pytest.approx(words[0][p])


def test_the_share_of_the_commonest_words_is_counted(irlm, doc):
    options = NextWordsOptions(positions=(40,), common=3, tokens=100)
    rows = [row for row in next_words.run(irlm, doc, options).rows if row[0] == "all"]
    targets = irlm.stream("valid")[1:101]
    for _, _, word, _, same, _, share in rows:
        assert word == same
        assert share == pytest.approx(np.count_nonzero(targets == irlm.token(word)) / 100)


def test_over_all_words_the_mean_probabilities_are_1(irlm, doc):
    every = list(range(irlm.corpus.num_words))
    shares, means = next_words._mean_probabilities((irlm, doc), every, NextWordsOptions(tokens=300))
    assert [sum(shares), *map(sum, means)] == pytest.approx([1, 1, 1])


def test_wrong_options_are_refused(irlm, doc, ngram, train):
    with pytest.raises(ConfigError, match="9999 is beyond valid, which has 500 tokens"):
        next_words.run(irlm, doc, NextWordsOptions(positions=(9999,)))
    with pytest.raises(ConfigError, match="Did you mean 'the'"):
        next_words.run(irlm, doc, NextWordsOptions(text="thee"))
    with pytest.raises(CombinationError, match="of the task 'ngram'"):
        next_words.run(irlm, ngram, NextWordsOptions())
    shorter = train({**irlm.journal.trial.values, "corpus.train_tokens": 1000}, "shorter")
    with pytest.raises(CombinationError, match="have read different texts"):
        next_words.run(irlm, shorter, NextWordsOptions())


def listed_after(context: str) -> list[papers.Words]:
    """What a paper might list: two words of one model, and one of another."""
    here = {"table": "", "corpus": "", "after": context}
    return [
        papers.Words(model="one", words=("a", "b"), probabilities=(0.5, 0.25), **here),
        papers.Words(model="other", words=("c",), probabilities=(0.125,), **here),
    ]


def test_the_paper_s_words_stand_beside(irlm, doc, monkeypatch):
    stream = irlm.stream("valid")
    context = " ".join(irlm.word(token) for token in stream[100:130]) + " + next"
    monkeypatch.setattr(papers, "words", lambda paper, table: {context: listed_after(context)})
    options = NextWordsOptions(published=True, num=3, common=1, tokens=50)
    finding = next_words.run(irlm, doc, options)
    assert finding.columns == [*next_words.COLUMNS, *next_words.PAPER_COLUMNS]
    assert [row[7:] for row in finding.rows] == [
        ["a", 0.5, "c", 0.125],
        ["b", 0.25, None, None],
        [None] * 4,
        *([[None] * 4] * (len(finding.rows) - 3)),
    ]
    whole = next_words.run(irlm, doc, NextWordsOptions(positions=(130,), num=3, common=1))
    assert [row[2:6] for row in finding.rows[:3]] == [row[2:6] for row in whole.rows[:3]]
