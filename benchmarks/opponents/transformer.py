"""A small GPT in plain torch, written as one would: norms first, fused attention, a tied output."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Layer(nn.Module):
    """Attention with one matrix for queries, keys and values, then a feed-forward layer."""

    def __init__(self, units: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(units) for _ in range(2))
        self.three, self.added = nn.Linear(units, 3 * units), nn.Linear(units, units)
        self.inner, self.out = nn.Linear(units, 4 * units), nn.Linear(4 * units, units)

    def forward(self, x: Tensor) -> Tensor:
        rows, steps, units = x.shape
        parts = self.three(self.norms[0](x)).view(rows, steps, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mean = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.added(mean.transpose(1, 2).reshape(rows, steps, units))
        return x + self.out(F.gelu(self.inner(self.norms[1](x))))


class Gpt(nn.Module):
    """Learned positions, layers, a norm, and the word vectors as the output matrix."""

    def __init__(self, words: int, context: int, units: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, units), nn.Embedding(context, units)
        self.layers = nn.ModuleList(Layer(units, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(units)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        """The mean loss; ids and targets are [rows, steps]."""
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.words.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
