"""Sentences of different lengths in one batch, and an encoder-decoder's pass over it.

A target sentence w_1 ... w_n <eos> is written from the inputs <eos> w_1 ... w_n. Shorter
sentences of a batch are filled up with <eos>; no distribution is computed for the filling.

Shapes: P sentences, S and T steps of source and target, B rows, N real tokens of the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ablate.errors import CombinationError
from ablate.lm.model.encoder_decoder import EncoderDecoder
from ablate.lm.model.flow import PairText, Pass, Ragged
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.masks import OFF, Masks
from ablate.lm.model.mixture import selected, tempered, token_nll

POOL = 100  # batches of which the sentences are sorted together


@dataclass(frozen=True)
class Source:
    """Source sentences side by side."""

    ids_SB: Tensor
    real_SB1: Tensor


@dataclass(frozen=True)
class PairBatch:
    """Pairs side by side; targets and `kept` are row by row of the time-major [T, B]."""

    source: Source
    inputs_TB: Tensor
    targets_N: Tensor
    kept_N: Tensor  # indices of the real tokens among all T*B


def lengths_of(sentences: Ragged) -> Tensor:
    """The number of tokens of each sentence, [P]."""
    return sentences.starts_P1[1:] - sentences.starts_P1[:-1]


def padded(sentences: Ragged, chosen_B: Tensor) -> tuple[Tensor, Tensor]:
    """Some sentences side by side, [T, B], each repeating its last token (<eos>) as filling; and
    their lengths, [B]."""
    starts_B = sentences.starts_P1[chosen_B]
    lengths_B = sentences.starts_P1[chosen_B + 1] - starts_B
    steps_T1 = torch.arange(int(lengths_B.max()))[:, None]
    # Filling repeats the last token, so that no index leaves the text.
    positions_TB = starts_B + torch.minimum(steps_T1, lengths_B - 1)
    return sentences.tokens_N[positions_TB].long(), lengths_B


def source_batch(sentences: Ragged, chosen_B: Tensor, device: torch.device | str) -> Source:
    """Return the chosen sentences as one padded batch to read."""
    ids_SB, lengths_B = padded(sentences, chosen_B)
    return Source(ids_SB.to(device), _real(ids_SB, lengths_B)[..., None].float().to(device))


def pair_batch(
    source: Ragged, target: Ragged, chosen_B: Tensor, eos: int, device: torch.device | str
) -> PairBatch:
    """Return the chosen pairs as one padded batch, targets shifted by a word."""
    ids_TB, lengths_B = padded(target, chosen_B)
    first_1B = torch.full_like(ids_TB[:1], eos)
    kept_N = _real(ids_TB, lengths_B).flatten().nonzero()[:, 0]
    return PairBatch(
        source=source_batch(source, chosen_B, device),
        inputs_TB=torch.cat((first_1B, ids_TB[:-1])).to(device),
        targets_N=ids_TB.flatten()[kept_N].to(device),
        kept_N=kept_N.to(device),
    )


def _real(ids_TB: Tensor, lengths_B: Tensor) -> Tensor:
    return torch.arange(len(ids_TB))[:, None] < lengths_B


def in_order(lengths_P: Tensor, size: int) -> list[Tensor]:
    """All sentences in batches of similar lengths, the same every time."""
    return list(lengths_P.argsort(stable=True).split(size))


def shuffled(lengths_P: Tensor, size: int, generator: torch.Generator) -> list[Tensor]:
    """All sentences at random, in batches of similar lengths, which are in a random order."""
    drawn_P = torch.randperm(len(lengths_P), generator=generator)
    batches: list[Tensor] = []
    for pool in drawn_P.split(size * POOL):
        batches += pool[lengths_P[pool].argsort(stable=True)].split(size)
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]


def forced(model: LanguageModel, batch: PairBatch, masks: Masks = OFF) -> Pass:
    """Write the targets: one pass, whose mixture is of the real tokens alone."""
    if not isinstance(model, EncoderDecoder):
        raise CombinationError(
            "only an encoder-decoder reads pairs of sentences. Instead: task = 'encoder_decoder'."
        )
    state = model.begin(batch.source.ids_SB, batch.source.real_SB1, masks)
    passed = model(batch.inputs_TB, state, masks)
    mixture = selected(passed.mixture, batch.kept_N)
    return replace(passed, mixture=mixture, kept_N=batch.kept_N)


def _batches(
    model: LanguageModel, text: PairText, split: str, size: int
) -> Iterator[tuple[Tensor, PairBatch]]:
    source, target = text.sentences(split)
    device = model.device
    for chosen_B in in_order(lengths_of(target), size):
        yield chosen_B, pair_batch(source, target, chosen_B, int(text.eos or 0), device)


@torch.no_grad()
def pairs_nll(model: LanguageModel, text: PairText, split: str, size: int) -> float:
    """Mean nats per token of the target, <eos> included."""
    model.eval()
    total, count = torch.zeros((), dtype=torch.float64, device=model.device), 0
    for _, batch in _batches(model, text, split, size):
        nll_N = token_nll(forced(model, batch).mixture, batch.targets_N)
        total += nll_N.double().sum()
        count += len(nll_N)
    return total.item() / count


@torch.no_grad()
def pairs_log_probs(
    model: LanguageModel, text: PairText, split: str, size: int, temperature: float = 1.0
) -> np.ndarray:
    """log p of every token of the target, in the order of the text, in float64."""
    target = text.sentences(split)[1]
    log_probs_N = torch.empty(len(target.tokens_N), dtype=torch.float64)
    for chosen_B, batch in _batches(model, text, split, size):
        mixture = tempered(forced(model, batch).mixture, temperature)
        starts_B = target.starts_P1[chosen_B]
        rows_N, steps_N = batch.kept_N.cpu() % len(chosen_B), batch.kept_N.cpu() // len(chosen_B)
        nll_N = token_nll(mixture, batch.targets_N)
        # Back in the text's order: batches are sorted by length.
        log_probs_N[starts_B[rows_N] + steps_N] = -nll_N.double().cpu()
    return log_probs_N.numpy()
