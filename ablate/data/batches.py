"""Cutting a stream into rows and rows into windows, as AWD-LSTM's code does, or Zaremba's.

All results on PTB and WikiText-2 read one continuous stream per split: no token is skipped
between windows, and there is no start symbol, so a row's first token is never predicted.

Shapes: S tokens of a stream, N steps of a row, B rows, T steps of a window.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ablate.errors import CorpusError

FULL_WINDOW_SHARE = 0.95  # of variable windows; the others are drawn around half the length
WINDOW_SPREAD = 5  # standard deviation of a variable window's length
SHORTEST_WINDOW = 5  # steps


class WindowDraws(Protocol):
    """What a numpy Generator and a numpy RandomState both do."""

    def random(self) -> float: ...

    def normal(self, loc: float, scale: float, /) -> float: ...


class Window(NamedTuple):
    """Inputs are rows start .. start+length-1, targets the rows one further on."""

    start: int
    length: int
    drawn: int  # the length before the end of the rows cut it; AWD's learning rate follows this


def batchify(stream_S: Tensor, rows: int) -> Tensor:
    """The stream as [N, B]: column b is the b-th contiguous piece; the remainder is dropped.

    A view, not a copy: of a memory-mapped corpus only the windows in use are ever in memory.
    """
    length = _row_length(stream_S, rows)
    return stream_S[: length * rows].view(rows, length).t()


def spread(stream_S: Tensor, rows: int) -> Tensor:
    """The same by Zaremba's script: column b begins at round(b S / B), so the remainder lies
    between the columns and not at the end. A copy."""
    length = _row_length(stream_S, rows)
    starts = (int(row * len(stream_S) / rows + 0.5) for row in range(rows))
    return torch.stack([stream_S[start : start + length] for start in starts], 1)


def _row_length(stream_S: Tensor, rows: int) -> int:
    length = len(stream_S) // rows
    if length < 2:
        raise CorpusError(
            f"{len(stream_S)} tokens cannot be cut into {rows} rows of at least 2: choose a "
            "smaller batch size, or more of the text."
        )
    return length


def take(rows_NB: Tensor, start: int, length: int) -> tuple[Tensor, Tensor]:
    """A window's inputs and targets, [T, B] each, as 64-bit indices."""
    span = rows_NB[start : start + length + 1].to(torch.long)
    return span[:-1], span[1:]


def windows(num_steps: int, lengths: Iterable[int]) -> Iterator[Window]:
    """AWD's training windows: as long as the rows allow, until at most one target is left."""
    start = 0
    for drawn in lengths:
        if start >= num_steps - 2:
            return
        length = min(drawn, num_steps - 1 - start)
        yield Window(start, length, drawn)
        start += length


def whole_windows(num_steps: int, window: int) -> list[Window]:
    """Zaremba's training windows: what is left of the rows after the last whole one is dropped."""
    if num_steps <= window:
        raise CorpusError(
            f"rows of {num_steps} tokens have no whole window of training.window = {window} steps "
            "and their targets: choose a shorter window, fewer rows, or more of the text."
        )
    starts = range(0, num_steps - window, window)
    return [Window(start, window, window) for start in starts]


def fixed_windows(num_steps: int, window: int) -> list[Window]:
    """Windows for evaluation: every target once, the last window as short as it must be."""
    return [
        Window(start, min(window, num_steps - 1 - start), window)
        for start in range(0, num_steps - 1, window)
    ]


def drawn_lengths(
    rng: WindowDraws, window: int, variable: bool, max_excess: int | None = None
) -> Iterator[int]:
    """Window lengths without end; `max_excess` caps the variable ones (MoS, DOC: 40; WT2: 20)."""
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
    """An epoch's training windows."""
    return list(windows(num_steps, drawn_lengths(rng, window, variable, max_excess)))


def _variable_length(rng: WindowDraws, window: int, max_excess: int | None) -> int:
    center = window if rng.random() < FULL_WINDOW_SHARE else window / 2
    length = max(SHORTEST_WINDOW, int(rng.normal(center, WINDOW_SPREAD)))  # towards zero
    return length if max_excess is None else min(length, window + max_excess)
