"""Scans of today's recurrences, forward and backward, against their loops with plain autograd.

The diagonal ones are those of a minGRU, with a factor for every step, and of an LRU, in complex
numbers; Mamba-2's is computed in chunks.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from ablate.lm.components.backbone.lru import eigenvalues
from ablate.lm.model.fast.scan import scan
from ablate.lm.model.fast.ssd import ssd
from benchmarks.measure import Figure, race
from benchmarks.opponents import recurrences as loops
from benchmarks.recurrences import ROWS, Sides, steps

UNITS = 200
HEADS, PER_HEAD, STATE = 8, 50, 64  # of Mamba-2 at 200 units, by its defaults
LENGTHS = (70, 200, 512)


def against_loops(full: bool) -> list[Figure]:
    """At 200 units; the limit is ten times faster than a loop as most are written."""
    figures = []
    for length in LENGTHS:
        rows = ROWS if length < 500 else 5  # of Mamba-2, whose loop keeps the state of every step
        cases: list[tuple[str, Sides, Sides]] = [
            (
                f"minGRU, {ROWS} rows",
                min_gru(length, loops.gated),
                min_gru(length, loops.gated_unbound),
            ),
            (f"LRU, {ROWS} rows", lru(length, loops.gated), lru(length, loops.gated_unbound)),
            (
                f"Mamba-2, {rows} rows",
                mamba2(length, rows, loops.state_space),
                mamba2(length, rows, loops.state_space_unbound),
            ),
        ]
        for name, by_number, unbound in cases:
            what = f"{name}, {length} steps"
            figures.append(_raced(what, by_number, 10.0, full))
            figures.append(_raced(f"{what}, a loop over unbound steps", unbound, None, full))
    return figures


def _raced(what: str, sides: Sides, limit: float | None, full: bool) -> Figure:
    ours, theirs = steps(sides, what)
    return race(what, ours, theirs, sense="faster", limit=limit, seconds=2 if full else 0.25)


def min_gru(length: int, loop: Callable[..., Tensor]) -> Sides:
    torch.manual_seed(1)
    a = torch.rand(length, ROWS, UNITS).requires_grad_()
    b, h = torch.randn(length, ROWS, UNITS).requires_grad_(), torch.zeros(ROWS, UNITS)
    return (lambda: scan(a, b, h), lambda: loop(a, b, h), (a, b))


def lru(length: int, loop: Callable[..., Tensor]) -> Sides:
    torch.manual_seed(1)
    nu, theta = torch.randn(UNITS) - 1, torch.rand(UNITS)
    a = eigenvalues(nu, theta)[None, None].requires_grad_()
    b = torch.randn(length, ROWS, UNITS, dtype=torch.complex64).requires_grad_()
    h = torch.zeros(ROWS, UNITS, dtype=torch.complex64)
    return (
        lambda: torch.view_as_real(scan(a, b, h)),
        lambda: torch.view_as_real(loop(a, b, h)),
        (a, b),
    )


def mamba2(length: int, rows: int, loop: Callable[..., Tensor]) -> Sides:
    torch.manual_seed(1)
    x = torch.randn(length, rows, HEADS, PER_HEAD).requires_grad_()
    d = F.softplus(torch.randn(length, rows, HEADS) - 3).requires_grad_()
    b, c = (torch.randn(length, rows, STATE).requires_grad_() for _ in range(2))
    a, s = (-torch.rand(HEADS) * 15 - 1).requires_grad_(), torch.zeros(rows, HEADS, PER_HEAD, STATE)

    def ours() -> Tensor:
        window = x[:, :, None], d[:, :, None], b[:, :, None], c[:, :, None]
        return ssd(*window, a[None], s[:, None])[0].squeeze(2)

    return ours, lambda: loop(x, d, b, c, a, s), (x, d, b, c, a)
