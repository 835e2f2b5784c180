"""Word vectors made of letters: convolutions, their maxima, and highway layers (Kim et al. 2016).

    C_w = [start, letters of w, end, filling] as columns, each a vector
    f_k = tanh(max over positions of (H_k * C_w + b_k))     for every width k, some features each
    y = [f_1, f_2, ...],    y <- t relu(W_H y + b_H) + (1 - t) y,    t = sigmoid(W_T y + b_T - 2)

The last line is a highway layer. All words are filled up to the length of the longest, and maxima
are over all positions, those of the filling included; its vector is always 0. `<unk>` and `<eos>`
are one symbol each. Only the words that occur are computed. A tied head, and a loss that compares
words, need all of them: they work, slowly.

Source: the authors' public code (MIT), read for every line above, the fixed -2, the settings and
the sizes (5,312,515 and 19,373,165 parameters). Not known: the seeds of the published numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import (
    CombinationError,
    Draw,
    Shapes,
    TrainingText,
    Words,
    register,
    setting,
)
from ablate.lm.sections import EmbeddingConfig

FILLING, START, END, UNKNOWN, EOS = range(5)  # the first symbols; letters come after them
UNKNOWN_WORD = "<unk>"


@dataclass(frozen=True, kw_only=True)
class CharactersConfig:
    """The letters and what is made of them; together the features are a word vector."""

    also_widths: ClassVar = ("features",)

    widths: tuple[int, ...] = setting(
        (1, 2, 3, 4, 5, 6), doc="letters that each convolution reads", low=1
    )
    features: tuple[int, ...] = setting(
        (25, 50, 75, 100, 125, 150),
        doc="features of each width; their sum is embedding.size",
        low=1,
    )
    character_size: int = setting(15, doc="units of a letter's vector", low=1)
    highway: int = setting(1, doc="highway layers", low=0)
    transform_bias: float = setting(
        -2.0, doc="constant beside b_T; below 0, most of y is carried over", low=-100, high=100
    )
    symbols: int = setting(
        51, doc="different letters, and 5 for filling, start, end, <unk> and <eos>", low=6
    )
    longest: int = setting(65, doc="letters read of each word; the rest are ignored", low=1)


def symbols_of(text: TrainingText, longest: int) -> list[list[int]]:
    """The symbols of every word of the vocabulary, without filling."""
    whole = {UNKNOWN_WORD: UNKNOWN}
    if text.eos is not None:
        whole[text.vocabulary[text.eos]] = EOS
    spelled = [word for word in text.vocabulary if word not in whole]
    letters = sorted({letter for word in spelled for letter in word[:longest]})
    numbers = {letter: number for number, letter in enumerate(letters, EOS + 1)}
    return [
        [START, *([whole[w]] if w in whole else [numbers[c] for c in w[:longest]]), END]
        for w in text.vocabulary
    ]


def filled(words: list[list[int]], shortest: int) -> Tensor:
    """The symbols of all words in one matrix, [V, L], filled up to the longest word."""
    length = max(shortest, *map(len, words))  # a convolution needs as many letters as it is wide
    return torch.tensor([word + [FILLING] * (length - len(word)) for word in words])


def highway(y_UE: Tensor, weight: Tensor, bias: Tensor, constant: float) -> Tensor:
    """One layer; the rows of its matrix are those of W_H, then those of W_T."""
    h_UE, t_UE = F.linear(y_UE, weight, bias).chunk(2, -1)
    t_UE = (t_UE + constant).sigmoid()
    return t_UE * h_UE.relu() + (1 - t_UE) * y_UE


def check_sizes(config: CharactersConfig, size: int) -> None:
    """Refuse features that do not make a word vector."""
    if len(config.widths) != len(config.features) or len({*config.widths}) < len(config.widths):
        raise CombinationError(
            f"words.widths = {list(config.widths)} and words.features = {list(config.features)} "
            "must have as many numbers, and each width once."
        )
    if sum(config.features) != size:
        raise CombinationError(
            f"words.features = {list(config.features)} are {sum(config.features)} features, which "
            f"are the word vector, but embedding.size = {size}. Instead: embedding.size = "
            f"{sum(config.features)}, or features with that sum."
        )


def check_symbols(config: CharactersConfig, needed: int) -> None:
    """Refuse a text with more letters than there are vectors."""
    if needed > config.symbols:
        raise CombinationError(
            f"words.symbols = {config.symbols}, but the text has {needed}: its letters, and 5 for "
            f"filling, start, end, <unk> and <eos>. Instead: words.symbols = {needed}."
        )


@register(
    "words",
    "characters",
    config=CharactersConfig,
    paper="kim2016",
    equation="Eq. 1-4 and 8, as in the authors' public code",
    departures=(
        "the filling's vector is 0 from the start; the authors set it to 0 after each update",
        "<unk> and <eos> have symbols of their own; the authors' code writes them as | and +",
    ),
)
@final
class Characters(Words):
    """All parameters start uniform, in the range of the section `embedding`."""

    letters_VL: Tensor

    def __init__(
        self, config: CharactersConfig, shapes: Shapes, embedding: EmbeddingConfig
    ) -> None:
        super().__init__()
        check_sizes(config, shapes.embedding)
        self.config, self.embedding = config, embedding
        self.num_words = shapes.vocabulary
        blank_VL = torch.zeros(self.num_words, max(config.widths), dtype=torch.long)
        # Not saved with the weights: `read_text` makes it again.
        self.register_buffer("letters_VL", blank_VL, persistent=False)
        self.vectors = nn.Parameter(torch.empty(config.symbols, config.character_size))
        for width, features in zip(config.widths, config.features, strict=True):
            self._add(f"width_{width}", features, config.character_size, width)
        for number in range(1, config.highway + 1):
            self._add(f"highway_{number}", 2 * shapes.embedding, shapes.embedding)

    def read_text(self, text: TrainingText) -> None:
        words = symbols_of(text, self.config.longest)
        check_symbols(self.config, 1 + max(max(word) for word in words))
        self.letters_VL = filled(words, max(self.config.widths)).to(self.letters_VL.device)

    def forward(self, ids_TB: Tensor) -> Tensor:
        ids_U, places_TB = ids_TB.unique(return_inverse=True)
        return F.embedding(places_TB, self._spelled(self.letters_VL[ids_U]))

    def matrix(self) -> Tensor:
        return self._spelled(self.letters_VL)

    def initialize(self, draw: Draw) -> None:
        bound, center = self.embedding.initial_range, self.embedding.initial_center
        for name, parameter in self.named_parameters():
            parameter.data.uniform_(center - bound, center + bound, generator=draw(name))
        self.vectors.data[FILLING] = 0

    def _add(self, name: str, *shape: int) -> None:
        self.register_parameter(f"weight_{name}", nn.Parameter(torch.empty(shape)))
        self.register_parameter(f"bias_{name}", nn.Parameter(torch.empty(shape[0])))

    def _layer(self, name: str) -> tuple[Tensor, Tensor]:
        return self.get_parameter(f"weight_{name}"), self.get_parameter(f"bias_{name}")

    def _spelled(self, letters_UL: Tensor) -> Tensor:
        """The vectors of words from their letters, [U, E]."""
        # padding_idx: the filling's vector has no gradient, and so stays at 0.
        x_UCL = F.embedding(letters_UL, self.vectors, padding_idx=FILLING).transpose(1, 2)
        products = (F.conv1d(x_UCL, *self._layer(f"width_{k}")) for k in self.config.widths)
        y_UE = torch.cat([product.amax(2) for product in products], 1).tanh()
        for number in range(1, self.config.highway + 1):
            layer = self._layer(f"highway_{number}")
            y_UE = highway(y_UE, *layer, self.config.transform_bias)
        return y_UE
