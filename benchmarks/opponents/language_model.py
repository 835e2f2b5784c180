"""One training of a small AWD-LSTM with a mixture of softmaxes, as a script of plain torch.

What `plain_optuna.py` and `tune_optuna.py` call for each trial. The text is read and split again
by each process, and kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.opponents.awd import AwdLstm, Rates

Report = Callable[[int, float, float], None]  # epoch, training loss, validation loss


@cache
def read(paths: tuple[str, ...], train_tokens: int, eval_tokens: int) -> tuple[list[Tensor], int]:
    """Train, valid and test as token numbers, cut; the vocabulary is that of the whole text."""
    number: dict[str, int] = {}
    streams = []
    for path in paths:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        words = (word for line in lines for word in [*line.split(), "<eos>"])
        ids = [number.setdefault(word, len(number)) for word in words]
        streams.append(torch.tensor(ids[: eval_tokens if streams else train_tokens]))
    return streams, len(number)


def rows_of(stream: Tensor, num: int) -> Tensor:
    length = len(stream) // num
    return stream[: length * num].view(num, length).t().contiguous()


def initialize(model: AwdLstm, embedding_range: float, lstm_range: float) -> None:
    nn.init.uniform_(model.embedding, -embedding_range, embedding_range)
    for parameter in model.layers.parameters():
        nn.init.uniform_(parameter, -lstm_range, lstm_range)


@torch.no_grad()
def mean_nll(model: AwdLstm, rows: Tensor, window: int) -> float:
    model.eval()
    state, total = model.initial_state(rows.shape[1]), 0.0
    for start in range(0, len(rows) - 1, window):
        span = rows[start : start + window + 1]
        _, nll, state = model.loss(span[:-1], span[1:], state)
        total += float(nll) * (len(span) - 1)
    return total / (len(rows) - 1)


def updates(
    model: AwdLstm, optimizer: torch.optim.Optimizer, rows: Tensor, setting: dict[str, Any]
) -> Iterator[tuple[float, int]]:
    """Train for an epoch: each update's loss without penalties, and its steps."""
    model.train()
    state, start = model.initial_state(rows.shape[1]), 0
    while start < len(rows) - 2:
        span = rows[start : start + setting["window"] + 1]
        loss, nll, state = model.loss(span[:-1], span[1:], state)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), setting["clip"])
        optimizer.step()
        start += len(span) - 1
        yield float(nll), len(span) - 1


def train(setting: dict[str, Any], experts: tuple[int, ...], seed: int, report: Report) -> dict:
    """Train one model; its best validation loss and, with those weights, the test loss."""
    torch.manual_seed(seed)
    streams, vocabulary = read(
        tuple(setting["paths"]), setting["train_tokens"], setting["eval_tokens"]
    )
    rates = Rates(**setting["rates"])
    model = AwdLstm(vocabulary, setting["size"], tuple(setting["units"]), rates, experts)
    initialize(model, setting["embedding_range"], setting["lstm_range"])
    optimizer = torch.optim.Adam(model.parameters(), lr=setting["learning_rate"])
    rows, valid = rows_of(streams[0], setting["batch_size"]), rows_of(streams[1], 10)
    best, weights, num_updates = math.inf, {}, 0
    for epoch in range(1, setting["epochs"] + 1):
        total, steps = 0.0, 0
        for nll, length in updates(model, optimizer, rows, setting):
            total, steps, num_updates = total + nll * length, steps + length, num_updates + 1
        result = mean_nll(model, valid, 200)
        if result < best:
            best, weights = result, {k: v.clone() for k, v in model.state_dict().items()}
        report(epoch, total / steps, result)
    model.load_state_dict(weights)
    final = {
        f"final_{split}_nll": mean_nll(model, rows_of(stream, 1), 200)
        for split, stream in zip(("valid", "test"), streams[1:], strict=True)
    }
    return {**final, "best_valid_nll": best, "updates": num_updates}
