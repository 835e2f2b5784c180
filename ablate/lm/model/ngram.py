"""Interpolated modified Kneser-Ney of any order (Chen and Goodman 1999, their equations 24 to 26).

A sentence follows one begin symbol and ends in `<eos>`, which is predicted like a word. Nothing
before the begin symbol is visible, so a history is the sentence so far, cut to order - 1 symbols.
Below the highest order, the count of an n-gram is the number of distinct symbols before it; an
n-gram that starts with the begin symbol has none before it and keeps its plain count.

Such a model can be mixed with a unigram cache over the last words, and with other models, by
weights that expectation-maximization finds on held-out text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ablate.errors import CorpusError

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

UNSEEN = -1  # the number of a history or an n-gram that training never saw
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # for a corpus too small or too odd to estimate them
TOLERANCE = 1e-12  # nats per token: an EM step that gains less is the last


@dataclass(frozen=True)
class _Numbering:
    """Sorted keys; a key's position is its number."""

    keys: Ids

    def find(self, keys: Ids, valid: NDArray[np.bool_]) -> Ids:
        # A key beyond the last one is compared with the last one, and differs.
        positions = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(valid & (self.keys[positions] == keys), positions, UNSEEN)


@dataclass(frozen=True)
class _Order:
    """One order: its histories, its n-grams, and the numbers that interpolation needs."""

    histories: _Numbering
    grams: _Numbering
    discounted: Floats  # per n-gram: (count - discount) / the history's total
    backoff: Floats  # per history: the mass left for the order below


@dataclass(frozen=True, eq=False)
class KneserNey:
    """A fitted model. Symbol `num_types` marks the beginning of a sentence."""

    num_types: int
    eos_id: int
    orders: tuple[_Order, ...]  # orders[n - 1] predicts from n - 1 symbols

    @property
    def num_ngrams(self) -> int:
        """The number of n-grams of all orders in the training text."""
        return sum(int(np.count_nonzero(order.grams.keys != UNSEEN)) for order in self.orders)

    def log_probs(self, ids: Sequence[int] | Ids, *, first: bool = False) -> Floats:
        """Natural log probability of ids[1:], or of all ids, given the sentence so far."""
        stream = _checked(ids, self.num_types)
        before = _symbols_before(stream, len(self.orders) - 1, self.num_types, self.eos_id)
        probability = np.full(len(stream), 1.0 / self.num_types)
        history = np.zeros(len(stream), dtype=np.int64)  # the empty history is number 0
        for length, order in enumerate(self.orders):
            if length:
                keys, valid = _longer(history, before[length - 1], self.num_types)
                history = order.histories.find(keys, valid)
            probability = _interpolate(order, history, stream, probability, self.num_types)
        return np.log(probability)[0 if first else 1 :]


@dataclass(frozen=True, eq=False)
class Counts:
    """An n-gram model, alone or mixed with a unigram cache by weights that were tuned."""

    ngrams: KneserNey
    cache_window: int  # 0: no cache
    weights: Mapping[str, float]  # by part

    def log_probs(self, ids: Sequence[int] | Ids) -> Floats:
        """Natural log probability of ids[1:]."""
        parts_CN = np.stack(list(parts_of(self.ngrams, self.cache_window, ids).values()))
        return interpolated(parts_CN, np.array(list(self.weights.values())))


def tuned(ngrams: KneserNey, cache_window: int, held_out: Sequence[int] | Ids) -> Counts:
    """The mixture that makes the held-out text most probable."""
    parts = parts_of(ngrams, cache_window, held_out)
    weights = tuned_weights(np.stack(list(parts.values())))
    return Counts(ngrams, cache_window, dict(zip(parts, map(float, weights), strict=True)))


def parts_of(ngrams: KneserNey, cache_window: int, ids: Sequence[int] | Ids) -> dict[str, Floats]:
    """Natural log probability of ids[1:] by the n-gram model, and by the cache if there is one."""
    parts = {"ngram": ngrams.log_probs(ids)}
    return parts | ({"cache": cache_log_probs(ids, cache_window)} if cache_window else {})


def fit(train_ids: Sequence[int] | Ids, num_types: int, eos_id: int, order: int = 5) -> KneserNey:
    """Count the n-grams of a stream of sentences that each end in `eos_id`."""
    words = _checked(train_ids, num_types)
    if not len(words):
        raise CorpusError("an n-gram model needs at least one token to count.")
    before = _symbols_before(words, order - 1, num_types, eos_id)
    history = np.zeros(len(words), dtype=np.int64)  # the empty history is number 0
    numbering, starts = _Numbering(np.zeros(1, dtype=np.int64)), np.zeros(len(words), bool)
    orders = []
    for length, longer in enumerate([*before, None]):
        if length:
            keys, valid = _longer(history, before[length - 1], num_types)
            numbering = _Numbering(_distinct(keys[valid]))
            history, starts = numbering.find(keys, valid), before[length - 1] == num_types
        orders.append(_count_order(numbering, history, words, num_types, longer, starts))
    return KneserNey(num_types, eos_id, tuple(orders))


def cache_log_probs(ids: Sequence[int] | Ids, window: int) -> Floats:
    """log of the share that each of ids[1:] has of the `window` tokens before it; -inf if none."""
    stream = np.asarray(ids, dtype=np.int64)
    times = np.zeros(len(stream))
    for back in range(1, min(window, len(stream) - 1) + 1):
        times[back:] += stream[back:] == stream[:-back]
    with np.errstate(divide="ignore"):
        return np.log(times[1:] / np.minimum(np.arange(1, len(stream)), window))


def interpolated(log_probs_CN: Floats, weights_C: Floats) -> Floats:
    """log sum_c w_c p_c of each token, for C models with weights that add up to 1."""
    with np.errstate(divide="ignore"):
        return np.logaddexp.reduce(log_probs_CN + np.log(weights_C)[:, None], axis=0)


def tuned_weights(log_probs_CN: Floats) -> Floats:
    """The weights of `interpolated` that make the tokens most probable.

    Expectation-maximization from equal weights: the objective is concave, so it reaches the global
    optimum.
    """
    # Each token's scale cancels in the weights; unscaled, all its likelihoods could be 0.
    likelihoods_CN = np.exp(log_probs_CN - log_probs_CN.max(0))
    weights_C = np.full(len(log_probs_CN), 1 / len(log_probs_CN))
    before = -np.inf
    while True:
        mixed_N = weights_C @ likelihoods_CN
        reached = float(np.log(mixed_N).mean())
        if not reached - before > TOLERANCE:  # NaN ends the search too
            return weights_C
        before = reached
        weights_C = weights_C * (likelihoods_CN / mixed_N).mean(1)
        weights_C /= weights_C.sum()


def _checked(ids: Sequence[int] | Ids, num_types: int) -> Ids:
    stream = np.asarray(ids, dtype=np.int64)
    if len(stream) and not 0 <= stream.min() <= stream.max() < num_types:
        raise CorpusError(f"a token id is outside 0 to {num_types - 1}.")
    return stream


def _symbols_before(stream: Ids, distance: int, begin: int, eos_id: int) -> list[Ids]:
    """For each distance 1, 2, ...: the symbol that far back, UNSEEN beyond the begin symbol."""
    ends = np.flatnonzero(stream[:-1] == eos_id)
    starts = np.zeros(len(stream), dtype=np.int64)
    starts[ends + 1] = ends + 1
    position = np.arange(len(stream)) - np.maximum.accumulate(starts)  # within the sentence
    shifted = []
    for back in range(1, distance + 1):
        symbol = np.full(len(stream), UNSEEN, dtype=np.int64)
        symbol[back:] = stream[:-back]
        symbol[position == back - 1] = begin
        symbol[position < back - 1] = UNSEEN
        shifted.append(symbol)
    return shifted


def _distinct(keys: Ids) -> Ids:
    """Sort and deduplicate: several times faster than np.unique, which hashes first."""
    if not len(keys):
        return np.full(1, UNSEEN, dtype=np.int64)
    ordered = np.sort(keys)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])]


def _longer(history: Ids, symbol: Ids, num_types: int) -> tuple[Ids, NDArray[np.bool_]]:
    """The keys of histories that are one symbol longer, and which of them can exist."""
    return history * (num_types + 1) + symbol, (history != UNSEEN) & (symbol != UNSEEN)


def _count_order(
    numbering: _Numbering,
    history: Ids,
    words: Ids,
    num_types: int,
    longer: Ids | None,
    starts: NDArray[np.bool_],
) -> _Order:
    """Counts, discounts and shares of one order; `longer` is the symbol before each history."""
    valid = history != UNSEEN
    keys = history * num_types + words
    grams = _Numbering(_distinct(keys[valid]))
    number = grams.find(keys, valid)
    counts = _counts(number, longer, starts, len(grams.keys), num_types)
    # An order without n-grams has the key UNSEEN alone, and bincount takes no negative numbers.
    owner = np.maximum(grams.keys, 0) // num_types
    totals = np.bincount(owner, counts, minlength=len(numbering.keys))
    totals = np.maximum(totals, 1)  # only an order longer than every sentence has a zero here
    discounts = _discounts(counts)[np.minimum(counts, 3)]
    backoff = np.bincount(owner, discounts, minlength=len(numbering.keys)) / totals
    return _Order(numbering, grams, (counts - discounts) / totals[owner], backoff)


def _counts(
    number: Ids, longer: Ids | None, starts: NDArray[np.bool_], num_grams: int, num_types: int
) -> Ids:
    """Plain counts at the highest order and after a begin symbol; else distinct symbols before."""
    plain = (number != UNSEEN) & (starts | (longer is None))
    counts = np.bincount(number[plain], minlength=num_grams)
    if longer is not None:
        preceded = (number != UNSEEN) & ~starts
        distinct = _distinct(number[preceded] * (num_types + 1) + longer[preceded])
        distinct = distinct[distinct != UNSEEN]
        counts += np.bincount(distinct // (num_types + 1), minlength=num_grams)
    return counts


def _discounts(counts: Ids) -> Floats:
    """The discounts of counts 0, 1, 2, and 3 or more (Chen and Goodman's equation 26)."""
    n1, n2, n3, n4 = (int(np.count_nonzero(counts == times)) for times in (1, 2, 3, 4))
    if not (n1 and n2 and n3 and n4):
        return np.array([0.0, *FALLBACK_DISCOUNTS])
    share = n1 / (n1 + 2 * n2)
    estimates = [1 - 2 * share * n2 / n1, 2 - 3 * share * n3 / n2, 3 - 4 * share * n4 / n3]
    if min(estimates) <= 0:  # not a natural language: no mass would be left for unseen n-grams
        return np.array([0.0, *FALLBACK_DISCOUNTS])
    return np.array([0.0, *estimates])


def _interpolate(order: _Order, history: Ids, words: Ids, below: Floats, num_types: int) -> Floats:
    """Interpolate an order with the one below; an unseen history leaves all to that."""
    known = history != UNSEEN
    gram = order.grams.find(history * num_types + words, known)
    own = np.where(gram != UNSEEN, order.discounted[gram], 0.0)
    return np.where(known, own + order.backoff[history] * below, below)
