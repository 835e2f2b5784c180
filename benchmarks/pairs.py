"""A training step of an encoder-decoder with attention, against plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.lm.model.assemble import Assembly, assemble
from ablate.lm.model.masks import Chance, Masks
from ablate.lm.model.sentences import forced, lengths_of, pair_batch
from benchmarks.measure import Figure, agree, race, weigh
from benchmarks.opponents.encoder_decoder import IGNORED, EncoderDecoder

PAIRS, LONGEST = 64, 30  # in a batch of similar lengths, as both sides are trained
SIZES = {"laptop": (128, 4000), "paper": (500, 16_000)}  # units, and words of each side
DROPOUT = 0.3


@dataclass(frozen=True)
class Sentences:
    """Random sentences."""

    tokens_N: Tensor
    starts_P1: Tensor


def step(full: bool) -> list[Figure]:
    """Time 64 pairs of up to 30 words: forward, backward, clip and an Adam step."""
    figures = []
    for scale, (units, words) in SIZES.items():
        ours, theirs = sides(units, words, 0.0)
        agree(ours(), theirs(), f"encoder-decoder step, {scale}: the loss without dropout")
        ours, theirs = sides(units, words, DROPOUT)
        name, seconds = f"encoder-decoder step, {scale} size {units}", 60 if full else 6
        time = race(f"{name}: time", ours, theirs, sense="faster", limit=1.0, seconds=seconds)
        memory = weigh(f"{name}: extra memory", ours, theirs, limit=1.0)
        figures += [time, memory]
    return figures


def sides(units: int, words: int, dropout: float) -> tuple[Callable[[], Tensor], ...]:
    config = resolve(_values(units, dropout))
    assembly = assemble(config, words, source_vocabulary=words)
    model = assembly.model
    model.initialize(Streams(1))
    other = _same(assembly, EncoderDecoder(words, words, units, dropout))
    chosen = config["optimizer"]
    optimizer = chosen.make(model)
    adam = torch.optim.Adam(other.parameters(), lr=1e-3, fused=True)
    source, target = _sentences(words, 1), _sentences(words, 2)
    everyone = torch.arange(PAIRS)
    batch = pair_batch(source, target, everyone, 0, "cpu")
    streams, updates = Streams(1), iter(range(10**9))
    lengths_B, targets_TB = lengths_of(source), torch.full_like(batch.inputs_TB, IGNORED)
    targets_TB.flatten()[batch.kept_N] = batch.targets_N

    def ours() -> Tensor:
        chance = Chance(streams, next(updates))
        passed = forced(model, batch, Masks(assembly.regularizers, chance))
        targets_N = batch.targets_N
        nll = assembly.loss(passed, targets_N, model.embedding.weight, chance) / len(targets_N)
        nll.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step(1e-3)
        model.zero_grad(set_to_none=True)
        return nll.detach()

    def theirs() -> Tensor:
        nll = other.loss(batch.source.ids_SB, lengths_B, batch.inputs_TB, targets_TB)
        nll.backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), 5.0)
        adam.step()
        adam.zero_grad(set_to_none=True)
        return nll.detach()

    return ours, theirs


def _values(units: int, dropout: float) -> dict[str, Any]:
    sites = ("hidden", "output", "attention")
    return {
        "task": "encoder_decoder",
        "embedding.size": units,
        "encoder.units": units,
        "backbone": "lstm",
        "backbone.units": units,
        "head": "softmax",
        "head.tied": True,
        "optimizer": "adam",
        **({f"regularizer.dropout.{site}": dropout for site in sites} if dropout else {}),
    }


def _sentences(words: int, seed: int) -> Sentences:
    """Of 20 to 30 words, as in a batch of similar lengths; all end with word 0."""
    drawn = torch.Generator().manual_seed(seed)
    lengths = torch.randint(20, LONGEST + 1, (PAIRS,), generator=drawn)
    starts = torch.cat((torch.zeros(1, dtype=torch.long), lengths.cumsum(0)))
    tokens = torch.randint(1, words, (int(starts[-1]),), generator=drawn, dtype=torch.int32)
    tokens[starts[1:] - 1] = 0
    return Sentences(tokens, starts)


@torch.no_grad()
def _same(assembly: Assembly, other: EncoderDecoder) -> EncoderDecoder:
    """The other model, with our weights."""
    ours = dict(assembly.model.named_parameters())
    other.source.weight.copy_(ours["source.weight"])
    other.target.weight.copy_(ours["embedding.weight"])
    other.score.weight.copy_(ours["attention.score"].t())
    other.combine.weight.copy_(ours["attention.combine"])
    other.bias.copy_(ours["head.decoder.bias"])
    for number, layer in enumerate(other.start):
        layer.weight.copy_(ours[f"start.{number}.weight"])
        layer.bias.copy_(ours[f"start.{number}.bias"])
    for name, parameter in other.decoder.named_parameters():
        parameter.copy_(ours[f"backbone.{name}"])
    for name, parameter in other.encoder.named_parameters():
        direction = "back" if name.endswith("_reverse") else "ahead"
        kind, _, number = name.removesuffix("_reverse").rpartition("_l")
        parameter.copy_(ours[f"encoder.layers.{number}.{direction}.{kind}_l0"])
    return other
