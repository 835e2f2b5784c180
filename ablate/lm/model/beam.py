"""Writing a sentence, word by word: beam search over several models' mean probability.

Every source has `width` open hypotheses. At each step they are continued by every word, and the
best `width` continuations remain: those that end with <eos> are finished, the others stay open. A
hypothesis is compared by sum(log p) / length**penalty, <eos> included. A source is done when it has
`width` finished hypotheses, or at its longest length; if none is finished then, the best open one
is taken as it is. A beam of one is greedy search.

Shapes: P sources, K hypotheses each, B = P*K rows, V words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ablate.lm.model.encoder_decoder import EncoderDecoder
from ablate.lm.model.flow import State
from ablate.lm.model.mixture import log_probs
from ablate.lm.model.sentences import Source


@dataclass(frozen=True, kw_only=True)
class Search:
    """How to search."""

    width: int
    penalty: float  # exponent of the length
    eos: int
    never: tuple[int, ...] = ()  # tokens that are not written


@dataclass(frozen=True)
class Hypothesis:
    """A sentence, and its log-probability; without its <eos> if it reached the longest length."""

    tokens: tuple[int, ...]
    log_prob: float
    finished: bool

    def score(self, penalty: float) -> float:
        """Return the log-probability, divided by a power of the length."""
        return self.log_prob / len(self.tokens) ** penalty


class _Open:
    """The hypotheses of all unfinished sources, `width` places for each source; an empty place has
    the score -inf."""

    def __init__(self, num_sources: int, width: int, device: torch.device) -> None:
        self.sources = list(range(num_sources))
        self.tokens: list[list[tuple[int, ...]]] = [[()] * width for _ in self.sources]
        self.score_PK = torch.full((num_sources, width), -math.inf, dtype=torch.float64)
        self.score_PK = self.score_PK.to(device)
        self.score_PK[:, 0] = 0.0  # one hypothesis, or all places would have the same one

    def last_words(self, first: int) -> Tensor:
        """What each hypothesis ends with, [B]."""
        words = [tokens[-1] if tokens else first for row in self.tokens for tokens in row]
        return torch.tensor(words, device=self.score_PK.device)

    def hypotheses(self, row: int) -> list[Hypothesis]:
        """A source's open hypotheses as they are, without empty places."""
        scores = self.score_PK[row].tolist()
        pairs = zip(self.tokens[row], scores, strict=True)
        return [Hypothesis(tokens, score, False) for tokens, score in pairs if score > -math.inf]

    def proceed(self, log_p_BV: Tensor, eos: int) -> tuple[list[list[Hypothesis]], Tensor]:
        """Continue all by their best words; return each source's finished hypotheses, and which
        row each open one continues, [B]."""
        (num, width), num_words = self.score_PK.shape, log_p_BV.shape[1]
        total_PC = self.score_PK.float()[..., None] + log_p_BV.view(num, width, num_words)
        places_PK = total_PC.flatten(1).topk(width).indices
        parent_PK, word_PK = places_PK // num_words, places_PK % num_words
        rows_PK = parent_PK + width * torch.arange(num, device=parent_PK.device)[:, None]
        step_PK = log_p_BV[rows_PK.flatten(), word_PK.flatten()].view_as(word_PK).double()
        score_PK = self.score_PK.gather(1, parent_PK) + step_PK
        ended = self._grow(parent_PK.tolist(), word_PK.tolist(), score_PK.tolist(), eos)
        self.score_PK = score_PK.masked_fill(word_PK == eos, -math.inf)
        return ended, rows_PK.flatten()

    def _grow(
        self,
        parents: list[list[int]],
        words: list[list[int]],
        scores: list[list[float]],
        eos: int,
    ) -> list[list[Hypothesis]]:
        """Append the words; return those that end with `eos`."""
        ended: list[list[Hypothesis]] = []
        for row, (parent, word, score) in enumerate(zip(parents, words, scores, strict=True)):
            grown = [(*self.tokens[row][p], w) for p, w in zip(parent, word, strict=True)]
            self.tokens[row] = grown
            ended.append(
                [
                    Hypothesis(tokens, value, True)
                    for tokens, value in zip(grown, score, strict=True)
                    if tokens[-1] == eos and value > -math.inf
                ]
            )
        return ended

    def keep(self, rows: Sequence[int]) -> Tensor:
        """Keep only these sources; return which rows remain, [B]."""
        width = self.score_PK.shape[1]
        self.sources = [self.sources[row] for row in rows]
        self.tokens = [self.tokens[row] for row in rows]
        kept = torch.tensor(rows, dtype=torch.long, device=self.score_PK.device)
        self.score_PK = self.score_PK[kept]
        return (kept[:, None] * width + torch.arange(width, device=kept.device)).flatten()


@torch.no_grad()
def written(
    models: Sequence[EncoderDecoder], source: Source, search: Search, longest: Sequence[int]
) -> list[Hypothesis]:
    """The best hypothesis for every source, of at most `longest` tokens, <eos> included."""
    num, device = source.ids_SB.shape[1], source.ids_SB.device
    every_B = torch.arange(num, device=device).repeat_interleave(search.width)
    states = [_rows(model.begin(source.ids_SB, source.real_SB1), every_B) for model in models]
    open_ones, finished = _Open(num, search.width, device), [list[Hypothesis]() for _ in range(num)]
    for length in range(1, max(longest) + 1):
        # The first word that a decoder reads is an <eos>, as in training.
        log_p_BV, states = _next(models, states, open_ones.last_words(search.eos), search.never)
        ended, rows_B = open_ones.proceed(log_p_BV, search.eos)
        for at, found in zip(open_ones.sources, ended, strict=True):
            finished[at] += found
        going = [
            row
            for row, at in enumerate(open_ones.sources)
            if len(finished[at]) < search.width
            and open_ones.score_PK[row].isfinite().any()
            and length < longest[at]
        ]
        for row, at in enumerate(open_ones.sources):
            if row not in going:
                # At its longest length without an <eos>: the open ones are all there is.
                finished[at] = finished[at] or open_ones.hypotheses(row)
        rows_B = rows_B[open_ones.keep(going)]
        states = [_rows(state, rows_B) for state in states]
        if not going:
            break
    return [max(found, key=lambda one: one.score(search.penalty)) for found in finished]


def _rows(state: State, rows_B: Tensor) -> State:
    return tuple(part.index_select(1, rows_B) for part in state)


def _next(
    models: Sequence[EncoderDecoder], states: Sequence[State], words_B: Tensor, never: Sequence[int]
) -> tuple[Tensor, list[State]]:
    """log p of every next word, by the models' mean probability, and the states after it."""
    passes = [model(words_B[None], state) for model, state in zip(models, states, strict=True)]
    log_p_MBV = torch.stack([log_probs(passed.mixture) for passed in passes])
    log_p_BV = log_p_MBV.logsumexp(0) - math.log(len(models)) if len(models) > 1 else log_p_MBV[0]
    if never:
        log_p_BV[:, list(never)] = -math.inf
    return log_p_BV, [passed.state for passed in passes]
