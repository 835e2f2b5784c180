"""Dynamic evaluation and the neural cache as the public codes write them, over a plain model.

The model is `opponents/awd.py`'s, without dropout.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.opponents.awd import AwdLstm


def mean_squares(model: AwdLstm, rows: Tensor, window: int) -> list[Tensor]:
    """The root of the mean squared gradient over the windows of the training rows."""
    squares = [torch.zeros_like(p) for p in model.parameters()]
    state, segments = model.initial_state(rows.shape[1]), 0
    for start in range(0, len(rows) - 1, window):
        if segments * window >= len(rows) - 2:
            break
        ids = rows[start : start + window + 1]
        model.zero_grad()
        loss, _, state = model.loss(ids[:-1], ids[1:], state)
        loss.backward()
        for square, parameter in zip(squares, model.parameters(), strict=True):
            square += parameter.grad**2
        segments += 1
    return [torch.sqrt(square / segments) for square in squares]


def dynamic(
    model: AwdLstm, stream: Tensor, rms: list[Tensor], window: int, rate: float, decay: float
) -> float:
    """The mean loss of the stream, by Krause's current rule (epsilon 2e-5)."""
    parameters = list(model.parameters())
    start = [p.detach().clone() for p in parameters]
    mean = torch.stack([m.mean() for m in rms]).mean()
    shares = [torch.clamp(m / mean, max=1 / decay) for m in rms]
    total, state = 0.0, model.initial_state(1)
    rows = stream[:, None]
    for at in range(0, len(rows) - 1, window):
        ids = rows[at : at + window + 1]
        model.zero_grad()
        loss, _, state = model.loss(ids[:-1], ids[1:], state)
        loss.backward()
        total += float(loss.detach()) * (len(ids) - 1)
        with torch.no_grad():
            for p, p0, m, share in zip(parameters, start, rms, shares, strict=True):
                p += decay * share * (p0 - p) - rate * p.grad / (m + 2e-5)
    with torch.no_grad():
        for p, p0 in zip(parameters, start, strict=True):
            p.copy_(p0)
    return total / (len(rows) - 1)


@torch.no_grad()
def cached(
    model: AwdLstm,
    stream: Tensor,
    window: int,
    theta: float,
    share: float,
    *,
    one_hot: bool = False,
    bptt: int = 200,
) -> float:
    """The mean loss with a cache over the last `window` states, from the second word on.

    What each word was given is added up by `index_add_`, or by a product with the words' one-hot
    rows, as the public code has it (which writes out and sums the product, and is slower still).
    """
    state, total = model.initial_state(1), 0.0
    states, words = torch.zeros(0, model.units[-1]), torch.zeros(0, dtype=torch.long)
    vocabulary = model.embedding.shape[0]
    rows = torch.zeros(0, vocabulary)
    for at in range(0, len(stream) - 1, bptt):
        ids = stream[at : at + bptt + 1, None]
        masked, raw, state = model(ids[:-1], state)
        logits = F.linear(masked[-1].flatten(0, 1), model.embedding, model.bias)
        plain = F.softmax(logits, dim=-1)
        hidden, targets = raw[:, 0], ids[1:, 0]
        before = len(states)
        states, words = torch.cat([states, hidden]), torch.cat([words, targets])
        if one_hot:
            rows = torch.cat([rows, F.one_hot(targets, vocabulary).float()])
        for index, target in enumerate(targets):
            now = before + index
            first = max(0, now - window)
            p = plain[index]
            if now > 0:
                attention = F.softmax(theta * states[first:now] @ hidden[index], dim=0)
                if one_hot:
                    cache = attention @ rows[first:now]
                else:
                    cache = torch.zeros(vocabulary).index_add_(0, words[first:now], attention)
                p = (1 - share) * p + share * cache
            total -= float(torch.log(p[target]))
        states, words, rows = states[-window:], words[-window:], rows[-window:]
    return total / (len(stream) - 1)
