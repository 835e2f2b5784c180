"""Seeds of a small model as processes that share a device, against the same one after another.

    python -m benchmarks.gpu.seeds DEVICE SEED UPDATES      one of the processes

No form trains several seeds at once by one set of kernels yet. So this is what a study does with
`gpus = 1/8`, and no more. The time in which the processes start is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.gpu.table import Compared

READY = "ready\n"
ROOT = Path(__file__).parents[2]
WORDS, STEPS, ROWS, WARM_UP = 10_000, 35, 20, 3


def compared(device: str, num_seeds: int, updates: int) -> Compared:
    """Compare the throughput at the same time with that of one after another."""
    with ExitStack() as stack:
        workers = [_started(stack, device, seed, updates) for seed in range(num_seeds)]
        for worker in workers:
            _wait(worker)
        alone = [_seconds(workers[:1]) for _ in range(2)][-1]
        together = _seconds(workers)
    ratio, tokens = num_seeds * alone / together, STEPS * ROWS * updates
    rates = {"alone": tokens / alone, "together": num_seeds * tokens / together}
    return Compared(
        numbers={"seeds": num_seeds, "times_the_throughput": ratio, "tokens_a_second": rates},
        notes=(
            f"{num_seeds} processes at the same time have {ratio:.2f} times the throughput of one",
            "there is no fused form yet, which is to reach 5",
            f"{rates['alone']:,.0f} and {rates['together']:,.0f} tokens a second",
        ),
    )


def _started(stack: ExitStack, device: str, seed: int, updates: int) -> subprocess.Popen:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    worker = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.gpu.seeds", device, str(seed), str(updates)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    stack.callback(worker.communicate)
    stack.callback(worker.kill)
    return worker


def _seconds(workers: Sequence[subprocess.Popen]) -> float:
    """How long all take for their updates, begun at the same time."""
    start = time.perf_counter()
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        _wait(worker)
    return time.perf_counter() - start


def _wait(worker: subprocess.Popen) -> None:
    if worker.stdout.readline() != READY:
        raise ChildProcessError("a seed's process failed; what it said is above")


def work(device: str, seed: int, updates: int) -> None:
    """Make so many updates for every line that comes in."""
    import torch

    from benchmarks.gpu import update

    torch.backends.cudnn.allow_tf32 = False  # as elsewhere in the table
    torch.manual_seed(seed)
    text = update.text_of(WORDS, STEPS, ROWS, device)
    make = update.ours(update.SMALL, WORDS, text, seed=seed).update
    for _ in range(WARM_UP):
        make()
    for _ in _said(device):
        for _ in range(updates):
            make()


def _said(device: str):
    """Say that all is done, and yield when there is more to do."""
    import torch

    while True:
        if device != "cpu":
            torch.cuda.synchronize()
        sys.stdout.write(READY)
        sys.stdout.flush()
        if not sys.stdin.readline():
            return
        yield


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
