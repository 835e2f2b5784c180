"""Beam search, against all sentences of a tiny language."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from ablate.lm.model.beam import Hypothesis, Search, written
from ablate.lm.model.mixture import token_nll
from ablate.lm.model.sentences import forced, pair_batch, source_batch
from ablate.lm.testing import SmallModel
from ablate.lm.testing.subject import ROWS, VOCABULARY, Sentences

EOS = 1
LONGEST = 3


def models(number: int) -> list:
    made = []
    for seed in range(number):
        small = SmallModel({"head": "mos"}, {"head.experts": 2}, seed=seed, pairs=True)
        for parameter in small.model.parameters():
            parameter.data.mul_(4)  # so that words differ in probability
        made.append(small.model)
    return made


def sources():
    return SmallModel({}, pairs=True).text.sentences("valid")[0]


def search(width: int, penalty: float = 0.0, never: tuple[int, ...] = ()) -> Search:
    return Search(width=width, penalty=penalty, eos=EOS, never=never)


def found(members, how: Search, longest: int = LONGEST) -> list[Hypothesis]:
    batch = source_batch(sources(), torch.arange(ROWS), "cpu")
    return written(members, batch, how, [longest] * ROWS)


def forced_log_probs(members, row: int, every: list[tuple[int, ...]]) -> list[float]:
    """log p of each target, if the models are made to write it, by their mean probability."""
    whole, num = sources(), len(every)
    words = whole.tokens_N[slice(*whole.starts_P1[row : row + 2].tolist())]
    source = Sentences(words.repeat(num), torch.arange(num + 1) * len(words))
    ends = [0, *itertools.accumulate(map(len, every))]
    tokens = torch.tensor([word for target in every for word in target], dtype=torch.int32)
    batch = pair_batch(source, Sentences(tokens, torch.tensor(ends)), torch.arange(num), EOS, "cpu")
    by_model = torch.stack(
        [-token_nll(forced(model, batch).mixture, batch.targets_N) for model in members]
    )
    log_p_N = by_model.logsumexp(0) - math.log(len(members))
    return torch.zeros(num).double().index_add(0, batch.kept_N % num, log_p_N).tolist()


@pytest.mark.parametrize("number", [1, 2])
def test_scores_are_those_of_the_same_words_when_forced(number):
    members = models(number)
    for row, one in enumerate(found(members, search(4, 1.0), longest=8)):
        assert [one.log_prob] == pytest.approx(forced_log_probs(members, row, [one.tokens]))


def test_a_wide_beam_finds_the_most_probable_sentence_of_all():
    members = models(1)
    words = [word for word in range(VOCABULARY) if word != EOS]
    every = [
        (*start, EOS)
        for length in range(LONGEST)
        for start in itertools.product(words, repeat=length)
    ]
    wide = found(members, search(len(words) ** (LONGEST - 1) + 2))
    scores = forced_log_probs(members, 0, every)
    assert wide[0].tokens == every[scores.index(max(scores))]


def test_a_beam_of_one_is_greedy():
    members = models(1)
    for row, one in enumerate(found(members, search(1), longest=6)):
        tokens: list[int] = []
        while len(tokens) < 6 and (not tokens or tokens[-1] != EOS):
            longer = [(*tokens, word) for word in range(VOCABULARY)]
            scores = forced_log_probs(members, row, longer)
            tokens.append(scores.index(max(scores)))
        assert one.tokens == tuple(tokens)
        assert one.finished == (tokens[-1] == EOS)


def test_a_word_that_may_not_be_written_is_not():
    members = models(1)
    written_words = {word for one in found(members, search(3)) for word in one.tokens}
    banned = max(written_words - {EOS}, default=2)
    again = found(members, search(3, never=(banned,)))
    assert all(banned not in one.tokens for one in again)


def test_sources_end_at_their_own_limit():
    batch = source_batch(sources(), torch.arange(ROWS), "cpu")
    lengths = [1, 4, 2]
    ended = written(models(1), batch, search(2, never=(EOS,)), lengths)
    assert [len(one.tokens) for one in ended] == lengths
    assert not any(one.finished for one in ended)
