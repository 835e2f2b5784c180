"""Kneser-Ney against a slow and separate reading of Chen and Goodman, and against PTB."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from ablate.errors import CorpusError
from ablate.lm.model.ngram import cache_log_probs, fit, interpolated, tuned_weights
from tests.support import places

BEGIN = "<s>"
EOS = 0
DATA = places.DATA


def sentences(ids):
    sentences, current = [], []
    for word in ids:
        current.append(word)
        if word == EOS:
            sentences.append(tuple(current))
            current = []
    return [*sentences, tuple(current)] if current else sentences


class SlowKneserNey:
    """By dictionaries of tuples, one recursive call an order."""

    def __init__(self, ids, num_types, order):
        self.num_types, self.order = num_types, order
        self.counts = {length: self.modified_counts(ids, length) for length in range(1, order + 1)}
        self.discounts = {
            length: self.discounts_of(counts) for length, counts in self.counts.items()
        }

    def grams(self, ids, length):
        for sentence in sentences(ids):
            padded = (BEGIN, *sentence)
            for end in range(2, len(padded) + 1):
                if end >= length:
                    yield padded[end - length : end]

    def modified_counts(self, ids, length):
        plain = Counter(self.grams(ids, length))
        if length == self.order:
            return plain
        preceded = Counter(gram[1:] for gram in set(self.grams(ids, length + 1)))
        return {gram: plain[gram] if gram[0] == BEGIN else preceded[gram] for gram in plain}

    def discounts_of(self, counts):
        number = Counter(counts.values())
        if not all(number[times] for times in (1, 2, 3, 4)):
            return (0.0, 0.5, 1.0, 1.5)
        share = number[1] / (number[1] + 2 * number[2])
        raw = [t - (t + 1) * share * number[t + 1] / number[t] for t in (1, 2, 3)]
        return (0.0, *raw) if all(value > 0 for value in raw) else (0.0, 0.5, 1.0, 1.5)

    def probability(self, word, history):
        if history is None:
            return 1 / self.num_types
        below = self.probability(word, history[1:] if history else None)
        counts = self.counts[len(history) + 1]
        following = [count for gram, count in counts.items() if gram[:-1] == history]
        if not following:
            return below
        discounts = self.discounts[len(history) + 1]
        count = counts.get((*history, word), 0)
        count -= discounts[min(count, 3)]
        passed_on = sum(discounts[min(count, 3)] for count in following)
        return (count + passed_on * below) / sum(following)

    def log_probs(self, ids):
        log_probs = []
        for sentence in sentences(ids):
            padded = (BEGIN, *sentence)
            for end in range(1, len(padded)):
                history = padded[max(0, end - self.order + 1) : end]
                log_probs.append(math.log(self.probability(padded[end], history)))
        return log_probs


def draw_ids(seed, length, num_types=7):
    """Skewed ids, in which short patterns return."""
    stream = random.Random(seed)
    ids = [1]
    while len(ids) < length:
        fresh = int(num_types * stream.random() ** 2)
        ids.append(fresh if stream.random() < 0.6 else (ids[-1] * 3 + 1) % num_types)
    return ids


def distribution(model, history):
    """The probability of every type after a history."""
    every = ([*history, word] for word in range(model.num_types))
    return np.exp([model.log_probs(ids, first=True)[-1] for ids in every])


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("length", [9, 300])
def test_agrees_with_the_slow_reference(order, length):
    train, test = draw_ids(1, length), draw_ids(2, 60, num_types=8)
    model, slow = fit(train, 8, EOS, order), SlowKneserNey(train, 8, order)
    np.testing.assert_allclose(model.log_probs(test, first=True), slow.log_probs(test), atol=1e-12)


@pytest.mark.parametrize("order", [1, 3, 5])
def test_distribution_sums_to_one_and_agrees_with_log_probs(order):
    train, test = draw_ids(3, 400), draw_ids(4, 30)
    model = fit(train, 9, EOS, order)  # type 8 and 7 are never seen
    scored = model.log_probs(test)
    for position in range(1, len(test)):
        probabilities = distribution(model, test[:position])
        assert probabilities.min() > 0
        assert probabilities.sum() == pytest.approx(1, abs=1e-12)
        assert math.log(probabilities[test[position]]) == pytest.approx(
            scored[position - 1], abs=1e-12
        )


def test_refuses_what_it_cannot_count():
    with pytest.raises(CorpusError, match="at least one token"):
        fit([], 3, EOS)
    with pytest.raises(CorpusError, match="outside 0 to 2"):
        fit([0, 3], 3, EOS)


def test_no_counts_leave_a_word_without_probability():
    """A pattern that returns with noise: its pairs' counts call for a discount below zero."""
    stream = np.random.default_rng(0)
    pattern = np.resize(stream.integers(0, 9, 30), 900)
    ids = np.where(stream.random(900) < 0.7, pattern, stream.integers(0, 9, 900))
    unseen = [*range(10), *range(9, -1, -1)]
    assert np.isfinite(fit(ids, 10, EOS, 2).log_probs(unseen)).all()


def test_n_grams_of_every_order_are_numbered_once():
    train, order = draw_ids(6, 300), 3
    slow = SlowKneserNey(train, 8, order)
    distinct = sum(len(counts) for counts in slow.counts.values())
    assert fit(train, 8, EOS, order).num_ngrams == distinct


@pytest.mark.parametrize("window", [1, 7, 500])
def test_the_cache_gives_a_words_share_of_the_last_words(window):
    ids = draw_ids(7, 60)
    log_probs = cache_log_probs(ids, window)
    for position in range(1, len(ids)):
        before = ids[max(0, position - window) : position]
        share = before.count(ids[position]) / len(before)
        assert math.exp(log_probs[position - 1]) == pytest.approx(share)


@pytest.mark.parametrize("useless", [False, True])
def test_tuned_weights_are_the_best_ones(useless):
    """No mixture of a fine grid gives the tokens more; a model that is worse all over gets none."""
    stream = np.random.default_rng(5)
    log_probs = np.log(stream.uniform(0.01, 0.6, (3, 400)))
    log_probs[2, ::3] = -np.inf  # as a cache gives to a word that it has not
    if useless:
        log_probs[1] = log_probs[0] - 1
    weights = tuned_weights(log_probs)
    assert weights.sum() == pytest.approx(1)
    best = interpolated(log_probs, weights).mean()
    for first in np.linspace(0, 1, 51):
        for second in np.linspace(0, 1 - first, 51):
            tried = np.array([first, second, max(1 - first - second, 0.0)])
            assert best >= interpolated(log_probs, tried).mean() - 1e-9
    assert (weights[1] < 1e-3) == useless


@pytest.mark.slow
@pytest.mark.skipif(
    not (DATA / "ptb" / "ptb.train.txt").exists(),
    reason=f"PTB is not in {DATA}; set ABLATE_TEST_DATA to the folder that holds ptb/",
)
def test_perplexity_on_ptb_is_the_published_one():
    lines = {
        split: (DATA / "ptb" / f"ptb.{split}.txt").read_text().splitlines()
        for split in ("train", "test")
    }
    tokens = {
        split: [token for line in split_lines for token in [*line.split(), "<eos>"]]
        for split, split_lines in lines.items()
    }
    numbers = {word: number for number, word in enumerate(dict.fromkeys(tokens["train"]))}
    train, test = ([numbers[word] for word in tokens[split]] for split in ("train", "test"))
    model = fit(train, len(numbers), numbers["<eos>"])
    perplexity = math.exp(-model.log_probs(test, first=True).mean())
    assert perplexity == pytest.approx(141.19, abs=0.05)
