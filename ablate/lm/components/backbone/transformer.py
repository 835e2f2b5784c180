"""A decoder-only Transformer: layers of causal attention and feed-forward layers, norms first.

    x_0 = E w_t + P_t                                learned positions P; without them E w_t
    a_l = x_{l-1} + attention(norm(x_{l-1}))         `_attention.py`
    x_l = a_l + feed_forward(norm(a_l))              `_block.py`; the head reads norm(x_L)

It reads one window of the text and nothing before that: `memory = "window"`. Keys and values of
earlier windows are not kept. To evaluate with more context, let windows overlap (the fields
`training.valid_stride` and `evaluator.standard.stride`).

Value embeddings are further vectors of words, V w_t: a layer that has them reads v_t + V w_t in
place of v_t (as in modded-nanogpt and nanochat, where a number or a gate scales one of the two).
"""

from __future__ import annotations

from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from ablate.config.registry import WINDOW
from ablate.lm.components import Backbone, Draw, Masks, Outputs, Shapes, State, register
from ablate.lm.components.backbone._attention import CausalAttention, Heads, Turns, rotary_turns
from ablate.lm.components.backbone._block import Block, FeedForward, Norm
from ablate.lm.components.backbone._transformer import TransformerConfig, check, check_length
from ablate.lm.model.language_model import Embedding
from ablate.lm.model.width import first_range


@register(
    "backbone",
    "transformer",
    config=TransformerConfig,
    paper="radford2019gpt2",
    equation="Section 2.3; Vaswani et al. 2017, Eq. 1-2",
    departures=(
        "matrices start uniform, and GPT-2's and Llama's normal; biases start at 0",
        "no dropout of attention's weights, which GPT-2's code has; that of what layers add is "
        "`dropout`",
        "QK norm has no parameters, as in nanochat",
        "value embeddings are added as they are, without a number or a gate that scales them",
    ),
)
@final
class Transformer(Backbone):
    """The stream of each layer, the last one's after the final norm. There is no state."""

    sites = frozenset({"hidden", "output"})
    memory = WINDOW

    def __init__(self, config: TransformerConfig, shapes: Shapes) -> None:
        super().__init__()
        check(config, shapes)
        self.config = config
        self.widths = (config.units,) * config.num_layers
        learned = config.positions == "learned"
        self.longest_window = config.context if learned else None
        # [positions, 1, H]: three dimensions, so that no optimizer takes the table for a matrix.
        table = torch.empty(config.context, 1, config.units) if learned else None
        self.positions = None if table is None else nn.Parameter(table)
        self.blocks = nn.ModuleList(_block(config, window) for window in config.by_layer)
        self.values = _value_tables(config, shapes.vocabulary)
        self.first = _norm(config) if config.input_norm else None
        self.last = _norm(config) if config.final_norm else None
        self.looked_up = 0 if self.positions is None else self.positions.numel()

    def initial_state(self, rows: int) -> State:
        return ()

    def forward(self, inputs_TBE: Tensor, ids_TB: Tensor, state: State, masks: Masks) -> Outputs:
        x_TBH = self._first(inputs_TBE)
        turns, count, rate = self._turns(x_TBH), len(self.blocks), self.config.dropout
        raw, masked = [], []
        for number, block in enumerate(self.blocks, 1):
            added = self.values[str(number)](ids_TB) if str(number) in self.values else None
            x_TBH = block(x_TBH, turns, added, (masks, f"transformer/{number}", rate))
            if number == count and self.last is not None:
                x_TBH = self.last(x_TBH)
            raw.append(x_TBH)
            x_TBH = masks("output" if number == count else f"hidden/{number}", x_TBH)
            masked.append(x_TBH)
        return tuple(raw), tuple(masked), ()

    def _first(self, x_TBH: Tensor) -> Tensor:
        """The stream before the first layer."""
        if self.positions is not None:
            check_length(len(x_TBH), self.config.context)
            x_TBH = x_TBH + self.positions[: len(x_TBH)]
        return x_TBH if self.first is None else self.first(x_TBH)

    def _turns(self, x_TBH: Tensor) -> Turns | None:
        config = self.config
        if config.positions != "rotary":
            return None
        return rotary_turns(len(x_TBH), config.head_units, config.rotary_base, x_TBH)

    def initialize(self, draw: Draw) -> None:
        """Draw the positions; the other parts draw their own."""
        if self.positions is not None:
            bound = first_range(self.positions, self.config.initial_range, self.config.units)
            self.positions.data.uniform_(-bound, bound, generator=draw("positions"))

    def group(self, name: str) -> str:
        """Biases are "bias"; other parameters have the name of their part: "attention", ..."""
        if "bias" in name:
            return "bias"
        parts = name.split(".")
        return parts[2] if parts[0] == "blocks" else parts[0]


def _norm(config: TransformerConfig) -> Norm:
    own = {"scale": config.norm_scale, "bias": config.biases}
    return Norm(config.norm, config.units, config.norm_epsilon, **own)


def _block(config: TransformerConfig, window: int) -> Block:
    heads = Heads(
        units=config.units,
        heads=config.heads,
        key_value_heads=config.key_value_heads,
        biases=config.biases,
        qk_norm=config.qk_norm,
        epsilon=config.norm_epsilon,
        window=window,
        soft_cap=config.soft_cap,
        initial_range=config.initial_range,
        output_scale=config.output_scale,
    )
    kind, units = config.feed_forward, config.units
    feed_forward = FeedForward(
        kind,
        units,
        config.inner_units,
        biases=config.biases,
        initial_range=config.initial_range,
        output_scale=config.output_scale,
    )
    return Block((_norm(config), _norm(config)), CausalAttention(heads), feed_forward)


def _value_tables(config: TransformerConfig, vocabulary: int) -> nn.ModuleDict:
    """A table for each layer that has one, by the layer's number."""
    width = config.head_units * (config.key_value_heads or config.heads)
    numbers = [str(number) for number in config.value_embeddings]
    table = partial(Embedding, vocabulary, width, config.bound, falls=config.falls)
    return nn.ModuleDict({n: table() for n in numbers})
