"""What multiplies the matrices of an output layer fastest on this machine, in GFLOP/s of one core.

    python -m benchmarks.products

The three products of a chunk of M rows with V words and width E: the scores x W', their gradient
for x (d W), and for W (d' x, added). The candidates take turns, and a figure is the best of their
runs, by processor time. `ablate/lm/model/fast/product.py` chooses by constants that came from such
figures, and not by measuring: another choice has other bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from ablate.lm.model.fast.product import multipliers
from ablate.lm.model.native.library import library
from ablate.lm.model.native.product import add_product_, multiply
from benchmarks.measure import pin

# (V, E, M): chunks of a single softmax, and of mixtures
SHAPES = [(10_000, 28, 400), (10_000, 100, 168), (10_000, 200, 168), (10_000, 280, 400)]
SHAPES += [(10_000, 400, 168), (10_000, 650, 168), (33_278, 400, 94)]
RUNS = 15
ALIGNED = 16  # numbers of a cache line
Candidates = dict[str, Callable[[], object]]


def main() -> None:
    pin()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    print(
        f"Chosen by constants: {multipliers()}.\n\n| V, E, M | product | GFLOP/s |\n|---|---|---|"
    )
    for words, width, rows in SHAPES:
        operations = 2e-9 * words * width * rows
        for name, candidates in products(words, width, rows).items():
            rates = (f"{who} {operations / s:.0f}" for who, s in best(candidates).items())
            print(f"| {words:,}, {width}, {rows} | {name} | {', '.join(rates)} |", flush=True)


def products(words: int, width: int, rows: int) -> dict[str, Candidates]:
    """The candidates of each product, in float32 and in bfloat16."""
    x, weight, slope = torch.randn(rows, width), torch.randn(words, width), torch.rand(rows, words)
    bias, scores = torch.zeros(words), torch.empty(rows, words)
    total = torch.zeros(words, -(-width // ALIGNED) * ALIGNED)[:, :width]
    x_low, weight_low, slope_low = (factor.bfloat16() for factor in (x, weight, slope))
    found: dict[str, Candidates] = {
        "x W' + b": {
            "torch": lambda: torch.addmm(bias, x, weight.t(), out=scores),
            "bfloat16": lambda: torch.mm(x_low, weight_low.t()),
        },
        "d W": {
            "torch": lambda: torch.mm(slope, weight),
            "bfloat16": lambda: torch.mm(slope_low, weight_low),
        },
        "d' x": {
            "torch": lambda: total.addmm_(slope.t(), x),
            "bfloat16": lambda: torch.mm(slope_low.t(), x_low).float(),
        },
    }
    forward, back, over = found.values()
    if library() is not None:
        forward["ours"] = lambda: multiply(x, weight.t(), bias, scores)
        back["ours"] = lambda: multiply(slope, weight)
        over["ours"] = lambda: add_product_(total, slope.t(), x)
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        across = torch.zeros(width, words)
        forward["oneDNN"] = lambda: onednn(x, weight, bias)
        back["oneDNN"] = lambda: onednn(slope, weight.t())
        over["oneDNN"] = lambda: across.add_(onednn(x.t(), slope.t()))
    return found


def onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight, bias, "none", [], "")


def best(candidates: Candidates) -> dict[str, float]:
    """The fewest seconds of processor time that each candidate took."""
    seconds = {name: float("inf") for name in candidates}
    for number in range(1 + RUNS):
        for name, multiplied in candidates.items():
            start = time.thread_time()
            multiplied()
            if number:  # the first run warms up
                seconds[name] = min(seconds[name], time.thread_time() - start)
    return seconds


if __name__ == "__main__":
    main()
