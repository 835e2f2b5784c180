"""The words that an input-to-output gate lets through most (Takase et al. 2017, Table 5).

    g = sigmoid(W_g e_x + b_g),    the largest entries of g for an input word x

The gate of Eq. 6-8 depends only on the input word, so each word has its own list; the other two
gates also depend on the state and have no such lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ablate import papers
from ablate.compare.plots import style
from ablate.config.fields import setting
from ablate.lm.analysis import Analysis, Cell, Finding
from ablate.lm.analysis.drawing import label
from ablate.lm.analysis.subject import Subject
from ablate.lm.data.encoding import EOS, UNKNOWN

DEFAULT_WORDS = 5
PAPER, TABLE = "takase2017iog", "Table 5"


@dataclass(frozen=True, kw_only=True)
class GateWordsOptions:
    """The input words, and the number of gates shown."""

    words: tuple[str, ...] = setting(
        (), doc="input words, comma-separated; none: the five most common"
    )
    num: int = setting(5, doc="number of gates to show per word", low=1)
    published: bool = setting(
        False, doc="the input words of the paper's Table 5, with its own words beside (PTB)"
    )


def gate_values(vectors_NG: Tensor, weight_VG: Tensor, bias_V: Tensor) -> Tensor:
    """The gate of Eq. 6-8 for the vectors of some input words: [N, V]."""
    return F.linear(vectors_NG, weight_VG, bias_V).sigmoid()


def run(subject: Subject, options: GateWordsOptions) -> Finding:
    """The output words with the largest gates, for some input words."""
    subject.require("gate", "iog")
    gate = subject.model.gate
    inputs = _inputs(subject, options)
    vectors_NG = gate.get_parameter("embedding.weight")[torch.tensor(inputs)]
    matrix = gate.get_parameter("output.weight"), gate.get_parameter("output.bias")
    gates_NV = gate_values(vectors_NG, *matrix)
    values_NK, words_NK = gates_NV.topk(min(options.num, gates_NV.shape[1]))
    rows: list[list[Cell]] = [
        [subject.word(token), rank, subject.word(word), value]
        for token, words, values in zip(inputs, words_NK.tolist(), values_NK.tolist(), strict=True)
        for rank, (word, value) in enumerate(zip(words, values, strict=True), 1)
    ]
    if options.published:
        rows = [[*row, _in_paper(str(row[0]), row[1])] for row in rows]
    names = [subject.word(token) for token in inputs]
    medians = [f"{n} {v:.3g}" for n, v in zip(names, gates_NV.median(1).values, strict=True)]

    def draw(axes: Any) -> None:
        _draw(axes, names, gates_NV, words_NK, subject)

    return Finding(
        title=f"The words a gate lets through most: {subject.name}",
        # A list times False is empty.
        columns=["input word", "rank", "output word", "gate", *["paper"] * options.published],
        rows=rows,
        notes=[f"median gate: {', '.join(medians)}"],
        draw=draw,
    )


def _in_paper(word: str, rank: Cell) -> Cell:
    """The paper's word of this rank; nothing beyond those that it lists."""
    (listed,) = papers.words(PAPER, TABLE)[word]  # the table has one model
    return next((word for at, word in enumerate(listed.words, 1) if at == rank), None)


def _inputs(subject: Subject, options: GateWordsOptions) -> list[int]:
    if options.published:
        return [subject.token(word) for word in papers.words(PAPER, TABLE)]
    if options.words:
        return [subject.token(word.strip()) for word in options.words]
    return subject.commonest(DEFAULT_WORDS, without=[EOS, UNKNOWN])


def _draw(
    axes: Any, names: list[str], gates_NV: Tensor, words_NK: Tensor, subject: Subject
) -> None:
    """Draw the range of each word's gates as a line, with the largest gates named on it."""
    for y, (gates_V, words_K) in enumerate(zip(gates_NV, words_NK, strict=True)):
        low, middle, high = gates_V.quantile(gates_V.new_tensor([0.05, 0.5, 0.95])).tolist()
        axes.plot([low, high], [y, y], color=style.GREY, linewidth=3, solid_capstyle="butt")
        axes.plot(middle, y, "|", color="black", markersize=12)
        top = gates_V[words_K].tolist()
        axes.plot(top, [y] * len(top), "o", color=style.VERMILLION, markersize=4)
        shown = ", ".join(subject.word(word) for word in words_K.tolist())
        above = {"xytext": (0, 7), "textcoords": "offset points"}
        axes.annotate(label(shown), (max(top), y), **above, ha="right", fontsize="small")
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    axes.set(ylim=(len(names) - 0.5, -0.7), ylabel="input word")
    axes.set(xlabel="gate (line: 5% to 95% of all words, |: median, dots: the largest)")


ANALYSIS = Analysis(run=run, options=GateWordsOptions, paper=PAPER, equation=f"{TABLE}, Eq. 6-8")
