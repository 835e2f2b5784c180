"""The cost of a plan: training tokens (exact), and arithmetic (estimated)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from ablate.config.resolve import Config
from ablate.config.sections import TrainingConfig
from ablate.config.tasks import PAIRS
from ablate.store.journal import Journal

FORWARD_PASSES = 3  # that a training step takes, about
EFFICIENCY = 0.35  # measured speed of a whole training step, relative to a matrix product


def training_tokens(config: Config, num_train: int) -> int:
    """Return the training tokens of all epochs, as cut into batches; 0 if none are counted."""
    if not config.kind.assembles:
        return 0
    if config.kind.reads == PAIRS:
        return config.training.epochs * num_train
    training: TrainingConfig = config.sections["training"]
    rows = training.batch_size
    if training.batching == "circular":
        return training.epochs * training.circular_updates(num_train) * rows * training.window
    return training.epochs * max(0, num_train // rows - 1) * rows


def flops_per_token(config: Config, vocabulary: int, source_vocabulary: int = 0) -> float:
    """Estimate the operations per training token; 0 if none are counted."""
    if not config.kind.assembles:
        return 0.0
    from ablate.model.assemble import assemble

    assembly = assemble(config, vocabulary, "meta", source_vocabulary=source_vocabulary)
    return FORWARD_PASSES * assembly.model.flops_per_token()


def measured_rate(journals: Iterable[Journal], flops: Mapping[str, float]) -> float | None:
    """Return the median operations per second of trials; `flops`: per token, by arm."""
    rates = [
        flops[journal.trial.arm] * sum(e.get("tokens", 0) for e in journal.epochs) / seconds
        for journal in journals
        if journal.trial.arm in flops and (seconds := _seconds(journal)) > 1
    ]
    return sorted(rates)[len(rates) // 2] if rates else None


def probed_rate(threads: int, precision: str) -> float:
    """Estimate this machine's operations per second in training, from a matrix product."""
    import torch

    torch.set_num_threads(threads)
    left, right = torch.randn(2, 512, 512, dtype=getattr(torch, precision))
    torch.mm(left, right)
    start, rounds = time.perf_counter(), 0
    while time.perf_counter() - start < 0.1:
        torch.mm(left, right)
        rounds += 1
    return 2 * 512**3 * rounds / (time.perf_counter() - start) * EFFICIENCY


def _seconds(journal: Journal) -> float:
    return journal.epochs[-1].get("seconds", 0.0) if journal.epochs else 0.0
