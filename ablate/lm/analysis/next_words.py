"""What two models expect next, side by side (Inan et al. 2017, Table 3 and Section 6.4).

For each context: the most likely next words of both models. Then, over the first tokens of a split:
the mean probability that both give to `<unk>` and to the most common words of the training text,
next to how often these words really occur. The paper's claim is that a model trained with tied
vectors and the augmented loss gives them less probability.

A context is a position of the split, read from the start of the split (so state and topic are those
of the evaluation), or a custom text, read after an `<eos>` from a zero state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate import papers
from ablate.config.fields import setting
from ablate.errors import ConfigError
from ablate.lm.analysis import Analysis, Cell, Finding
from ablate.lm.analysis.drawing import bars
from ablate.lm.analysis.subject import Subject, check_same_text, distinct_names
from ablate.lm.data.byte_counts import WHOLE
from ablate.lm.data.encoding import UNKNOWN
from ablate.lm.model.mixture import log_probs

SHOWN = 12  # words of a context shown in a note
PAPER, TABLE = "inan2017tying", "Table 3"
COLUMNS = ("context", "rank", "first", "p first", "second", "p second", "in text")
PAPER_COLUMNS = ("paper's first", "its p", "paper's second", "its p")


@dataclass(frozen=True, kw_only=True)
class NextWordsOptions:
    """The contexts, and the number of words to show."""

    split: str = setting("valid", doc="split of the positions", choices=("valid", "test"))
    positions: tuple[int, ...] = setting(
        (30, 60, 90), doc="contexts: the tokens of the split up to each position", low=1
    )
    text: str = setting("", doc="custom context, used instead of positions")
    published: bool = setting(
        False, doc="the contexts of the paper's Table 3, with its words beside (PTB, split=test)"
    )
    num: int = setting(10, doc="number of most likely words to show per context", low=1)
    common: int = setting(
        10, doc="number of most common words to show the mean probability of", low=0
    )
    tokens: int = setting(1000, doc="number of tokens for that mean", low=1)


@dataclass(frozen=True)
class Context:
    """The tokens before a prediction, their name, and the word that really follows."""

    name: str
    tokens: Sequence[int]
    follows: int | None = None
    published: Sequence[papers.Words] = ()  # what the paper lists after it, model by model


def likeliest(log_probs_V: Tensor, num: int) -> list[tuple[int, float]]:
    """The most likely words with their probabilities, most likely first."""
    values, words = log_probs_V.topk(min(num, len(log_probs_V)))
    return list(zip(words.tolist(), values.exp().tolist(), strict=True))


def run(one: Subject, other: Subject, options: NextWordsOptions) -> Finding:
    """Most likely next words of two models, and their probabilities of common words."""
    subjects = (one, other)
    check_same_text(subjects)
    contexts = _contexts(one, options)
    rows: list[Sequence[Cell]] = []
    for context in contexts:
        pairs = zip(*(likeliest(_after(s, context), options.num) for s in subjects), strict=True)
        for rank, ((word, p), (word_2, p_2)) in enumerate(pairs, 1):
            row: list[Cell] = [context.name, rank, one.word(word), p, one.word(word_2), p_2, None]
            rows.append([*row, *_in_paper(context, rank)])
    common = _common(one, options.common)
    shares, means = _mean_probabilities(subjects, common, options)
    for token, share, p, p_2 in zip(common, shares, *means, strict=True):
        word = one.word(token)
        # Rank 0: the paper lists none of these.
        rows.append(["all", None, word, p, word, p_2, share, *_in_paper(contexts[0], 0)])
    names = distinct_names(subjects)
    words = [one.word(token) for token in common]

    def draw(axes: Any) -> None:
        bars(axes, words, dict(zip(names, means, strict=True)))
        axes.plot(range(len(words)), shares, "k_", markersize=18, label="share of the text")
        axes.set(ylabel="mean probability")

    return Finding(
        title=f"Next words by {' and by '.join(names)}",
        columns=[*COLUMNS, *(PAPER_COLUMNS if options.published else ())],
        rows=rows,
        notes=[*(_describe(one, c) for c in contexts), *_legend(one, names, options)],
        draw=draw if common else None,
    )


def _in_paper(context: Context, rank: int) -> list[Cell]:
    """The paper's words of this rank and their probabilities; nothing beyond those it lists."""
    cells: list[Cell] = []
    for listed in context.published:
        ranked = dict(enumerate(zip(listed.words, listed.probabilities, strict=True), 1))
        cells += ranked.get(rank, (None, None))
    return cells


def _published_contexts(subject: Subject, split: str) -> list[Context]:
    """The contexts of the paper's table, read from the start of the split up to where they end."""
    stream, contexts = subject.stream(split), []
    for after, listed in papers.words(PAPER, TABLE).items():
        words = after.partition(" + ")[0].split()
        tokens_K = np.array([subject.token(word) for word in words])
        windows_NK = np.lib.stride_tricks.sliding_window_view(stream, len(words))
        places = np.flatnonzero((windows_NK == tokens_K).all(1))
        # Not found: another text. Found twice: unclear which the paper means.
        if len(places) != 1:
            raise ConfigError(
                f"published: '{after}' is {len(places)} times in {split} of "
                f"{subject.corpus.name}. Instead: split=test of Penn Treebank (ptb)."
            )
        end = int(places[0]) + len(words)
        name = " ".join(words[-3:])
        contexts.append(Context(name, stream[:end].tolist(), int(stream[end]), listed))
    return contexts


def _contexts(subject: Subject, options: NextWordsOptions) -> list[Context]:
    if options.published:
        return _published_contexts(subject, options.split)
    if options.text:
        # A text of characters may have no <eos>.
        eos = [] if subject.corpus.eos is None else [subject.corpus.eos]
        text = options.text.lower() if subject.config.corpus.lowercase else options.text
        return [Context("text", [*eos, *_tokens(subject, text)])]
    stream = subject.stream(options.split)
    for position in options.positions:
        if position >= len(stream):
            raise ConfigError(
                f"positions: {position} is beyond {options.split}, which has {len(stream)} tokens. "
                f"Expected: 1 to {len(stream) - 1}."
            )
    return [Context(str(p), stream[:p].tolist(), int(stream[p])) for p in options.positions]


def _tokens(subject: Subject, text: str) -> list[int]:
    if subject.corpus.level in WHOLE:
        return subject.corpus.tokens_of(text)
    parts = text.split() if subject.corpus.level == "word" else " ".join(text.split())
    return [*map(subject.token, parts)]


def _after(subject: Subject, context: Context) -> Tensor:
    """log p of every word after the context. (The last token of a reading is only predicted.)"""
    tokens_N = torch.tensor([*context.tokens, 0], dtype=torch.int32)
    *_, last = subject.reading(tokens_N)
    return log_probs(last.mixture)[-1]


def _common(subject: Subject, num: int) -> list[int]:
    """`<unk>`, if there is one, and the most common other words."""
    unknown = [subject.token(UNKNOWN)] if UNKNOWN in subject.corpus.vocabulary and num else []
    return [*unknown, *subject.commonest(num, without=[UNKNOWN])]


def _mean_probabilities(
    subjects: Sequence[Subject], common: Sequence[int], options: NextWordsOptions
) -> tuple[list[float], list[list[float]]]:
    """The words' share of the tokens, and their mean probability under each model."""
    targets = subjects[0].stream(options.split)[1 : options.tokens + 1]  # as `passes` predicts
    shares = [float(np.mean(targets == token)) for token in common]
    means = []
    for subject in subjects:
        total_K, num = torch.zeros(len(common), dtype=torch.float64), 0
        for passed in subject.passes(options.split, options.tokens):
            p_NK = log_probs(passed.mixture)[:, list(common)].exp()
            total_K += p_NK.sum(0)
            num += len(p_NK)
        means.append((total_K / num).tolist())
    return shares, means


def _describe(subject: Subject, context: Context) -> str:
    words = [subject.word(token) for token in context.tokens[-SHOWN:]]
    dots = "... " if len(context.tokens) > SHOWN else ""
    follows = "" if context.follows is None else f" + {subject.word(context.follows)}"
    return f"{context.name}: {dots}{' '.join(words)}{follows}"


def _legend(subject: Subject, names: Sequence[str], options: NextWordsOptions) -> list[str]:
    first, second = names
    num = min(options.tokens, len(subject.stream(options.split)) - 1)
    means = f"all: mean p over the first {num} tokens of {options.split}; in text: the word's share"
    return [*([means] if options.common else []), f"first: {first}; second: {second}"]


ANALYSIS = Analysis(
    run=run,
    options=NextWordsOptions,
    paper=PAPER,
    equation=f"{TABLE}, 6.4",
    num_subjects=(2, 2),
)
