"""The cost of a plan: training tokens (exact), and arithmetic (estimated)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ablate.config.config import Config

# The speed of a whole training step relative to a matrix product, as measured: small models spend
# their time between the products (`python -m benchmarks.plan_efficiency`).
EFFICIENCY, AT_FLOPS, GROWTH, MOST_EFFICIENT = 0.22, 0.5e6, 0.43, 1.3
MOST_EFFICIENT_IN_HALF = 0.5  # half precision makes products faster, and recurrences less
MATRIX = 512  # rows and columns


def training_tokens(config: Config, num_train: int) -> int:
    """Return the training tokens of all epochs, as cut into batches; 0 if none are counted."""
    if not config.kind.assembles:
        return 0
    return config.kind.asked.training_tokens(config, num_train)


def flops_per_token(
    config: Config, vocabulary: int, source_vocabulary: int = 0, sentence: int = 0
) -> float:
    """Estimate the operations per training token; 0 if none are counted. Of pairs, `sentence` is
    the mean length."""
    if not config.kind.assembles:
        return 0.0
    return config.kind.asked.operations(config, vocabulary, source_vocabulary, sentence)


def seconds_per_token(flops: Mapping[str, float], threads: int, precision: str) -> dict[str, float]:
    """Return each arm's seconds per training token, as this machine's speed suggests."""
    machine = matrix_rate(threads, precision)
    return {
        arm: number / (machine * efficiency(number, precision)) if number else 0.0
        for arm, number in flops.items()
    }


def efficiency(flops: float, precision: str) -> float:
    """Return how efficient models are that need this many operations per training token."""
    most = MOST_EFFICIENT if precision == "float32" else MOST_EFFICIENT_IN_HALF
    return min(most, EFFICIENCY * (flops / AT_FLOPS) ** GROWTH)


def matrix_rate(threads: int, precision: str) -> float:
    """Measure this machine's operations per second in a matrix product."""
    import torch

    torch.set_num_threads(threads)
    left, right = torch.randn(2, MATRIX, MATRIX)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision != "float32"):
        torch.mm(left, right)  # not timed: the first product also starts torch's threads
        start, rounds = time.perf_counter(), 0
        while time.perf_counter() - start < 0.1:
            torch.mm(left, right)
            rounds += 1
        return 2 * MATRIX**3 * rounds / (time.perf_counter() - start)
