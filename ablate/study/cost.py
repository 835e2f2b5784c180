"""The cost of a plan: training tokens (exact), and arithmetic (estimated)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ablate.config.config import Config
from ablate.config.sections import TrainingConfig
from ablate.config.tasks import PAIRS

# The speed of a whole training step relative to a matrix product, as measured: small models spend
# their time between the products (`python -m benchmarks.plan_efficiency`).
EFFICIENCY, AT_FLOPS, GROWTH, MOST_EFFICIENT = 0.22, 0.5e6, 0.43, 1.3
MOST_EFFICIENT_IN_HALF = 0.5  # half precision makes products faster, and recurrences less
MATRIX = 512  # rows and columns


def training_tokens(config: Config, num_train: int) -> int:
    """Return the training tokens of all epochs, as cut into batches; 0 if none are counted."""
    if not config.kind.assembles:
        return 0
    if config.kind.reads == PAIRS:
        return config.training.epochs * num_train  # each target token once an epoch, in any batch
    training: TrainingConfig = config.sections["training"]
    rows = training.batch_size
    if training.batching == "circular":
        return training.epochs * training.circular_updates(num_train) * rows * training.window
    # A row of n tokens has n - 1 targets.
    return training.epochs * _steps(training, num_train // rows - 1) * rows


def _steps(training: TrainingConfig, targets: int) -> int:
    """Return the targets of a row that its windows train on."""
    if training.batching == "zaremba":  # whole windows only
        return max(0, targets // training.window * training.window)
    one_left = not training.variable_window and (targets - 1) % training.window == 0
    return max(0, targets - one_left)  # a window of a single target is left out


def flops_per_token(
    config: Config, vocabulary: int, source_vocabulary: int = 0, sentence: int = 0
) -> float:
    """Estimate the operations per training token; 0 if none are counted. Of pairs, `sentence` is
    the mean length."""
    if not config.kind.assembles:
        return 0.0
    from ablate.lm.model.assemble import assemble
    from ablate.lm.model.operations import per_training_token

    # On the device "meta", the largest model takes no memory.
    assembly = assemble(config, vocabulary, "meta", source_vocabulary=source_vocabulary)
    training: Any = config.training
    steps = sentence or training.window
    own = assembly.loss, assembly.regularizers
    return per_training_token(assembly.model, *own, training, steps)


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

    from ablate.lm.model.fast.precision import rounded

    torch.set_num_threads(threads)
    left, right = rounded(torch.randn(2, MATRIX, MATRIX), getattr(torch, precision))
    torch.mm(left, right)  # not timed: the first product also starts torch's threads
    start, rounds = time.perf_counter(), 0
    while time.perf_counter() - start < 0.1:
        torch.mm(left, right)
        rounds += 1
    return 2 * MATRIX**3 * rounds / (time.perf_counter() - start)
