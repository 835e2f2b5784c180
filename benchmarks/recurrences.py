"""Recurrences, forward and backward: our windows against per-step loops with plain autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ablate.lm.components.backbone import mogrifier as mogrifier_backbone
from ablate.lm.components.backbone import rhn as rhn_backbone
from ablate.lm.components.backbone.irlm import impulse_response
from ablate.lm.model.fast.lstm_steps import lstm_steps
from ablate.lm.model.fast.mogrifier_trace import Cell, Round
from benchmarks.measure import Figure, agree, race, share_of_products
from benchmarks.opponents import recurrences as loops

STEPS, ROWS = 35, 20
Sides = tuple[Callable[[], Tensor], Callable[[], Tensor], Sequence[Tensor]]
Products = list[tuple[float, tuple[int, int, int]]]  # how many of [M, K] x [K, N]


def step_by_step(full: bool) -> list[Figure]:
    """At 200 units, and at the sizes of the papers' models for Penn Treebank."""
    cases: list[tuple[str, Sides, Products, float]] = [
        ("variational LSTM, 200 units", *lstm(200), 1.8),
        ("Mogrifier, 200 units, 5 rounds", *mogrifier(200, 5), 1.8),
        ("RHN, 200 units, depth 4", *rhn(200, 4), 1.8),
        ("variational LSTM, 650 units", *lstm(650), 1.0),
        ("Mogrifier, 850 units, 5 rounds", *mogrifier(850, 5), 1.0),
        ("RHN, 830 units, depth 10", *rhn(830, 10), 1.0),
    ]
    figures = []
    for name, sides, products, limit in cases:
        ours, theirs = steps(sides, name)
        seconds = 30 if full else 3
        time = race(name, ours, theirs, sense="faster", limit=limit, seconds=seconds)
        figures += [time, share_of_products(name, time, products)]
    return figures


def diagonal(full: bool) -> list[Figure]:
    """IRLM's linear recurrence with one r a unit; 512 units as in its paper."""
    figures = []
    for length in (35, 70, 200):
        for loop, limit in ((loops.diagonal, 10.0), (loops.diagonal_unbound, None)):
            ours, theirs = steps(irlm(length, loop), "irlm")
            name = f"IRLM's recurrence, {ROWS} rows, {length} steps"
            name += "" if limit else ", a loop over unbound steps"
            seconds = 2 if full else 0.25
            figures.append(race(name, ours, theirs, sense="faster", limit=limit, seconds=seconds))
    return figures


def steps(sides: Sides, name: str) -> tuple[Callable, Callable]:
    """A forward and a backward pass of each, which must agree."""
    ours, theirs = both_ways(sides)
    (output, gradients), (other, others) = ours(), theirs()
    agree(output, other, f"{name}: outputs")
    agree(gradients, others, f"{name}: gradients", 1e-3)
    return ours, theirs


def both_ways(sides: Sides) -> tuple[Callable, Callable]:
    """A forward and a backward pass of each side: outputs, and gradients."""
    ours, theirs, leaves = sides
    outer = torch.randn_like(ours())

    def step(window: Callable[[], Tensor]) -> Callable[[], tuple]:
        def run():
            output = window()
            return output.detach(), torch.autograd.grad(output, leaves, outer)

        return run

    return step(ours), step(theirs)


def _leaf(*shape: int, scale: float = 0.04) -> Tensor:
    return (torch.randn(*shape) * scale).requires_grad_()


def _mask(units: int) -> Tensor:
    return torch.rand(ROWS, units).bernoulli_(0.5) * 2


def _of_window(units: int, outputs: int, length: int) -> Products:
    """A matrix that reads all steps at once, and its two gradients."""
    rows = length * ROWS
    shapes = [(rows, units, outputs), (rows, outputs, units), (outputs, rows, units)]
    return [(1, shape) for shape in shapes]


def _of_steps(units: int, outputs: int, length: int, number: int = 1) -> Products:
    """Matrices that read step by step, and the gradients, those of the matrices at once."""
    there, back = (ROWS, units, outputs), (ROWS, outputs, units)
    return [
        *((number * length, s) for s in (there, back)),
        (number, (outputs, length * ROWS, units)),
    ]


def lstm(
    units: int, length: int = STEPS, loop: Callable[..., Tensor] = loops.variational_lstm
) -> tuple[Sides, Products]:
    torch.manual_seed(1)
    x, h, c = (
        _leaf(length, ROWS, units, scale=1),
        torch.zeros(ROWS, units),
        torch.zeros(ROWS, units),
    )
    w_x, w_h, bias = _leaf(4 * units, units), _leaf(4 * units, units), _leaf(4 * units)
    m_x, m_h = _mask(units), _mask(units)
    sides = (
        lambda: lstm_steps(x, h, c, w_x, w_h, bias, m_x[None], m_h[None])[0],
        lambda: loop(x, h, c, w_x, w_h, bias, m_x, m_h),
        (x, w_x, w_h, bias),
    )
    return sides, _of_window(units, 4 * units, length) + _of_steps(units, 4 * units, length)


def _stock_layer(units: int) -> tuple[nn.LSTM, list[nn.Parameter]]:
    """torch's layer, and what it shares with ours, which has one bias."""
    layer = nn.LSTM(units, units)
    nn.init.zeros_(layer.bias_hh_l0.requires_grad_(False))
    return layer, [
        layer.get_parameter(f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih")
    ]


def stock_lstm(units: int, length: int, *, state_mask: bool) -> Sides:
    """Against torch's own layer, which on an NVIDIA GPU is cuDNN's. It can mask its inputs, and not
    the state as the recurrence reads it: with `state_mask` ours does, and the two differ."""
    torch.manual_seed(1)
    x, h, c = (
        _leaf(length, ROWS, units, scale=1),
        torch.zeros(ROWS, units),
        torch.zeros(ROWS, units),
    )
    layer, own = _stock_layer(units)
    m_x, m_h = _mask(units), _mask(units)[None] if state_mask else None
    ours = lambda: lstm_steps(x, h, c, *own, m_x[None], m_h)[0]  # noqa: E731
    return ours, lambda: layer(x * m_x)[0], (x, *own)


def short_window(units: int, length: int = 5) -> Sides:
    """One row of a few tokens, as dynamic evaluation reads them: our steps against torch's layer,
    which computes such windows in an `lstm` backbone."""
    torch.manual_seed(1)
    x, h, c = _leaf(length, 1, units, scale=1), torch.zeros(1, units), torch.zeros(1, units)
    layer, own = _stock_layer(units)
    return lambda: lstm_steps(x, h, c, *own, None, None)[0], lambda: layer(x)[0], (x, *own)


def mogrifier(
    units: int,
    num_rounds: int,
    length: int = STEPS,
    loop: Callable[..., Tensor] = loops.mogrifier,
) -> tuple[Sides, Products]:
    torch.manual_seed(1)
    x, h, c = (
        _leaf(length, ROWS, units, scale=1),
        torch.zeros(ROWS, units),
        torch.zeros(ROWS, units),
    )
    w_x, w_h, bias = _leaf(4 * units, units), _leaf(4 * units, units), _leaf(4 * units)
    pairs = [(_leaf(units, units), _leaf(units)) for _ in range(num_rounds)]
    rounds = tuple(Round(left=q, right=None, bias=b, mask=None) for q, b in pairs)
    cell = Cell(weight_ih=w_x, weight_hh=w_h, bias=bias, rounds=rounds, capped=False)
    sides = (
        lambda: mogrifier_backbone.window(x, h, c, None, cell)[0],
        lambda: loop(x, h, c, w_x, w_h, bias, pairs),
        (x, w_x, w_h, bias, *(leaf for pair in pairs for leaf in pair)),
    )
    products = _of_steps(units, 4 * units, length, 2)
    return sides, products + _of_steps(units, units, length, num_rounds)


def rhn(
    units: int, depth: int, length: int = STEPS, loop: Callable[..., Tensor] = loops.highway
) -> tuple[Sides, Products]:
    torch.manual_seed(1)
    x, s, mask = _leaf(length, ROWS, units, scale=1), torch.zeros(ROWS, units), _mask(units)
    w_x = _leaf(2 * units, units)
    w_s = [_leaf(2 * units, units) for _ in range(depth)]
    biases = [_leaf(2 * units) for _ in range(depth)]
    sides = (
        lambda: rhn_backbone.window(x, s, None, mask[None], w_x, w_s, biases),
        lambda: loop(x, s, mask, w_x, w_s, biases),
        (x, w_x, *w_s, *biases),
    )
    products = _of_window(units, 2 * units, length)
    return sides, products + _of_steps(units, 2 * units, length, depth)


def irlm(length: int, loop: Callable[..., Tensor]) -> Sides:
    torch.manual_seed(1)
    w, x, r = _leaf(length, ROWS, 512, scale=1), torch.zeros(ROWS, 512), torch.rand(1, 512)
    r = r.mul_(0.9).requires_grad_()
    return (lambda: impulse_response(w, x, r), lambda: loop(w, x, r), (w, r))
