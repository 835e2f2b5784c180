"""The contracts of a model's slots, in the order in which data flows through them.

words:    from words to their vectors
backbone: from word vectors to a vector for every step and layer
bridge:   between the backbone and the head
head:     from features to a mixture of softmaxes over the vocabulary (one or many)
gate:     scales the logits inside each expert of a head's mixture

A model that reads one sentence and writes another has two more:

encoder:   from the source's word vectors to a vector for every token
attention: a last layer of the decoder, which looks at these vectors
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from torch import Tensor, nn

from ablate.config.registry import EXACT
from ablate.lm.model.flow import (
    Draw,
    Features,
    GateSignal,
    Memory,
    Mixture,
    State,
    TrainingText,
)
from ablate.lm.model.masks import Masks

Outputs = tuple[tuple[Tensor, ...], tuple[Tensor, ...], State]  # before masks, after, last state


class Part(nn.Module):
    """The base of backbone, encoder, attention, bridge, gate and head."""

    def initialize(self, draw: Draw) -> None:
        """Draw every parameter of its own from the stream named after it."""

    def operations(self, steps: int) -> int:
        """The operations per token that are not products with parameters: those of attention over
        a window or a sentence of `steps` tokens."""
        return 0


class Words(nn.Module, ABC):
    """Built as `Words(config, shapes, embedding)`, with the config's section `embedding`."""

    num_words: int
    looked_up = 0  # parameters that are looked up, not multiplied

    def read_text(self, text: TrainingText) -> None:
        """Compute constants from the training text, into buffers. Called once, before `initialize`
        and before saved weights are loaded."""

    @abstractmethod
    def forward(self, ids_TB: Tensor) -> Tensor:
        """The vectors of words, [T, B, E]."""

    @abstractmethod
    def matrix(self) -> Tensor:
        """The vectors of all words, [V, E], for tied heads and for losses that compare words."""

    @abstractmethod
    def initialize(self, draw: Draw) -> None:
        """Draw every parameter from the stream named after it."""


class Backbone(Part, ABC):
    """Built as `Backbone(config, shapes)`; `widths` holds the units of each layer.

    Masks have sites: "hidden/<layer>" between layers, "output" after the last layer,
    "recurrent/<layer>" on the recurrent state, and `masks.weight` for recurrent matrices. (The
    "input" mask, on the word vectors, is applied before the backbone.)

    A backbone with several gates, each of which may have its own mask, requests `masks.locked`
    of shape [gates, B, H] at "recurrent/<layer>", and at "gates/input" and "gates/hidden/<layer>"
    for masks on the gates' inputs.
    """

    widths: tuple[int, ...]
    # `EXACT`: however a text is split into windows, its probabilities are the same, as the state
    # holds all that the past contributes. `WINDOW`: they depend on where windows begin.
    memory = EXACT
    # The kinds of sites at which it asks for masks: "hidden", "output", "recurrent", and "weight"
    # for `masks.weight`. A regularizer of another of these is refused. None: it does not say, and
    # a table names the settings that had no effect.
    sites: frozenset[str] | None = None
    longest_window: int | None = None  # that it can read, in steps; None: of any length
    num_gates = 1
    states_per_layer = 1
    layers_below = 0  # that belong to other modules: an encoder is made of several

    @classmethod
    def memory_of(cls, config: Any) -> str:
        """What a backbone of this config remembers, known before any is built."""
        return cls.memory

    def initial_state(self, rows: int) -> State:
        """The state before the first token: zeros, on the parameters' device."""
        like = next(self.parameters())
        widths = (width for width in self.widths for _ in range(self.states_per_layer))
        return tuple(like.new_zeros(1, rows, width) for width in widths)

    def read_text(self, text: TrainingText) -> None:
        """Compute constants from the training text, into buffers. Called once, before `initialize`
        and before saved weights are loaded."""

    @abstractmethod
    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        """Each layer's output before masks, and after, and the state after the last step."""

    @abstractmethod
    def initialize(self, draw: Draw) -> None:
        """Draw every parameter from the stream named after it."""

    def project(self) -> None:
        """Move the parameters back onto the backbone's own constraint after an update, in place."""

    def group(self, name: str) -> str:
        """The group of a parameter, which penalties refer to: "recurrent_input", "recurrent",
        "bias", or a technique's own group ("mogrifier")."""
        if "bias" in name:
            return "bias"
        return "recurrent_input" if name.startswith("weight_ih") else "recurrent"


class Encoder(Part, ABC):
    """Built as `Encoder(config, shapes)`; `width` is the width of its vectors."""

    width: int
    shares_words = False  # True: it reads the decoder's word vectors

    @abstractmethod
    def forward(self, inputs_SBE: Tensor, real_SB1: Tensor, masks: Masks) -> tuple[Tensor, Tensor]:
        """A vector for every token, [S, B, M], and one for the sentence, [1, B, M]. Tokens that are
        not real change neither the sentence's vector nor those of real tokens."""


class Attention(Part, ABC):
    """Built as `Attention(config, shapes)`."""

    width: int | None = None  # of the layer that it adds to the decoder's; None: it adds none
    feeds = False  # True: its output is also part of the decoder's next input

    @abstractmethod
    def forward(self, query_TBH: Tensor, memory: Memory) -> Tensor:
        """The output of the added layer, [T, B, A]."""


class Bridge(Part, ABC):
    """Built as `Bridge(config, shapes)`; `width` is the width of its output."""

    width: int

    @abstractmethod
    def forward(self, features: Features, masks: Masks) -> Features:
        """The features with a new `output_TBH`."""


class Gate(Part, ABC):
    """Built as `Gate(config, shapes)`.

    A module of it that has a row for every word says how many numbers these have (`by_word`): they
    are multiplied wherever logits are.
    """

    def initial_state(self, rows: int) -> State:
        """The state before the first token, for a gate with memory."""
        return ()

    @abstractmethod
    def forward(
        self, features: Features, state: State, masks: Masks
    ) -> tuple[GateSignal | None, State]:
        """The gate on the logits (None: no gate), and the state afterwards."""


class ReadsWords(Protocol):
    """A head or a loss: both may ignore the word vectors that they are given."""

    @property
    def reads_words(self) -> bool:
        """Whether the word vectors are read: if not, they need not be computed."""
        ...


class Head(Part, ABC):
    """Built as `Head(config, shapes)`. A tied head uses the word vectors that it is given."""

    num_experts = 1  # of its mixture
    points = False  # True: its mixture has a pointer
    looks_back = 0  # how many outputs before the window it reads (`features.past`)
    # "latent" if it asks for that mask. A study's arm that masks it for another head is refused.
    # None: it does not say, and a table names the settings that had no effect.
    sites: frozenset[str] | None = None

    @property
    def reads_words(self) -> bool:
        """Whether the head reads the word vectors: unless its `decoder` has its own matrix."""
        decoder = getattr(self, "decoder", None)
        return decoder is None or decoder.weight is None

    @property
    def logit_cap(self) -> float | None:
        """The soft cap of its logits, which the model applies (`model/cap.py`)."""
        return getattr(getattr(self, "decoder", None), "logit_cap", None)

    @abstractmethod
    def forward(self, features: Features, embedding_VE: Tensor, masks: Masks) -> Mixture:
        """The distribution of the next word at every token; mask site: "latent"."""
