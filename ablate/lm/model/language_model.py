"""The language model: embedding -> backbone -> bridge -> head (-> gate)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.config.streams import Streams
from ablate.lm.model.flow import Draw, Features, Pass, Past, Shapes, State
from ablate.lm.model.growth import Again
from ablate.lm.model.masks import OFF, Masks
from ablate.lm.model.slots import Backbone, Bridge, Gate, Head, Part, ReadsWords, Words
from ablate.lm.model.width import by_width


class Embedding(Words):
    """A table of word vectors, initially uniform in `initial_center` +- `initial_range`, which
    `falls` with the width (`by_width`)."""

    def __init__(
        self,
        vocabulary: int,
        size: int,
        initial_range: float,
        initial_center: float = 0.0,
        falls: float = 0.0,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, size))
        self.initial_range, self.initial_center = initial_range, initial_center
        self.falls = falls
        self.num_words, self.looked_up = vocabulary, self.weight.numel()

    def forward(self, ids_TB: Tensor) -> Tensor:
        return F.embedding(ids_TB, self.weight)

    def matrix(self) -> Tensor:
        return self.weight

    def initialize(self, draw: Draw) -> None:
        bound, center = self.initial_range * by_width(self.weight, self.falls), self.initial_center
        self.weight.data.uniform_(center - bound, center + bound, generator=draw("weight"))


def read_words(embedding: Words, ids_TB: Tensor, masks: Masks) -> tuple[Tensor, Tensor]:
    """The word vectors, before and after masks."""
    embedded_TBE = embedding(ids_TB)
    return embedded_TBE, masks("input", masks.words(ids_TB, embedded_TBE, embedding.num_words))


class LanguageModel(nn.Module):
    """One model, assembled from one technique per slot (`ablate/lm/model/assemble.py`)."""

    members: tuple[LanguageModel, ...] = ()  # of an ensemble (`ablate/lm/model/ensemble.py`)
    output_scale = 1.0  # of the logits before their bias (`ablate/lm/model/width.py`)
    again: Again | None = None  # builds it at other sizes; an assembled model has it

    def __init__(
        self,
        embedding: Words,
        backbone: Backbone,
        bridge: Bridge,
        head: Head,
        gate: Gate,
        shapes: Shapes,
    ) -> None:
        super().__init__()
        self.shapes = shapes
        self.embedding = embedding
        self.backbone = backbone
        self.bridge = bridge
        self.head = head
        self.gate = gate
        self.only_gate = False
        self.auxiliary = nn.ModuleDict()  # of regularizers, by name; empty in evaluation

    def initial_state(self, rows: int) -> State:
        """Return the states of backbone and gate, and past outputs if the head reads any."""
        before = self.initial_past(rows)
        return (*self.backbone.initial_state(rows), *before, *self.gate.initial_state(rows))

    def initial_past(self, rows: int) -> State:
        """What a head that looks back finds before the first word; () for other heads."""
        steps = self.head.looks_back
        if not steps:
            return ()
        like = next(self.embedding.parameters())
        # -1 is no word, so nothing can be copied from there.
        no_words = torch.full((steps, rows), -1, device=like.device)
        return like.new_zeros(steps, rows, self.shapes.output), no_words

    def forward(self, ids_TB: Tensor, state: State, masks: Masks = OFF) -> Pass:
        """One pass. If only the gate is trained, the rest of the model runs without masks."""
        split = len(state) - len(self.gate.initial_state(1))
        start = split - len(self.initial_past(1))
        # IOG's base model is frozen, and runs without dropout (Takase et al. 2017).
        base_masks = OFF if self.only_gate else masks
        with torch.no_grad() if self.only_gate else nullcontext():
            features, after = self.features(ids_TB, state[:start], base_masks)
            features, past = _with_past(features, state[start:split])
            mixture = self.head(features, self.words_for(self.head), base_masks)
        if self.output_scale != 1:
            mixture = replace(mixture, vectors_NJE=mixture.vectors_NJE * self.output_scale)
        if self.head.logit_cap is not None:
            mixture = replace(mixture, cap=self.head.logit_cap)
        signal, gate_after = self.gate(features, state[split:], masks)
        if signal is not None:
            mixture = replace(mixture, gate=signal)
        return Pass(features=features, mixture=mixture, state=(*after, *past, *gate_after))

    def words_for(self, reader: ReadsWords) -> Tensor:
        """All word vectors, [V, E]; none of them if they would have to be computed in vain."""
        # A table costs nothing to hand out; vectors made of letters cost a pass over all words.
        if reader.reads_words or isinstance(self.embedding, Embedding):
            return self.embedding.matrix()
        return next(self.embedding.parameters()).new_empty(0, self.shapes.embedding)

    @property
    def device(self) -> torch.device:
        """Where its word vectors are; those of the first member, if it has members."""
        return next(self.embedding.parameters()).device

    @property
    def longest_window(self) -> int | None:
        """The longest window that it can read; None: any."""
        return self.backbone.longest_window

    def train_only_gate(self) -> None:
        """Freeze everything except the gate."""
        self.only_gate = True
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(name.startswith("gate."))

    def groups(self) -> dict[str, list[tuple[str, nn.Parameter]]]:
        """The parameters by the groups that penalties refer to: "embedding", "output" (an untied
        output matrix), "head", "bridge", "gate", "bias", and the backbone's groups."""
        groups: dict[str, list[tuple[str, nn.Parameter]]] = {}
        for name, parameter in self.named_parameters():
            if is_auxiliary(name):
                continue
            groups.setdefault(self._group(name), []).append((name, parameter))
        return groups

    def _group(self, name: str) -> str:
        part, _, rest = name.partition(".")
        if part == "backbone":
            return self.backbone.group(rest)
        if "bias" in rest:
            return "bias"
        if part == "embedding":
            return part
        return "output" if name == "head.decoder.weight" else part

    def flops_per_token(self, steps: int) -> int:
        """Estimate the operations of a forward pass over `steps` tokens: every weight that is not
        looked up is used once per token, and the output matrix once for each expert; attention
        counts its own. An encoder counts as if the source had as many tokens as the target."""
        inner = num_parameters(self) - num_looked_up(self) - self._own_output()
        attention = sum(m.operations(steps) for m in self.modules() if isinstance(m, Part))
        return 2 * inner + self._of_experts() + attention

    def logits_operations(self) -> int:
        """Estimate the operations of a token's logits: those of every expert, and of the gate."""
        by_word = sum(getattr(part, "by_word", 0) for part in self.gate.modules())
        return self._of_experts() + 2 * by_word

    def _of_experts(self) -> int:
        matrix = self._own_output() or self.shapes.vocabulary * self.shapes.embedding
        return 2 * self.head.num_experts * matrix

    def _own_output(self) -> int:
        """The size of an output matrix that is not tied."""
        decoder = getattr(self.head, "decoder", None)
        return 0 if decoder is None or decoder.weight is None else decoder.weight.numel()

    def features(self, ids_TB: Tensor, state: State, masks: Masks) -> tuple[Features, State]:
        """Return what the head may read at every token, and the state after the window."""
        embedded_TBE, inputs_TBE = read_words(self.embedding, ids_TB, masks)
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
        """Draw every parameter from the stream named after it, independently of all others."""
        for path, module in self.named_modules():
            draw = getattr(module, "initialize", None)
            if module is not self and draw is not None:
                draw(lambda name, path=path: streams.generator(f"init/{path}.{name}"))


def _with_past(features: Features, past: State) -> tuple[Features, State]:
    """The features with the outputs before them, and those before the next window."""
    if not past:
        return features, ()
    before = Past(*past)
    steps = len(before.ids_LB)
    # Detached: gradients reach the outputs of their own window alone.
    outputs = torch.cat((before.outputs_LBH, features.output_TBH.detach()))[-steps:]
    ids = torch.cat((before.ids_LB, features.ids_TB))[-steps:]
    return replace(features, past=before), (outputs, ids)


def num_parameters(model: LanguageModel) -> int:
    """The number of parameters, a tied matrix counted once; an ensemble includes its members.

    Those that only training uses are not counted, as they are not part of the finished model.
    """
    own = sum(p.numel() for name, p in model.named_parameters() if not is_auxiliary(name))
    return own + sum(num_parameters(member) for member in model.members)


def num_looked_up(module: nn.Module) -> int:
    """The number of parameters that are looked up, not multiplied."""
    return sum(getattr(part, "looked_up", 0) for part in module.modules())


def is_auxiliary(name: str) -> bool:
    """Return whether a parameter of this name is of a regularizer, and only used in training."""
    return name.startswith("auxiliary.")
