"""Run a model over a stream of tokens, window by window, with the state carried along."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from ablate.model.evaluator import log_mean_exp
from ablate.model.flow import Mixture, Pass
from ablate.model.language_model import LanguageModel
from ablate.model.masks import OFF, Masks
from ablate.model.mixture import tempered, token_nll

WINDOW = 200  # steps read at a time


def rows_of(stream_N: Tensor, num_rows: int) -> Tensor:
    """The stream as contiguous rows side by side, [T, B], trimmed to full rows."""
    length = len(stream_N) // num_rows
    return stream_N[: length * num_rows].view(num_rows, length).t()


def tokens_on(model: LanguageModel, stream_N: Tensor) -> Tensor:
    """The stream as 64-bit indices on the model's device."""
    return stream_N.to(model.device, torch.long)


def passes(
    model: LanguageModel,
    rows_TB: Tensor,
    window: int,
    masks: Callable[[int], Masks] = lambda index: OFF,
) -> Iterator[tuple[Pass, Tensor]]:
    """Yield the forward pass and the targets, [T, B], of each window; the state is carried along.

    `masks(number)` returns a window's masks. The weights may change between two windows.
    """
    state = model.initial_state(rows_TB.shape[1])
    for index, start in enumerate(range(0, len(rows_TB) - 1, window)):
        # The last token of a row is a target alone.
        stop = min(start + window, len(rows_TB) - 1)
        passed = model(rows_TB[start:stop], state, masks(index))
        state = tuple(tensor.detach() for tensor in passed.state)
        yield passed, rows_TB[start + 1 : stop + 1]


def read(model: LanguageModel, tokens_N: Tensor, rows: int = 1) -> Iterator[Pass]:
    """Yield the passes over some tokens; the last token of each row is only predicted."""
    with torch.no_grad():
        for passed, _ in passes(model, rows_of(tokens_on(model, tokens_N), rows), WINDOW):
            yield passed


def sentence_passes(
    models: Sequence[LanguageModel], sentences_OT: Tensor
) -> Iterator[tuple[Mixture, Tensor]]:
    """Yield each model's mixtures and their targets, [T, O]; sentences start from a zero state."""
    for model in models:
        ids_TO = tokens_on(model, sentences_OT).t()
        yield model(ids_TO[:-1], model.initial_state(len(sentences_OT))).mixture, ids_TO[1:]


def sentence_log_probs(
    models: Sequence[LanguageModel], sentences_OT: Tensor, lengths_O: Tensor | None = None
) -> np.ndarray:
    """log p of each sentence after its first token, by the models' mean probability.

    `lengths_O`: how many tokens of each row are the sentence's own; the rest is padding.
    """
    by_model = []
    for mixture, targets_TO in sentence_passes(models, sentences_OT):
        nll_TO = token_nll(mixture, targets_TO.flatten()).view_as(targets_TO)
        by_model.append(-nll_TO.double().cpu().numpy())
    log_probs_TO = log_mean_exp(np.stack(by_model))
    if lengths_O is not None:
        steps_T1 = np.arange(1, len(log_probs_TO) + 1)[:, None]
        log_probs_TO = np.where(steps_T1 < lengths_O.numpy(), log_probs_TO, 0.0)
    return log_probs_TO.sum(0)


def in_float64(model: LanguageModel) -> LanguageModel:
    """A copy with the same values in float64, in main memory."""
    copied = copy.deepcopy(model)
    # The members of an ensemble are no submodules of it.
    for part in (copied, *copied.members):
        part.cpu().double().requires_grad_(False)
    return copied


@torch.no_grad()
def stream_log_probs(
    model: LanguageModel,
    stream_N: Tensor,
    batch_size: int,
    window: int,
    *,
    temperature: float = 1.0,
    masks: Callable[[int], Masks] = lambda index: OFF,
) -> np.ndarray:
    """log p of every token except each row's first, row by row, in float64."""
    rows_TB = rows_of(tokens_on(model, stream_N), batch_size)
    parts = [
        -token_nll(tempered(passed.mixture, temperature), targets_TB.flatten()).view_as(targets_TB)
        for passed, targets_TB in passes(model, rows_TB, window, masks)
    ]
    return torch.cat(parts).t().flatten().double().cpu().numpy()
