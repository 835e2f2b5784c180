"""Measures two sides on a device: times, memory above what was there, and the rate of products.

On a GPU, times are the device's own, by events, and memory is the peak of torch's allocator. On a
processor, times are the clock's on the wall, and memory is not measured.
"""

from __future__ import annotations

import gc
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

Work = Callable[[], Any]
Quartiles = tuple[float, float, float]  # the one in the middle is the median
MOST, LEAST, WARM_UP = 30, 5, 2  # rounds


class OutOfTime(BaseException):
    """Not an `Exception`: a compiler that goes on after errors must not go on after this one."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Inside, code of Python is interrupted after so long; what it called must return first."""

    def interrupt(number: int, frame: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, interrupt)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)  # another's, such as a test's


def raced(device: str, ours: Work, theirs: Work, seconds: float) -> list[tuple[float, float]]:
    """Milliseconds of both sides in turn, round by round, for about so long."""
    for _ in range(WARM_UP):
        ours(), theirs()
    gc.collect()
    pairs: list[tuple[float, float]] = []
    end = time.perf_counter() + seconds
    while len(pairs) < LEAST or (len(pairs) < MOST and time.perf_counter() < end):
        pairs.append((milliseconds(device, ours), milliseconds(device, theirs)))
    return pairs


def milliseconds(device: str, work: Work) -> float:
    """How long one run takes."""
    if device == "cpu":
        start = time.perf_counter()
        work()
        return 1000 * (time.perf_counter() - start)
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    before.record()
    work()
    after.record()
    torch.cuda.synchronize()
    return before.elapsed_time(after)


def extra_memory(device: str, work: Work) -> float | None:
    """Megabytes that one run adds at its peak; None on a processor, where it is not measured."""
    if device == "cpu":
        return None
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / (1 << 20)


def product_rate(device: str, size: int) -> float:
    """Operations a second of a product of two square matrices in bfloat16: the best of several."""
    a, b = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))
    times = [milliseconds(device, lambda: a @ b) for _ in range(10)]
    return 2 * size**3 / (min(times) / 1000)


def quartiles(numbers: Sequence[float]) -> Quartiles:
    """The quartiles of two numbers or more."""
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return low, middle, high
