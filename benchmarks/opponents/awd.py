"""AWD-LSTM in straightforward torch modules, with one softmax or a mixture fed by any layers.

Weight drop hands the dropped matrices to `nn.LSTM` by `functional_call`, so that its fused kernel
runs; dropout masks are drawn by torch's default generator.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.opponents.heads import mixture_loss, softmax_loss


@dataclass(frozen=True)
class Rates:
    words: float = 0.0
    input: float = 0.0
    hidden: float = 0.0
    output: float = 0.0
    latent: float = 0.0
    weights: float = 0.0
    ar: float = 0.0
    tar: float = 0.0


def locked_dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """One mask for all steps: x is [steps, rows, units]."""
    if not training or rate == 0:
        return x
    return x * F.dropout(x.new_ones(1, x.shape[1], x.shape[2]), rate)


def embed(ids: Tensor, weight: Tensor, rate: float, training: bool) -> Tensor:
    """Word vectors, words dropped by type."""
    if not training or rate == 0:
        return F.embedding(ids, weight)
    mask = F.dropout(weight.new_ones(weight.shape[0], 1), rate)
    return F.embedding(ids, mask * weight)


class WeightDropped(nn.Module):
    """An LSTM layer whose recurrent matrix is dropped with a new mask for every window."""

    def __init__(self, inputs: int, units: int, rate: float) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, units)
        self.rate = rate

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]):
        if not self.training or self.rate == 0:
            return self.lstm(x, state)
        dropped = F.dropout(self.lstm.weight_hh_l0, self.rate)
        return torch.func.functional_call(self.lstm, {"weight_hh_l0": dropped}, (x, state))


class AwdLstm(nn.Module):
    """`experts`: components of each layer, the last layer first, the word vectors last; None: one
    softmax with the word vectors as its matrix."""

    def __init__(
        self,
        vocabulary: int,
        size: int,
        units: tuple[int, ...],
        rates: Rates,
        experts: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        self.rates = rates
        self.units = units
        self.embedding = nn.Parameter(torch.empty(vocabulary, size).uniform_(-0.1, 0.1))
        widths = (size, *units)
        self.layers = nn.ModuleList(
            WeightDropped(a, b, rates.weights) for a, b in zip(widths, units, strict=False)
        )
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.experts = experts
        if experts is not None:
            counts = zip(experts, reversed(widths), strict=False)
            self.latents = nn.ModuleList(
                nn.Linear(width, count * size) if count else nn.Identity()
                for count, width in counts
            )
            self.prior = nn.Linear(units[-1], sum(experts), bias=False)

    def initial_state(self, rows: int) -> list[tuple[Tensor, Tensor]]:
        return [(torch.zeros(1, rows, u), torch.zeros(1, rows, u)) for u in self.units]

    def forward(self, ids: Tensor, state: list[tuple[Tensor, Tensor]]):
        """Return each layer's masked output, word vectors first; the last raw output; the state."""
        rates, training = self.rates, self.training
        x = embed(ids, self.embedding, rates.words, training)
        x = locked_dropout(x, rates.input, training)
        masked, after = [x], []
        for index, layer in enumerate(self.layers):
            raw, new = layer(x, state[index])
            after.append((new[0].detach(), new[1].detach()))
            last = index == len(self.layers) - 1
            x = locked_dropout(raw, rates.output if last else rates.hidden, training)
            masked.append(x)
        return masked, raw, after

    def nll(self, masked: list[Tensor], targets: Tensor) -> Tensor:
        """The mean loss of the targets."""
        if self.experts is None:
            return softmax_loss(masked[-1].flatten(0, 1), self.embedding, self.bias, targets)
        pairs = zip(self.experts, self.latents, reversed(masked), strict=False)
        latents = [torch.tanh(latent(x)) for count, latent, x in pairs if count]
        latent = locked_dropout(torch.cat(latents, -1), self.rates.latent, self.training)
        size = self.embedding.shape[1]
        latent = latent.view(targets.shape[0], -1, size)
        prior = self.prior(masked[-1]).flatten(0, 1)
        return mixture_loss(latent, prior, self.embedding, self.bias, targets)

    def loss(self, ids: Tensor, targets: Tensor, state: list[tuple[Tensor, Tensor]]):
        """Return the training loss, the plain loss in it, and the state after the window."""
        masked, raw, state = self(ids, state)
        nll = self.nll(masked, targets.reshape(-1))
        total = nll
        if self.rates.ar:
            total = total + self.rates.ar * masked[-1].pow(2).mean()
        if self.rates.tar:
            total = total + self.rates.tar * (raw[1:] - raw[:-1]).pow(2).mean()
        return total, nll.detach(), state


def name_in_ablate(name: str) -> str:
    """Our name of a parameter: `layers.1.lstm.bias_hh_l0` is `backbone.bias_hh_l1`, for example."""
    match name.split("."):
        case ["embedding"]:
            return "embedding.weight"
        case ["bias"]:
            return "head.decoder.bias"
        case ["layers", layer, "lstm", parameter]:
            return f"backbone.{parameter.replace('_l0', f'_l{layer}')}"
        case ["latents", layer, parameter]:
            return f"head.latent_{layer}.{parameter}"
    return f"head.{name}"
