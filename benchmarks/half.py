"""Training steps in half precision, ours and plain torch's, with and without huge pages.

    python -m benchmarks.half

20 rows of 35 steps, 10,000 words, Adam; products in bfloat16 by autocast. `rnn` is 001's, of 512
units with one softmax. `mixture` is a third of DOC's MoS: an LSTM of 207 units and 15 softmaxes of
width 93; plain torch's is written as Yang et al. write it. Each figure is the median of a process
of its own on one thread, as torch asks once whether to use huge pages; the processes run in turn,
several times.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

PAGES = "THP_MEM_ALLOC_ENABLE"
WORDS, ROWS, STEPS = 10_000, 20, 35
UNITS = 512  # of `rnn`
WIDTH, HIDDEN, EXPERTS = 93, 207, 15  # of `mixture`
ROUNDS, UPDATES = 4, 15
COMMON = {
    "corpus.name": "grammar",  # nothing is read of it: the text is made up
    "optimizer": "adam",
}
VALUES = {
    "rnn": {
        **COMMON,
        "embedding.size": UNITS,
        "backbone": "elman",
        "backbone.activation": "relu",
        "backbone.inputs": "embedding",
        "backbone.units": UNITS,
        "head": "softmax",
        "head.bias": False,
        "head.tied": False,
        "regularizer.dropout.output": 0.5,
    },
    "mixture": {
        **COMMON,
        "embedding.size": WIDTH,
        "backbone": "lstm",
        "backbone.num_layers": 1,
        "backbone.units": HIDDEN,
        "head": "mos",
        "head.experts": EXPERTS,
        "head.tied": True,
    },
}


def main() -> None:
    print("| ms of an update | small pages | huge pages | |\n|---|---:|---:|---:|")
    for model in VALUES:
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(ROUNDS):
            for side in ("ours", "theirs"):
                for pages in ("0", "1"):
                    times.setdefault((side, pages), []).append(_measured(model, side, pages))
        for side, name in (("ours", "ablate"), ("theirs", "plain torch")):
            small, huge = (statistics.median(times[side, pages]) for pages in ("0", "1"))
            figures = f"{1e3 * small:.0f} | {1e3 * huge:.0f} | {small / huge:.2f}"
            print(f"| {model}, {name} | {figures} |", flush=True)


def _measured(model: str, side: str, pages: str) -> float:
    """Seconds of an update in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.half", model, side]
    environment = {**os.environ, PAGES: pages, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def measure(model: str, side: str) -> float:
    """The median thread time of an update."""
    import time

    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    text = torch.randint(WORDS, (STEPS + 1, ROWS))
    update = _ours(model, text) if side == "ours" else _theirs(model, text)
    seconds = []
    for _ in range(UPDATES):
        start = time.thread_time()
        update()
        seconds.append(time.thread_time() - start)
    return statistics.median(seconds[3:])


def _ours(name: str, text: Any) -> Callable[[], None]:
    import torch

    from ablate.config.resolve import resolve
    from ablate.config.streams import Streams
    from ablate.lm.model.assemble import assemble
    from ablate.lm.model.fast.precision import products_in
    from ablate.lm.model.masks import Chance, Masks

    config = resolve(VALUES[name])
    assembly = assemble(config, WORDS)
    model, streams, updates = assembly.model, Streams(1), iter(range(UPDATES))
    model.initialize(streams)
    optimizer = config["optimizer"].make(model)
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


def _theirs(name: str, text: Any) -> Callable[[], None]:
    import torch
    from torch import nn

    parameters, loss = (_their_rnn if name == "rnn" else _their_mixture)(text)
    adam = torch.optim.Adam(parameters, fused=True)

    def update() -> None:
        loss().backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        adam.step()
        adam.zero_grad(set_to_none=True)

    return update


def _their_rnn(text: Any) -> tuple[list[Any], Callable[[], Any]]:
    import torch
    from torch import nn
    from torch.nn import functional as F

    embedding = nn.Embedding(WORDS, UNITS)
    rnn = nn.RNN(UNITS, UNITS, nonlinearity="relu", bias=False)
    output = nn.Linear(UNITS, WORDS, bias=False)

    def loss() -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            x, _ = rnn(embedding(text[:-1]))
            logits = output(F.dropout(x, 0.5))
        return F.cross_entropy(logits.float().flatten(0, 1), text[1:].reshape(-1))

    return _parameters(embedding, rnn, output), loss


def _their_mixture(text: Any) -> tuple[list[Any], Callable[[], Any]]:
    import torch
    from torch import nn
    from torch.nn import functional as F

    embedding, lstm = nn.Embedding(WORDS, WIDTH), nn.LSTM(WIDTH, HIDDEN)
    latent, prior = nn.Linear(HIDDEN, EXPERTS * WIDTH), nn.Linear(HIDDEN, EXPERTS, bias=False)
    output = nn.Linear(WIDTH, WORDS)
    output.weight = embedding.weight

    def loss() -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            x, _ = lstm(embedding(text[:-1]))
            x = x.flatten(0, 1)
            logits = output(torch.tanh(latent(x)).view(-1, WIDTH))
            weights = F.softmax(prior(x).float(), -1)
        p = F.softmax(logits.float(), -1).view(-1, EXPERTS, WORDS)
        mixed = (p * weights[:, :, None]).sum(1)
        return F.nll_loss(mixed.add(1e-8).log(), text[1:].reshape(-1))

    return _parameters(embedding, lstm, latent, prior, output), loss


def _parameters(*modules: Any) -> list[Any]:
    return list(dict.fromkeys(p for module in modules for p in module.parameters()))


if __name__ == "__main__":
    if sys.argv[1:]:
        print(measure(*sys.argv[1:]))
    else:
        main()
