"""The language model: embedding -> backbone -> bridge -> head (-> gate)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.components.backbone import Backbone
from ablate.components.bridge import Bridge
from ablate.components.flow import Draw, Features, Pass, State
from ablate.components.gate import Gate
from ablate.components.head import Head
from ablate.components.regularizer import OFF, Masks
from ablate.streams import Streams


class Embedding(nn.Module):
    """Word vectors, uniform in +- `initial_range` at the start."""

    def __init__(self, vocabulary: int, size: int, initial_range: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, size))
        self.initial_range = initial_range

    def forward(self, ids_TB: Tensor) -> Tensor:
        return F.embedding(ids_TB, self.weight)

    def initialize(self, draw: Draw) -> None:
        bound = self.initial_range
        self.weight.data.uniform_(-bound, bound, generator=draw("weight"))


class LanguageModel(nn.Module):
    """One model, assembled from a technique for each slot (`ablate/assemble.py`)."""

    def __init__(
        self, embedding: Embedding, backbone: Backbone, bridge: Bridge, head: Head, gate: Gate
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.backbone = backbone
        self.bridge = bridge
        self.head = head
        self.gate = gate

    def initial_state(self, rows: int) -> State:
        return self.backbone.initial_state(rows)

    def forward(self, ids_TB: Tensor, state: State, masks: Masks = OFF) -> Pass:
        features, state = self.features(ids_TB, state, masks)
        mixture = self.head(features, self.embedding.weight, masks)
        signal = self.gate(features, masks)
        if signal is not None:
            mixture = replace(mixture, gate=signal)
        return Pass(features=features, mixture=mixture, state=state)

    def features(self, ids_TB: Tensor, state: State, masks: Masks) -> tuple[Features, State]:
        embedded_TBE = self.embedding(ids_TB)
        num_words = self.embedding.weight.shape[0]
        inputs_TBE = masks("input", masks.words(ids_TB, embedded_TBE, num_words))
        raw, masked, state = self.backbone(inputs_TBE, ids_TB, state, masks)
        features = Features(
            ids_TB=ids_TB,
            embedded_TBE=embedded_TBE,
            inputs_TBE=inputs_TBE,
            raw=raw,
            masked=masked,
            output_TBH=masked[-1],
        )
        return self.bridge(features, masks), state

    def initialize(self, streams: Streams) -> None:
        """Draw every parameter from the stream named after it, whatever else there is."""
        for path, module in self.named_modules():
            draw = getattr(module, "initialize", None)
            if module is not self and draw is not None:
                draw(lambda name, path=path: streams.generator(f"init/{path}.{name}"))


def num_parameters(model: nn.Module) -> int:
    """Parameters, a tied matrix counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
