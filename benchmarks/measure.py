"""Measures two sides of a comparison reliably on a machine with other load.

Both sides run in one process, in turn, on one core and one thread. What is compared is the
thread's own processor time, which others at work on the machine disturb less than the clock on
the wall; the wall clock is recorded beside it. A ratio is the median of the ratios pair by pair.

What takes milliseconds is run several times a round, after once that does not count: in a training
a recurrence finds in the cache what was written just before, not what an opponent left there.

Extra memory is what a step adds to the resident memory at its peak, in a forked process, after a
step that warms the libraries up.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Work = Callable[[], Any]
MB = 1 << 20
SHORT_SECONDS = 0.02  # a round takes at least so long


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the table. `sense` says how `ratio` and `limit` are to be read.

    faster   theirs / ours is to reach the limit      share   ours / theirs is to stay within it
    added    ours - theirs is to stay within it       known   there is no limit: it explains others
    """

    what: str
    ours: float
    theirs: float
    unit: str
    sense: str
    limit: float | None
    ratio: float
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> bool | None:
        """None if there is no limit."""
        if self.limit is None:
            return None
        return self.ratio >= self.limit if self.sense == "faster" else self.ratio <= self.limit


@dataclass(frozen=True)
class Timing:
    """Seconds of each round, as thread time and as wall-clock time."""

    cpu: Sequence[float]
    wall: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.cpu)

    @property
    def best(self) -> float:
        return min(self.cpu)


def pin(cores: int = 1) -> None:
    """Limit this process and its children to N cores, with one thread per computation."""
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])


def interleaved(sides: Mapping[str, Work], rounds: int, warm_up: int = 2) -> dict[str, Timing]:
    """Run every side in turn, `rounds` times, after warm-up rounds."""
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    wall: dict[str, list[float]] = {name: [] for name in sides}
    gc.collect()
    _settle_allocator()
    gc.freeze()  # what is imported is not looked through again and again
    times: dict[str, int] = {}
    for number in range(warm_up + rounds):
        gc.collect()
        for name, work in sides.items():
            gc.disable()
            used, passed = _timed(work, times.get(name, 1))
            if name not in times:
                times[name] = 1 if passed > SHORT_SECONDS / 4 else int(SHORT_SECONDS / passed) + 1
            if times[name] > 1 and number == 0:
                used, passed = _timed(work, times[name])
            gc.enable()
            if number >= warm_up:
                cpu[name].append(used)
                wall[name].append(passed)
    return {name: Timing(cpu[name], wall[name]) for name in sides}


def _timed(work: Work, times: int) -> tuple[float, float]:
    """Return thread and wall-clock seconds of one of N runs; several are warmed up."""
    if times > 1:
        work()
    start = time.perf_counter(), time.thread_time()
    for _ in range(times):
        work()
    used, passed = time.thread_time() - start[1], time.perf_counter() - start[0]
    return used / times, max(passed / times, 1e-9)


def _settle_allocator() -> None:
    """glibc's malloc asks the system for every block above a threshold, which rises with the
    blocks that are given back (to 32 MB). In a training the logits have raised it."""
    block = bytearray(31 << 20)
    del block


def rounds_for(work: Work, seconds: float, least: int = 3, most: int = 200) -> int:
    """How many runs of `work` fit into a time, after one that warms up; the second, if the
    first was not too long already, tells."""
    for _ in range(2):
        start = time.thread_time()
        work()
        used = time.thread_time() - start
        if used > seconds / least:
            return least
    return min(most, int(seconds / max(used, 1e-6)))


def race(
    what: str,
    ours: Work,
    theirs: Work,
    *,
    sense: str,
    limit: float | None,
    seconds: float = 0.0,
    rounds: int | None = None,
    note: str = "",
    others: Mapping[str, Work] | None = None,
) -> Figure:
    """Time two sides against each other; `others` are timed in the same rounds, and recorded.

    For a number of seconds after a warm-up, or of rounds if both have run before.
    """
    sides = {"ours": ours, "theirs": theirs, **(others or {})}
    rounds = rounds or rounds_for(lambda: [work() for work in sides.values()], seconds)
    timings = interleaved(sides, rounds, warm_up=0)
    details = {name: summary(timing) for name, timing in timings.items()}
    pairs = zip(timings["ours"].cpu, timings["theirs"].cpu, strict=True)
    walls = zip(timings["ours"].wall, timings["theirs"].wall, strict=True)
    return Figure(
        what=what,
        ours=1000 * timings["ours"].median,
        theirs=1000 * timings["theirs"].median,
        unit="ms",
        sense=sense,
        limit=limit,
        ratio=_median_ratio(pairs, sense),
        note=note,
        details={**details, "rounds": rounds, "ratio_by_the_wall": _median_ratio(walls, sense)},
    )


def _median_ratio(pairs: Any, sense: str) -> float:
    """Compare (ours, theirs): how many times faster, or ours as a share."""
    return statistics.median(b / a if sense == "faster" else a / b for a, b in pairs)


def summary(timing: Timing) -> dict[str, float]:
    """Milliseconds."""
    return {
        "cpu_ms_median": round(1000 * timing.median, 4),
        "cpu_ms_min": round(1000 * min(timing.cpu), 4),
        "cpu_ms_max": round(1000 * max(timing.cpu), 4),
        "wall_ms_median": round(1000 * statistics.median(timing.wall), 4),
    }


def weigh(what: str, ours: Work, theirs: Work, *, limit: float | None, note: str = "") -> Figure:
    """Compare the memory that both sides add at their peak."""
    mine, other = extra_memory(ours), extra_memory(theirs)
    return Figure(
        what=what,
        ours=mine / MB,
        theirs=other / MB,
        unit="MB",
        sense="share",
        limit=limit,
        ratio=mine / other,
        note=note,
    )


def extra_memory(work: Work) -> int:
    """Bytes that `work` adds to the resident memory at its peak, in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            os.write(writing, str(_extra_memory_here(work)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as printed:
        result = printed.read()
    os.waitpid(child, 0)
    if not result:
        raise SystemExit("measuring memory failed: the process died")
    return int(result)


def _extra_memory_here(work: Work) -> int:
    work()
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _status("VmRSS")
    result = work()
    peak = _status("VmHWM")
    del result
    return peak - before


def _status(name: str) -> int:
    """Read a line of /proc/self/status, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(f"{name}:"))


def agree(ours: Any, theirs: Any, what: str, relative: float = 1e-4) -> None:
    """Both sides must compute the same, or nothing that is measured means anything.

    Tensors are compared by the norm of their difference: single elements may be near 0.
    """
    import torch

    if isinstance(ours, list | tuple):
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            agree(a, b, f"{what}[{number}]", relative)
        return
    a, b = (torch.as_tensor(x).detach().double() for x in (ours, theirs))
    if a.shape != b.shape:
        raise SystemExit(f"{what}: ours is {tuple(a.shape)}, theirs {tuple(b.shape)}")
    apart = float((a - b).norm() / b.norm().clamp_min(1e-30))
    if not apart <= relative:
        raise SystemExit(f"{what}: ours and theirs are {apart:.2g} apart, over {relative:g}")


def best_rate(m: int, k: int, n: int) -> float:
    """Measure GFLOP/s of products [M, K] x [K, N], by the faster of torch and oneDNN."""
    import torch

    linear = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    a, b = torch.randn(m, k), torch.randn(n, k)
    ways = [lambda: torch.mm(a, b.t())]
    if linear is not None:
        ways.append(lambda: linear(a, b, None, "none", [], ""))
    seconds = 0.15  # for each way
    times = [interleaved({"it": way}, rounds_for(way, seconds, most=20))["it"] for way in ways]
    return 2e-9 * m * k * n / min(timing.best for timing in times)


def share_of_products(
    name: str, time: Figure, products: Sequence[tuple[float, tuple[int, int, int]]]
) -> Figure:
    """How far a step is from its matrix products alone: (how many, [M, K, N]), each at the best
    rate of its shape."""
    rates = {shape: best_rate(*shape) for _, shape in products}
    work = [(2e-9 * times * math.prod(shape), rates[shape]) for times, shape in products]
    alone_ms = 1000 * sum(gflop / rate for gflop, rate in work)
    return Figure(
        what=f"{name}: time over its matrix products'",
        ours=time.ours,
        theirs=alone_ms,
        unit="ms",
        sense="share",
        limit=None,
        ratio=time.ours / alone_ms,
        note=f"at {1000 * sum(gflop for gflop, _ in work) / alone_ms:.0f} GFLOP/s a core",
    )
