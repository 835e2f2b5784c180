"""The words that an input-to-output gate lets through most (Takase et al. 2017, Table 5).

    g = sigmoid(W_g e_x + b_g),    the largest entries of g for an input word x

The gate of Eq. 6-8 depends on the input word alone, so that each word has its own list; the other
two gates depend on the state as well, and have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ablate.analysis import Analysis, Finding
from ablate.analysis.subject import Subject
from ablate.data.encoding import EOS, UNKNOWN
from ablate.fields import setting

DEFAULT_WORDS = 5


@dataclass(frozen=True, kw_only=True)
class GateWordsOptions:
    """Which input words, and how many of their gates."""

    words: tuple[str, ...] = setting(
        (), doc="input words, with commas between; none: the five commonest"
    )
    num: int = setting(5, doc="gates shown for each", low=1)


def gate_values(vectors_NG: Tensor, weight_VG: Tensor, bias_V: Tensor) -> Tensor:
    """Eq. 7 for some input words' vectors: [N, V]."""
    return F.linear(vectors_NG, weight_VG, bias_V).sigmoid()


def run(subject: Subject, options: GateWordsOptions) -> Finding:
    """What a gate lets through most, for given input words."""
    subject.require("gate", "iog")
    gate = subject.model.gate
    inputs = _inputs(subject, options)
    vectors_NG = gate.get_parameter("embedding.weight")[torch.tensor(inputs)]
    matrix = gate.get_parameter("output.weight"), gate.get_parameter("output.bias")
    gates_NV = gate_values(vectors_NG, *matrix)
    values_NK, words_NK = gates_NV.topk(min(options.num, gates_NV.shape[1]))
    median = gates_NV.median(1).values.tolist()
    rows = [
        [subject.word(token), rank, subject.word(word), value]
        for token, words, values in zip(inputs, words_NK.tolist(), values_NK.tolist(), strict=True)
        for rank, (word, value) in enumerate(zip(words, values, strict=True), 1)
    ]

    def draw(axes: Any) -> None:
        _draw(axes, [subject.word(token) for token in inputs], gates_NV, words_NK, subject)

    return Finding(
        title=f"The words a gate lets through most: {subject.name}",
        columns=["input word", "rank", "output word", "gate"],
        rows=rows,
        notes=[
            "median gate: "
            + ", ".join(
                f"{subject.word(token)} {value:.3g}"
                for token, value in zip(inputs, median, strict=True)
            )
        ],
        draw=draw,
    )


def _inputs(subject: Subject, options: GateWordsOptions) -> list[int]:
    if options.words:
        return [subject.token(word.strip()) for word in options.words]
    known = subject.corpus.vocabulary
    odd = [known.index(word) for word in (EOS, UNKNOWN) if word in known]
    return subject.commonest(DEFAULT_WORDS, without=odd)


def _draw(
    axes: Any, names: list[str], gates_NV: Tensor, words_NK: Tensor, subject: Subject
) -> None:
    """The whole range of each word's gates as a line, and the strongest named on it."""
    from ablate.analysis.drawing import COLOURS, GREY, label

    for place, (gates_V, words_K) in enumerate(zip(gates_NV, words_NK, strict=True)):
        low, middle, high = gates_V.quantile(gates_V.new_tensor([0.05, 0.5, 0.95])).tolist()
        axes.plot([low, high], [place, place], color=GREY, linewidth=3, solid_capstyle="butt")
        axes.plot(middle, place, "|", color="black", markersize=12)
        top = gates_V[words_K].tolist()
        axes.plot(top, [place] * len(top), "o", color=COLOURS[1], markersize=4)
        shown = ", ".join(subject.word(word) for word in words_K.tolist())
        axes.annotate(
            label(shown), (max(top), place), (0, 7), textcoords="offset points", ha="right",
            fontsize="small",
        )  # fmt: skip
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    axes.set(ylim=(len(names) - 0.5, -0.7), ylabel="input word")
    axes.set(xlabel="gate (line: 5% to 95% of all words, |: median, dots: the strongest)")


ANALYSIS = Analysis(
    run=run, options=GateWordsOptions, paper="takase2017iog", equation="Table 5, Eq. 7"
)
