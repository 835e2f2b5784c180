"""Run a model over a stream of tokens, window by window, with the state carried along."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from ablate.lm.model.evaluator import log_mean_exp
from ablate.lm.model.flow import Mixture, Pass
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.masks import OFF, Masks
from ablate.lm.model.mixture import selected, tempered, token_nll

WINDOW = 200  # steps read at a time
TOGETHER = 4096  # tokens of overlapping windows that are read together
MaskOf = Callable[[int], Masks]  # a window's masks, by its number


def no_masks(index: int) -> Masks:
    """The masks of evaluation."""
    return OFF


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
    masks: MaskOf = no_masks,
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


def losses(
    model: LanguageModel,
    rows_TB: Tensor,
    window: int,
    stride: int | None = None,
    *,
    temperature: float = 1.0,
    masks: MaskOf = no_masks,
) -> Iterator[Tensor]:
    """Yield -log p of the tokens after each row's first, [t, B], in their order, window by window.

    Without a `stride`, each window goes on from the state after the one before. With one, each
    window begins `stride` steps after the one before, from the initial state, and its last `stride`
    steps alone are counted; the first window's are all counted. So at least window - stride steps
    are read before any counted one, but for those of the first window.
    """
    if stride is None:
        for passed, targets_TB in passes(model, rows_TB, window, masks):
            yield _loss(tempered(passed.mixture, temperature), targets_TB)
        return
    inputs_TB, targets_TB = rows_TB[:-1], rows_TB[1:]
    steps, num_rows = inputs_TB.shape
    for number, (at, counted) in enumerate(_overlapping(steps, num_rows, window, stride)):
        ids_TR = torch.cat([inputs_TB[one] for one in at], 1)
        targets_CR = torch.cat([targets_TB[one][-counted:] for one in at], 1)
        rows = ids_TR.shape[1]
        mixture = model(ids_TR, model.initial_state(rows), masks(number)).mixture
        last = selected(mixture, slice((len(ids_TR) - counted) * rows, None))
        loss_CR = _loss(tempered(last, temperature), targets_CR)
        yield torch.cat(loss_CR.split(num_rows, 1))


def _overlapping(
    steps: int, rows: int, window: int, stride: int
) -> Iterator[tuple[list[slice], int]]:
    """The windows that are read together, and how many of the last steps of each are counted."""
    yield [slice(0, window)], min(window, steps)
    starts = range(stride, steps - window + 1, stride)
    # Windows of one length, side by side: each begins anew, so none waits for another.
    together = max(1, TOGETHER // (window * rows))
    for first in range(0, len(starts), together):
        some = starts[first : first + together]
        yield [slice(start, start + window) for start in some], stride
    rest = max(0, steps - window) % stride
    if rest:
        yield [slice(steps - rest - window + stride, steps)], rest


def _loss(mixture: Mixture, targets_TB: Tensor) -> Tensor:
    return token_nll(mixture, targets_TB.flatten()).view_as(targets_TB)


def at_most(model: LanguageModel, window: int) -> int:
    """The length of a window, or of the longest that the model can read."""
    longest = model.longest_window
    return window if longest is None else min(window, longest)


def read(model: LanguageModel, tokens_N: Tensor, rows: int = 1) -> Iterator[Pass]:
    """Yield the passes over some tokens; the last token of each row is only predicted."""
    with torch.no_grad():
        rows_TB = rows_of(tokens_on(model, tokens_N), rows)
        for passed, _ in passes(model, rows_TB, at_most(model, WINDOW)):
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
    stride: int | None = None,
    temperature: float = 1.0,
    masks: MaskOf = no_masks,
) -> np.ndarray:
    """log p of every token except each row's first, row by row, in float64."""
    rows_TB = rows_of(tokens_on(model, stream_N), batch_size)
    nll_TB = torch.cat(
        list(losses(model, rows_TB, window, stride, temperature=temperature, masks=masks))
    )
    return -nll_TB.t().flatten().double().cpu().numpy()
