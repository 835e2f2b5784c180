"""What flows through a language model: embedding -> backbone -> bridge -> head (-> gate).

Shape suffixes: T steps, B rows, N = T*B tokens (time-major), E word-vector units, H a layer's
units, J experts of a mixture, V words, G gate units. Of a sentence that an encoder reads: S steps,
M units. Of words read before: L positions before the window, P positions in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

State = tuple[Tensor, ...]  # of a backbone; dimension 1 of every tensor is the row
Draw = Callable[[str], torch.Generator]  # returns the generator for the parameter of that name


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """The sizes that slots share. They come from the model, never from a technique."""

    vocabulary: int
    embedding: int
    layers: tuple[int, ...] = ()  # the backbone's layers, first to last
    output: int = 0  # what the head reads: the last layer's units, or the bridge's
    separators: tuple[int, ...] = ()  # tokens after which a word begins, if tokens are letters
    source_vocabulary: int = 0  # of the sentences that an encoder reads
    memory: int = 0  # units of an encoder's vectors


class TrainingText(Protocol):
    """What techniques may know about the text; `data.corpus.Corpus` implements it."""

    @property
    def num_words(self) -> int:
        """The size of the vocabulary."""
        ...

    @property
    def separators(self) -> tuple[int, ...]:
        """Tokens after which a word begins, if tokens are letters; else none."""
        ...

    @property
    def eos(self) -> int | None:
        """The token that ends a sentence, if there is one."""
        ...

    @property
    def vocabulary(self) -> Sequence[str]:
        """The tokens as text, in the order of their numbers."""
        ...

    def counts(self) -> Tensor:
        """The count of each word in the training text, [V]."""
        ...

    def stream(self, split: str) -> Tensor:
        """A split's tokens, read-only."""
        ...


class Ragged(Protocol):
    """Sentences of different lengths, one after the other."""

    @property
    def tokens_N(self) -> Tensor:  # noqa: N802 (a shape)
        """All tokens, one sentence after another."""
        ...

    @property
    def starts_P1(self) -> Tensor:  # noqa: N802
        """Where each sentence starts, and where the last one ends."""
        ...


@runtime_checkable
class PairText(TrainingText, Protocol):
    """Pairs of sentences; as a text it is the target's side. `data.pairs.Pairs` implements it."""

    @property
    def num_source_words(self) -> int:
        """The size of the vocabulary that is read."""
        ...

    def sentences(self, split: str) -> tuple[Ragged, Ragged]:
        """The sentences of source and target; the last token of each is its `<eos>`."""
        ...

    def references(self, split: str) -> Sequence[str]:
        """The target sentences as they were written."""
        ...

    def text(self, tokens: Sequence[int]) -> str:
        """The text of target tokens."""
        ...

    def tokenized(self, sentence: str) -> str:
        """A sentence with its punctuation apart."""
        ...


class Memory(NamedTuple):
    """What an encoder read: a vector for every token of a sentence, and which tokens are real."""

    vectors_SBM: Tensor
    real_SB1: Tensor  # 1, and 0 after the end of a sentence that is shorter than others


class Past(NamedTuple):
    """The last outputs before this window, oldest first, and the words that were read there."""

    outputs_LBH: Tensor
    ids_LB: Tensor  # -1 where nothing was read yet


@dataclass(frozen=True, kw_only=True)
class Features:
    """Everything that a bridge, a head, a gate or a penalty may need from the backbone."""

    ids_TB: Tensor
    embedded_TBE: Tensor  # word vectors before any mask
    inputs_TBE: Tensor  # what the first layer reads: "layer 0"
    raw: tuple[Tensor, ...]  # each layer's output [T, B, H], before masks
    masked: tuple[Tensor, ...]  # and after
    output_TBH: Tensor  # what the head reads
    past: Past | None = None  # for a head that looks back beyond the window

    def layer(self, index: int) -> Tensor:
        """Layer `index` as the papers count: 0 is the embedded input, 1 the first layer."""
        return self.inputs_TBE if index == 0 else self.masked[index - 1]


@dataclass(frozen=True, kw_only=True)
class GateSignal:
    """A gate sigmoid(z W' + b) on the logits, stored as factors to avoid a tensor [N, V]."""

    vectors_NG: Tensor
    weight_VG: Tensor
    bias_V: Tensor | None


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """The probability of copying the word at each of some positions."""

    weights_NP: Tensor
    ids_NP: Tensor  # below 0 where there is no word, and the weight is 0


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """A distribution over words: sum_j prior_j softmax(gate * (vectors_j W' + bias)).

    With a pointer, words may also be copied, and the priors are what that leaves of 1.
    Every head returns one, with one expert or many; `model/mixture.py` computes with it.
    """

    vectors_NJE: Tensor
    log_prior_NJ: Tensor | None  # None: one expert
    weight_VE: Tensor
    bias_V: Tensor | None
    gate: GateSignal | None = None
    pointer: Pointer | None = None
    cap: float | None = None  # of each expert's logits, with their bias (`model/cap.py`)
    floor: float = 0.0  # added to every p, as some public code does: they then sum to 1 + V floor


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One forward pass over a window."""

    features: Features
    mixture: Mixture
    state: State
    kept_N: Tensor | None = None  # tokens of the features that the mixture is of; None: all

    def kept(self, x_TBH: Tensor, since: int = 0) -> Tensor:
        """Without what fills up shorter sentences, [n, H]; unchanged if there is nothing such.

        `since`: the step of the features that the first of x belongs to.
        """
        if self.kept_N is None:
            return x_TBH
        if not since:
            return x_TBH.flatten(0, 1)[self.kept_N]  # a comparison would wait for the device
        skipped = since * x_TBH.shape[1]
        return x_TBH.flatten(0, 1)[self.kept_N[self.kept_N >= skipped] - skipped]
