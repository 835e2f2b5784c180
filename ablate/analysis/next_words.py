"""What two models expect next, side by side (Inan et al. 2017, Table 3 and Section 6.4).

For each context the likeliest next words of both; then, over the first tokens of a split, the mean
probability that both give to `<unk>` and to the commonest words of the training text, beside how
often these really come. The paper's claim is that a model trained with tied vectors and the
augmented loss gives them less.

A context is a position of the split, read from its beginning (so that state and topic are those
the model was judged with), or a text of one's own, read after an `<eos>` from a state of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.analysis import Analysis, Cell, Finding
from ablate.analysis.drawing import bars
from ablate.analysis.subject import Subject, check_same_text, distinct_names
from ablate.components.mixture import log_probs
from ablate.data.encoding import UNKNOWN
from ablate.errors import ConfigError
from ablate.fields import setting

SHOWN = 12  # words of a context that a note shows


@dataclass(frozen=True, kw_only=True)
class NextWordsOptions:
    """After which contexts, and how many words."""

    split: str = setting("valid", doc="whose positions are meant", choices=("valid", "test"))
    positions: tuple[int, ...] = setting(
        (30, 60, 90), doc="contexts: the tokens of the split up to each of these", low=1
    )
    text: str = setting("", doc="a context of one's own, instead of positions")
    num: int = setting(10, doc="likeliest words shown for each context", low=1)
    common: int = setting(10, doc="commonest words of which the mean probability is shown", low=0)
    tokens: int = setting(1000, doc="of the split, over which that mean is taken", low=1)


@dataclass(frozen=True)
class Context:
    """The tokens before a prediction, what they are called, and what really came."""

    name: str
    tokens: Sequence[int]
    follows: int | None = None


def likeliest(log_probs_V: Tensor, num: int) -> list[tuple[int, float]]:
    """The likeliest words with their probabilities, most likely first."""
    values, words = log_probs_V.topk(min(num, len(log_probs_V)))
    return list(zip(words.tolist(), values.exp().tolist(), strict=True))


def run(one: Subject, other: Subject, options: NextWordsOptions) -> Finding:
    """Likeliest next words of two models; what they give to common ones."""
    subjects = (one, other)
    check_same_text(subjects)
    contexts = _contexts(one, options)
    rows: list[Sequence[Cell]] = []
    for context in contexts:
        found = [likeliest(_after(s, context), options.num) for s in subjects]
        for rank, ((word, p), (word_2, p_2)) in enumerate(zip(*found, strict=True), 1):
            rows.append([context.name, rank, one.word(word), p, one.word(word_2), p_2, None])
    common = _common(one, options.common)
    shares, means = _mean_probabilities(subjects, common, options)
    for token, share, p, p_2 in zip(common, shares, *means, strict=True):
        word = one.word(token)
        rows.append(["all", None, word, p, word, p_2, share])
    names = distinct_names(subjects)
    words = [one.word(token) for token in common]

    def draw(axes: Any) -> None:
        bars(axes, words, dict(zip(names, means, strict=True)))
        axes.plot(range(len(words)), shares, "k_", markersize=18, label="share of the text")
        axes.set(ylabel="mean probability")
        axes.legend(frameon=False, fontsize="small")

    return Finding(
        title=f"Next words by {' and by '.join(names)}",
        columns=["context", "rank", "first", "p first", "second", "p second", "in text"],
        rows=rows,
        notes=[*(_described(one, c) for c in contexts), *_explained(one, names, options)],
        draw=draw if common else None,
    )


def _contexts(subject: Subject, options: NextWordsOptions) -> list[Context]:
    if options.text:
        eos = [] if subject.corpus.eos is None else [subject.corpus.eos]
        text = options.text.lower() if subject.config.corpus.lowercase else options.text
        parts = text.split() if subject.corpus.level == "word" else " ".join(text.split())
        return [Context("text", [*eos, *map(subject.token, parts)])]
    stream = subject.stream(options.split)
    for position in options.positions:
        if position >= len(stream):
            raise ConfigError(
                f"positions: {position} is beyond {options.split}, which has {len(stream)} tokens. "
                f"Allowed: 1 to {len(stream) - 1}."
            )
    return [Context(str(p), stream[:p].tolist(), int(stream[p])) for p in options.positions]


def _after(subject: Subject, context: Context) -> Tensor:
    """log p of every word after the context. (The last token read is only predicted.)"""
    tokens_N = torch.tensor([*context.tokens, 0], dtype=torch.int32)
    *_, last = subject.reading(tokens_N)
    return log_probs(last.mixture)[-1]


def _common(subject: Subject, num: int) -> list[int]:
    """`<unk>`, if there is one, and the commonest other words."""
    known = subject.corpus.vocabulary
    unknown = [known.index(UNKNOWN)] if UNKNOWN in known and num else []
    return [*unknown, *subject.commonest(num, without=unknown)]


def _mean_probabilities(
    subjects: Sequence[Subject], common: Sequence[int], options: NextWordsOptions
) -> tuple[list[float], list[list[float]]]:
    """How often the words come among the tokens, and what each model gives them there."""
    targets = subjects[0].stream(options.split)[1 : options.tokens + 1]
    shares = [float(np.mean(targets == token)) for token in common]
    means = []
    for subject in subjects:
        total_K, num = torch.zeros(len(common), dtype=torch.float64), 0
        for passed in subject.passes(options.split, options.tokens):
            found_NK = log_probs(passed.mixture)[:, list(common)].exp()
            total_K += found_NK.sum(0)
            num += len(found_NK)
        means.append((total_K / num).tolist())
    return shares, means


def _described(subject: Subject, context: Context) -> str:
    words = [subject.word(token) for token in context.tokens[-SHOWN:]]
    begun = "... " if len(context.tokens) > SHOWN else ""
    came = "" if context.follows is None else f" + {subject.word(context.follows)}"
    return f"{context.name}: {begun}{' '.join(words)}{came}"


def _explained(subject: Subject, names: Sequence[str], options: NextWordsOptions) -> list[str]:
    first, second = names
    num = min(options.tokens, len(subject.stream(options.split)) - 1)
    means = f"all: mean p over the first {num} tokens of {options.split}; in text: the word's share"
    return [*([means] if options.common else []), f"first: {first}; second: {second}"]


ANALYSIS = Analysis(
    run=run,
    options=NextWordsOptions,
    paper="inan2017tying",
    equation="Table 3, 6.4",
    num_subjects=(2, 2),
)
