"""A step of 001's RNN in half precision, ours and plain torch's, with and without huge pages.

    python -m benchmarks.half

512 units, 10,000 words, 20 rows of 35 steps, Adam; products in bfloat16 by autocast. Each figure is
the median of a process of its own on one thread, as torch asks once whether to use huge pages; the
four processes run in turn, several times.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

PAGES = "THP_MEM_ALLOC_ENABLE"
UNITS, WORDS, ROWS, STEPS = 512, 10_000, 20, 35
ROUNDS, UPDATES = 4, 15
VALUES = {
    "corpus.name": "grammar",  # nothing is read of it: the text is made up
    "embedding.size": UNITS,
    "backbone": "elman",
    "backbone.activation": "relu",
    "backbone.inputs": "embedding",
    "backbone.units": UNITS,
    "head": "softmax",
    "head.bias": False,
    "head.tied": False,
    "optimizer": "adam",
    "regularizer.dropout.output": 0.5,
}


def main() -> None:
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(ROUNDS):
        for side in ("ours", "theirs"):
            for pages in ("0", "1"):
                times.setdefault((side, pages), []).append(_measured(side, pages))
    print("| ms of an update | small pages | huge pages | |\n|---|---:|---:|---:|")
    for side, name in (("ours", "ablate"), ("theirs", "plain torch")):
        small, huge = (statistics.median(times[side, pages]) for pages in ("0", "1"))
        print(f"| {name} | {1e3 * small:.0f} | {1e3 * huge:.0f} | {small / huge:.2f} |")


def _measured(side: str, pages: str) -> float:
    """Seconds of an update in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.half", side]
    environment = {**os.environ, PAGES: pages, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def measure(side: str) -> float:
    """The median thread time of an update."""
    import time

    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    text = torch.randint(WORDS, (STEPS + 1, ROWS))
    update = {"ours": _ours, "theirs": _theirs}[side](text)
    seconds = []
    for _ in range(UPDATES):
        start = time.thread_time()
        update()
        seconds.append(time.thread_time() - start)
    return statistics.median(seconds[3:])


def _ours(text: Any) -> Callable[[], None]:
    import torch

    from ablate.config import registry
    from ablate.config.resolve import resolve
    from ablate.config.streams import Streams
    from ablate.model.assemble import assemble
    from ablate.model.fast.precision import products_in
    from ablate.model.masks import Chance, Masks

    config = resolve(VALUES)
    assembly = assemble(config, WORDS)
    model, streams, updates = assembly.model, Streams(1), iter(range(UPDATES))
    model.initialize(streams)
    optimizer = registry.make("optimizer", "adam", config["optimizer"].config, model)
    state = model.initial_state(ROWS)

    def update() -> None:
        chance = Chance(streams, next(updates))
        with products_in("bfloat16", "cpu"):
            passed = model(text[:-1], state, Masks(assembly.regularizers, chance))
            nll = assembly.loss(passed, text[1:].reshape(-1), model.embedding.weight, chance)
        (nll / text[1:].numel()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(0.001)
        model.zero_grad(set_to_none=True)

    return update


def _theirs(text: Any) -> Callable[[], None]:
    import torch
    from torch import nn
    from torch.nn import functional as F

    embedding = nn.Embedding(WORDS, UNITS)
    rnn = nn.RNN(UNITS, UNITS, nonlinearity="relu", bias=False)
    output = nn.Linear(UNITS, WORDS, bias=False)
    parameters = [p for part in (embedding, rnn, output) for p in part.parameters()]
    adam = torch.optim.Adam(parameters, fused=True)

    def update() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            x, _ = rnn(embedding(text[:-1]))
            logits = output(F.dropout(x, 0.5))
        nll = F.cross_entropy(logits.float().flatten(0, 1), text[1:].reshape(-1))
        nll.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        adam.step()
        adam.zero_grad(set_to_none=True)

    return update


if __name__ == "__main__":
    if sys.argv[1:]:
        print(measure(sys.argv[1]))
    else:
        main()
