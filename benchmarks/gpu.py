"""The table's computations on a GPU, with torch alone: carry the repository there and run it.

    python -m benchmarks.gpu [--bfloat16]

Never run on the machine whose figures are in docs/notes/performance.md: that one has no GPU. Needs
torch with CUDA (or ROCm), and neither Ray nor Optuna nor MLflow. Times are of the device, by
events, the two sides in turn, the median of many; memory is the allocator's peak above what was
there before.
With --bfloat16 both sides run under autocast, with their losses in float32; ours keeps recurrences
that step by themselves in float32 too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch

from benchmarks import awd, heads, recurrences
from benchmarks.opponents import recurrences as loops
from benchmarks.opponents.awd import Rates

Work = Callable[[], Any]
CASES: dict[str, tuple[Callable[[], tuple[Work, Work]], str, float]] = {
    "mixture, J = 20, width 280": (lambda: heads.mixture_sides(280), "share", 0.35),
    "mixture, J = 20, width 28": (lambda: heads.mixture_sides(28), "share", 0.35),
    "softmax, V = 10,000": (lambda: heads.softmax_sides(10_000), "share", 1.0),
    "softmax, V = 33,278": (lambda: heads.softmax_sides(33_278), "share", 1.0),
    "augmented loss, width 200": (lambda: heads.augmented_sides(200), "share", 0.6),
    "augmented loss, width 1500": (lambda: heads.augmented_sides(1500), "share", 1.0),
    "AWD-LSTM step, paper": (lambda: awd.sides(*awd.SIZES["paper"], awd.RATES), "faster", 1.2),
    "variational LSTM, 200 units": (
        lambda: recurrences.steps(recurrences.lstm(200), "lstm"),
        "faster",
        1.8,
    ),
    "Mogrifier, 200 units": (
        lambda: recurrences.steps(recurrences.mogrifier(200, 5), "mogrifier"),
        "faster",
        1.8,
    ),
    "RHN, 200 units": (lambda: recurrences.steps(recurrences.rhn(200, 4), "rhn"), "faster", 1.8),
    "IRLM's recurrence, 35 steps": (
        lambda: recurrences.steps(recurrences.irlm(35, loops.diagonal), "irlm"),
        "faster",
        10.0,
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU here: this needs torch with CUDA or ROCm", file=sys.stderr)
        return 2
    torch.set_default_device("cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    check_without_dropout()
    for name, (make, sense, limit) in CASES.items():
        ours, theirs = make()
        if options.bfloat16:
            ours, theirs = under_autocast(ours), under_autocast(theirs)
        compare(name, ours, theirs, sense, limit, options.rounds)
        torch.cuda.empty_cache()
    return 0


def check_without_dropout() -> None:
    """The two sides of the AWD step draw different masks; without masks they must agree."""
    ours, theirs = awd.sides(*awd.SIZES["laptop"], Rates())
    torch.testing.assert_close(ours(), theirs(), rtol=1e-3, atol=1e-3)


def compare(name: str, ours: Work, theirs: Work, sense: str, limit: float, rounds: int) -> None:
    for _ in range(3):
        ours(), theirs()
    times = [(milliseconds(ours), milliseconds(theirs)) for _ in range(rounds)]
    mine, other = (statistics.median(pair[side] for pair in times) for side in (0, 1))
    ratio = statistics.median(b / a if sense == "faster" else a / b for a, b in times)
    within = ratio >= limit if sense == "faster" else ratio <= limit
    memory = f"{extra_memory(ours):8.1f} {extra_memory(theirs):8.1f} MB"
    sign = ">=" if sense == "faster" else "<="
    verdict = f"{sign} {limit:g}: {'kept' if within else 'MISSED'}"
    print(f"  {name:32} {mine:8.2f} {other:8.2f} ms {ratio:6.2f} {verdict:16} {memory}")


def milliseconds(work: Work) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def extra_memory(work: Work) -> float:
    """Megabytes."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / (1 << 20)


def under_autocast(work: Work) -> Work:
    def run() -> Any:
        with torch.autocast("cuda", torch.bfloat16):
            return work()

    return run


if __name__ == "__main__":
    sys.exit(main())
