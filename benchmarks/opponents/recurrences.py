"""Recurrences that no fused kernel has, as loops over the steps with plain autograd.

What does not depend on the step, the product of all inputs, is hoisted out of the loop where the
recurrence allows it: everybody does so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

Step = Callable[..., tuple[Tensor, Tensor]]


def lstm_step(
    inputs: Tensor, h: Tensor, c: Tensor, w_h: Tensor, m_h: Tensor
) -> tuple[Tensor, Tensor]:
    """The next h and c."""
    i, f, g, o = (inputs + F.linear(h * m_h, w_h)).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def variational_lstm(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    w_x: Tensor,
    w_h: Tensor,
    bias: Tensor,
    m_x: Tensor,
    m_h: Tensor,
    step: Step = lstm_step,
) -> Tensor:
    """Dropout masks on the gates' inputs, constant over the window and shared by all gates.

    `step` may be the compiled one, as below.
    """
    outputs = []
    for inputs in F.linear(x * m_x, w_x, bias):
        h, c = step(inputs, h, c, w_h, m_h)
        outputs.append(h)
    return torch.stack(outputs)


def mogrifier_step(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    w_x: Tensor,
    w_h: Tensor,
    bias: Tensor,
    rounds: Sequence[tuple[Tensor, Tensor]],
) -> tuple[Tensor, Tensor]:
    """The next h and c."""
    for number, (q, b) in enumerate(rounds):
        if number % 2 == 0:
            x = 2 * torch.sigmoid(F.linear(h, q, b)) * x
        else:
            h = 2 * torch.sigmoid(F.linear(x, q, b)) * h
    i, f, g, o = (F.linear(x, w_x, bias) + F.linear(h, w_h)).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def mogrifier(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    w_x: Tensor,
    w_h: Tensor,
    bias: Tensor,
    rounds: Sequence[tuple[Tensor, Tensor]],
    step: Step = mogrifier_step,
) -> Tensor:
    """Input and state gate each other before every step; a round is (matrix, bias)."""
    outputs = []
    for xt in x:
        h, c = step(xt, h, c, w_x, w_h, bias, rounds)
        outputs.append(h)
    return torch.stack(outputs)


def highway_step(
    inputs: Tensor, s: Tensor, mask: Tensor, w_s: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """The state after all micro-steps of a word."""
    for depth, (w, b) in enumerate(zip(w_s, biases, strict=True)):
        both = F.linear(s * mask, w, b)
        h, t = (both + inputs if depth == 0 else both).chunk(2, -1)
        t = torch.sigmoid(t)
        s = torch.tanh(h) * t + s * (1 - t)
    return s


def highway(
    x: Tensor,
    s: Tensor,
    mask: Tensor,
    w_x: Tensor,
    w_s: Sequence[Tensor],
    biases: Sequence[Tensor],
    step: Callable[..., Tensor] = highway_step,
) -> Tensor:
    """A recurrent highway network: several micro-steps a word, the carry gate coupled."""
    outputs = []
    for inputs in F.linear(x, w_x):
        s = step(inputs, s, mask, w_s, biases)
        outputs.append(s)
    return torch.stack(outputs)


def diagonal(w: Tensor, x: Tensor, r: Tensor) -> Tensor:
    """x_t = w_t + r x_{t-1}, by the number of the step, as such loops are mostly written.

    Autograd gives every `w[t]` a gradient as large as w.
    """
    outputs = []
    for t in range(len(w)):
        x = w[t] + r * x
        outputs.append(x)
    return torch.stack(outputs)


def diagonal_unbound(w: Tensor, x: Tensor, r: Tensor) -> Tensor:
    """The same, optimized: iterating over w unbinds it once."""
    outputs = []
    for step in w:
        x = step + r * x
        outputs.append(x)
    return torch.stack(outputs)


def gated(a: Tensor, b: Tensor, h: Tensor) -> Tensor:
    """h_t = a_t h_{t-1} + b_t, by the number of the step; a may be the same for all steps."""
    outputs = []
    for t in range(len(b)):
        h = a[t if len(a) > 1 else 0] * h + b[t]
        outputs.append(h)
    return torch.stack(outputs)


def gated_unbound(a: Tensor, b: Tensor, h: Tensor) -> Tensor:
    """The same, optimized: iterating over a and b unbinds them once."""
    outputs = []
    for factor, step in zip(a.expand(len(b), -1, -1), b, strict=True):
        h = factor * h + step
        outputs.append(h)
    return torch.stack(outputs)


def state_space(x: Tensor, d: Tensor, b: Tensor, c: Tensor, a: Tensor, s: Tensor) -> Tensor:
    """Mamba-2's recurrence, by the number of the step; all heads are in one group."""
    outputs = []
    for t in range(len(x)):
        y, s = _state_space_step(x[t], d[t], b[t], c[t], a, s)
        outputs.append(y)
    return torch.stack(outputs)


def state_space_unbound(x: Tensor, d: Tensor, b: Tensor, c: Tensor, a: Tensor, s: Tensor) -> Tensor:
    """The same, optimized as above."""
    outputs = []
    for step in zip(x, d, b, c, strict=True):
        y, s = _state_space_step(*step, a, s)
        outputs.append(y)
    return torch.stack(outputs)


def _state_space_step(
    x: Tensor, d: Tensor, b: Tensor, c: Tensor, a: Tensor, s: Tensor
) -> tuple[Tensor, Tensor]:
    added = (d[..., None] * x)[..., None] * b[:, None, None]
    s = torch.exp(a * d)[..., None, None] * s + added
    return (s @ c[:, None, :, None]).squeeze(-1), s
