"""Cutting a stream into rows and rows into windows, as in AWD-LSTM's code, Zaremba's or Melis'.

All published results on PTB and WikiText-2 use one continuous stream per split: no token is skipped
between windows, and there is no start symbol, so a row's first token is never predicted.

Shapes: S tokens of a stream, N steps of a row, B rows, T steps of a window.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ablate.errors import CorpusError

FULL_WINDOW_SHARE = 0.95  # of variable windows; the rest are drawn around half the length
WINDOW_SPREAD = 5  # standard deviation of a variable window's length
SHORTEST_WINDOW = 5  # steps

WindowDraws = np.random.Generator | np.random.RandomState


class Window(NamedTuple):
    """Inputs are steps start .. start+length-1; targets are one step later."""

    start: int
    length: int
    drawn: int  # length before it was cut at the end of the rows; AWD scales the rate with it


def batchify(stream_S: Tensor, rows: int) -> Tensor:
    """Reshape the stream to [N, B]: column b is the b-th contiguous piece; the rest is dropped.

    This is a view, not a copy: only the windows in use of a memory-mapped corpus are in memory.
    """
    length = _row_length(stream_S, rows)
    return stream_S[: length * rows].view(rows, length).t()


def spread(stream_S: Tensor, rows: int) -> Tensor:
    """Cut the stream as Zaremba's script does: column b begins at round(b S / B).

    So the remainder is between the columns instead of at the end. This is a copy.
    """
    length = _row_length(stream_S, rows)
    starts = (int(row * len(stream_S) / rows + 0.5) for row in range(rows))
    return torch.stack([stream_S[start : start + length] for start in starts], 1)


def rotated(rows_NB: Tensor, starts_B: Tensor) -> Tensor:
    """Rotate each row: it begins at its start, and what was before that follows its end.

    Partial shuffle (Press 2019): with random starts in every epoch, the batches differ, and the
    order of the text is broken at one place a row. This is a copy.
    """
    steps_N1 = torch.arange(len(rows_NB), device=rows_NB.device)[:, None]
    return rows_NB.gather(0, (steps_N1 + starts_B) % len(rows_NB))


def circular_starts(stream_S: Tensor, rows: int, eos: int | None, shift: float) -> Tensor:
    """Where rows start that each read the whole stream in a circle, [B] (Melis et al. 2018, lamb).

    Evenly spaced sentences, all moved by the same share of the text, `shift`. A row's first input
    is the end of the sentence before, so the sentence's first word is predicted. A text without
    sentences starts at evenly spaced tokens.
    """
    ends = [] if eos is None else (stream_S == eos).nonzero().flatten()
    first = ends if len(ends) else torch.arange(len(stream_S))
    shares_B = (torch.arange(rows, dtype=torch.float64) / rows + shift) % 1
    return first[(shares_B * len(first)).long()]


def circular_window(stream_S: Tensor, starts_B: Tensor, step: int, length: int) -> Tensor:
    """The tokens of a window and one more, [T + 1, B]: the end is followed by the beginning."""
    steps_T1 = torch.arange(step, step + length + 1, device=stream_S.device)[:, None]
    return stream_S[(starts_B + steps_T1) % len(stream_S)].to(torch.long)


def _row_length(stream_S: Tensor, rows: int) -> int:
    length = len(stream_S) // rows
    if length < 2:
        raise CorpusError(
            f"{len(stream_S)} tokens cannot be cut into {rows} rows of at least 2. Instead: use a "
            "smaller batch size or more text."
        )
    return length


def take(rows_NB: Tensor, start: int, length: int) -> tuple[Tensor, Tensor]:
    """Return a window's inputs and targets, [T, B] each, as 64-bit indices."""
    span = rows_NB[start : start + length + 1].to(torch.long)
    return span[:-1], span[1:]


def windows(num_steps: int, lengths: Iterable[int]) -> Iterator[Window]:
    """Yield AWD's training windows, until at most one target is left."""
    start = 0
    for drawn in lengths:
        # As AWD's loop: a window of one last target is left out.
        if start >= num_steps - 2:
            return
        length = min(drawn, num_steps - 1 - start)
        yield Window(start, length, drawn)
        start += length


def whole_windows(num_steps: int, window: int) -> list[Window]:
    """Return Zaremba's training windows: full ones only, the rest of the rows is dropped."""
    if num_steps <= window:
        raise CorpusError(
            f"rows of {num_steps} tokens are too short for one window of training.window = "
            f"{window} steps and their targets. Instead: use a shorter window, fewer rows or more "
            "text."
        )
    starts = range(0, num_steps - window, window)
    return [Window(start, window, window) for start in starts]


def drawn_lengths(
    rng: WindowDraws, window: int, variable: bool, max_excess: int | None = None
) -> Iterator[int]:
    """Yield window lengths forever; `max_excess` caps variable ones (MoS, DOC: 40; WT2: 20)."""
    if not variable:
        return itertools.repeat(window)
    return (_variable_length(rng, window, max_excess) for _ in itertools.count())


def window_lengths(
    rng: WindowDraws,
    num_steps: int,
    window: int,
    variable: bool,
    max_excess: int | None = None,
) -> list[Window]:
    """Return an epoch's training windows."""
    return list(windows(num_steps, drawn_lengths(rng, window, variable, max_excess)))


def _variable_length(rng: WindowDraws, window: int, max_excess: int | None) -> int:
    center = window if rng.random() < FULL_WINDOW_SHARE else window / 2
    length = max(SHORTEST_WINDOW, int(rng.normal(center, WINDOW_SPREAD)))  # rounds towards zero
    return length if max_excess is None else min(length, window + max_excess)
