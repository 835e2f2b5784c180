"""A model that reads a sentence and writes another: encoder -> decoder with attention.

    source words -> encoder -> memory
    target words -> backbone -> attention over the memory -> bridge -> head (-> gate)

The decoder is a language model whose state also holds the memory, so everything that combines in a
language model combines here. The attention is one more layer, after the backbone's: heads that read
several layers (DOC) count it as the last one. Decoding starts from tanh(W s), with the sentence's
vector s and one W for every state of the backbone's layers (the papers do not say how).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from ablate.errors import CombinationError
from ablate.lm.model.flow import Features, Memory, Shapes, State
from ablate.lm.model.language_model import Embedding, LanguageModel, read_words
from ablate.lm.model.masks import OFF, Masks
from ablate.lm.model.projection import Projection
from ablate.lm.model.slots import Attention, Backbone, Bridge, Encoder, Gate, Head, Words

GROUPS = {"source": "embedding", "attention": "bridge", "start": "bridge"}


@final
class EncoderDecoder(LanguageModel):
    """The state is (the backbone's, what attention feeds back, memory, real tokens, the past of a
    head that looks back, the gate's)."""

    def __init__(
        self,
        source: Embedding | None,
        encoder: Encoder,
        attention: Attention,
        *,
        embedding: Words,
        backbone: Backbone,
        bridge: Bridge,
        head: Head,
        gate: Gate,
        shapes: Shapes,
    ) -> None:
        super().__init__(embedding, backbone, bridge, head, gate, shapes)
        self.source = source
        self.encoder = encoder
        self.attention = attention
        states = _layer_states(backbone)
        if attention.width is None and not any(starts for _, starts in states):
            raise CombinationError(
                "with attention = 'none', a decoder knows of the sentence by the states that it "
                "starts from, and this backbone has no state that is one vector of a layer's "
                "width. Instead: attention = 'luong', or a backbone such as 'lstm'."
            )
        # Other states (whether a skipping_rnn is inside a word) start as without a sentence.
        self.start = nn.ModuleList(
            Projection(encoder.width, state.shape[-1], bias=True) if starts else nn.Identity()
            for state, starts in states
        )

    def initial_state(self, rows: int) -> State:
        """Raise an error: the state comes from a sentence (`read`)."""
        raise CombinationError(
            "an encoder-decoder starts from a sentence that it reads, and none was given. "
            "Instead: a model of the task 'language'."
        )

    def begin(self, source_SB: Tensor, real_SB1: Tensor, masks: Masks = OFF) -> State:
        """The state after reading the source, before the first word is written."""
        # A stream of its own, or source and target would draw the same masks.
        own = OFF if self.only_gate else masks.of("encoder")
        words = self.embedding if self.source is None else self.source
        _, inputs_SBE = read_words(words, source_SB, own)
        memory_SBM, sentence_1BM = self.encoder(inputs_SBE, real_SB1.to(inputs_SBE), own)
        rows = source_SB.shape[1]
        states = [
            layer(sentence_1BM).tanh() if isinstance(layer, Projection) else zeros
            for layer, zeros in zip(self.start, self.backbone.initial_state(rows), strict=True)
        ]
        width = self.attention.width or 0
        fed = [memory_SBM.new_zeros(1, rows, width)] if self.attention.feeds else []
        gate = self.gate.initial_state(rows)
        past = self.initial_past(rows)
        return (*states, *fed, memory_SBM, real_SB1.to(memory_SBM), *past, *gate)

    def features(self, ids_TB: Tensor, state: State, masks: Masks) -> tuple[Features, State]:
        """Run the decoder over words; its state contains the encoded sentence."""
        *decoder, vectors_SBM, real_SB1 = state
        memory = Memory(vectors_SBM, real_SB1)
        embedded_TBE, inputs_TBE = read_words(self.embedding, ids_TB, masks)
        run = self._fed_back if self.attention.feeds else self._at_once
        raw, masked, after = run(inputs_TBE, ids_TB, tuple(decoder), memory, masks)
        features = Features(
            ids_TB=ids_TB,
            embedded_TBE=embedded_TBE,
            inputs_TBE=inputs_TBE,
            raw=raw,
            masked=masked,
            output_TBH=masked[-1],
        )
        return self.bridge(features, masks), (*after, *memory)

    def _at_once(
        self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, memory: Memory, masks: Masks
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], State]:
        """All steps of the backbone, then the attention of all steps."""
        raw, masked, after = self.backbone(inputs_TBE, ids_TB, state, masks)
        if self.attention.width is None:
            return raw, masked, after
        attended_TBA = self.attention(masked[-1], memory)
        return (*raw, attended_TBA), (*masked, masks("attention", attended_TBA)), after

    def _fed_back(
        self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, memory: Memory, masks: Masks
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], State]:
        """Step by step: each input is the word and what attention gave at the step before."""
        *layers, fed = state
        steps: list[tuple[tuple[Tensor, ...], tuple[Tensor, ...]]] = []
        for word_1BE, ids_1B in zip(inputs_TBE.split(1), ids_TB.split(1), strict=True):
            inputs = torch.cat((word_1BE, fed), -1)
            raw, masked, layers = self._at_once(inputs, ids_1B, tuple(layers), memory, masks)
            steps.append((raw, masked))
            fed = masked[-1]
        raw, masked = (_joined(every) for every in zip(*steps, strict=True))
        return raw, masked, (*layers, fed)

    def flops_per_token(self, steps: int) -> int:
        once = 2 * sum(parameter.numel() for parameter in self.start.parameters())
        return super().flops_per_token(steps) - once + once // max(1, steps)  # used once a sentence

    def _group(self, name: str) -> str:
        part, _, rest = name.partition(".")
        if part == "encoder":
            return _recurrent_group(rest)
        if part in GROUPS:
            return "bias" if "bias" in rest else GROUPS[part]
        return super()._group(name)


def _joined(steps: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Each layer's outputs at all steps."""
    return tuple(torch.cat(layer) for layer in zip(*steps, strict=True))


def _layer_states(backbone: Backbone) -> list[tuple[Tensor, bool]]:
    """The states before the first step, and whether each is one vector of a layer's width."""
    states = backbone.initial_state(1)
    widths = [width for width in backbone.widths for _ in range(backbone.states_per_layer)]
    layered = len(states) >= len(widths)
    return [
        (state, layered and at < len(widths) and tuple(state.shape) == (1, 1, widths[at]))
        for at, state in enumerate(states)
    ]


def _recurrent_group(name: str) -> str:
    if "bias" in name:
        return "bias"
    return "recurrent" if "weight_hh" in name else "recurrent_input"
