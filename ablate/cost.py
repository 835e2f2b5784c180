"""What a plan will cost: tokens exactly, time as an estimate that says what it rests on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ablate.config import Config
from ablate.identity import Trial
from ablate.journal import Journal

BACKWARD = 3  # a training step takes about three forward passes
EFFICIENCY = 0.35  # of a matrix product's rate that a whole training step was seen to reach


@dataclass(frozen=True)
class Cost:
    """Training tokens and seconds of one worker, and where the seconds come from."""

    tokens: int
    seconds: float
    basis: str


def training_tokens(config: Config, num_train: int) -> int:
    """Tokens of all epochs, as the batches cut them; counting n-grams takes none."""
    if config.ngram is not None:
        return 0
    rows = config.training.batch_size
    return config.training.epochs * (num_train // rows - 1) * rows


def flops_per_token(config: Config, num_parameters: int, vocabulary: int) -> float:
    """Multiplications of one training token: every weight once, the output once a component."""
    if config.ngram is not None:
        return 0.0
    size = config.embedding.size
    experts = getattr(config["head"].config, "experts", 1)
    components = sum(experts) if isinstance(experts, tuple) else int(experts)
    inner = max(num_parameters - vocabulary * size, 0)
    return 2 * BACKWARD * (inner + components * vocabulary * size)


def measured_rate(journals: Iterable[Journal], configs: Mapping[str, float]) -> float | None:
    """Multiplications a second that finished trials reached, of arms whose work is known."""
    rates = [
        configs[journal.trial.arm] * sum(e.get("tokens", 0) for e in journal.epochs) / spent
        for journal in journals
        if journal.trial.arm in configs and (spent := _seconds(journal)) > 1
    ]
    return sorted(rates)[len(rates) // 2] if rates else None


def probed_rate(threads: int) -> float:
    """Multiplications a second of this machine's matrix product, times what training reaches."""
    import torch

    torch.set_num_threads(threads)
    left, right = torch.randn(512, 512), torch.randn(512, 512)
    torch.mm(left, right)
    begun, rounds = time.perf_counter(), 0
    while time.perf_counter() - begun < 0.1:
        torch.mm(left, right)
        rounds += 1
    return 2 * 512**3 * rounds / (time.perf_counter() - begun) * EFFICIENCY


def _seconds(journal: Journal) -> float:
    return journal.epochs[-1].get("seconds", 0.0) if journal.epochs else 0.0


def left_to_do(trials: Iterable[Trial], journals: Mapping[str, Journal]) -> list[Trial]:
    """The trials that have no outcome yet."""
    return [
        trial for trial in trials if trial.id not in journals or journals[trial.id].outcome is None
    ]
