"""The learning curves that `benchmarks/search.py` replays searches on, recorded once.

    python -m benchmarks.search_curves --data .ablate/lm/data     half an hour on one core

A small LSTM on the first tokens of the Penn Treebank (words that all of it has fewer than 80 times
are `<unk>`), trained by `ablate`'s own loop in every combination of LEVELS, one seed each.
`search_curves.csv` has a line a configuration: its settings, its updates an epoch, and validation's
loss after every epoch (as far as it got: one that diverges has fewer). A line is written when its
configuration is done, so the same command resumes where it was stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ablate.lm.training.training import Training


HERE = Path(__file__).parent
TABLE = HERE / "search_curves.csv"
SPACE = HERE / "search_space.toml"
EPOCHS = 9
SLICE = {
    "corpus.name": "ptb",
    "corpus.train_tokens": 30_000,
    "corpus.eval_tokens": 6_000,
    "corpus.min_count": 80,
}
MODEL = {
    "embedding.size": 40,
    "embedding.initial_range": 0.3,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 40,
    "head": "softmax",
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "optimizer.flat_epochs": 4,
    "training.epochs": EPOCHS,
    "training.window": 25,
    "training.clip": 1.0,
}
LEVELS: Mapping[str, tuple[Any, ...]] = {
    "optimizer.learning_rate": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0),
    "optimizer.decay": (1.0, 1.5),
    "training.batch_size": (10, 20, 40),
    "regularizer.dropout.output": (0.0, 0.25, 0.5),
    "backbone.num_layers": (1, 2),
}
Cell = tuple[Any, ...]  # a level of each of LEVELS


@dataclass(frozen=True)
class Curve:
    """The results of training a configuration."""

    updates: int  # an epoch
    losses: tuple[float, ...]  # on validation, after each epoch
    seconds: float = 0.0  # of the processor, in all

    @property
    def diverged(self) -> bool:
        return len(self.losses) < EPOCHS


class Table:
    """Read the recorded curves, by settings."""

    def __init__(self, curves: Mapping[Cell, Curve]) -> None:
        self.curves = curves

    def curve(self, values: Mapping[str, Any]) -> Curve:
        return self.curves[tuple(values[field] for field in LEVELS)]


def read(path: Path = TABLE) -> Table:
    """Read the recorded part of the table."""
    return Table(_recorded(path))


def _recorded(path: Path) -> dict[Cell, Curve]:
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return dict(_parsed(row) for row in csv.DictReader(file))


def _parsed(row: Mapping[str, str]) -> tuple[Cell, Curve]:
    cell = tuple(type(levels[0])(row[field]) for field, levels in LEVELS.items())
    result = (row[f"valid_nll_{epoch}"] for epoch in range(1, EPOCHS + 1))
    losses = tuple(float(loss) for loss in result if loss)
    return cell, Curve(int(row["updates"]), losses, float(row["seconds"]))


def record(data: str, path: Path = TABLE) -> None:
    """Train what is not recorded yet."""
    fields = [*LEVELS, "updates", "seconds"]
    fields += [f"valid_nll_{epoch}" for epoch in range(1, EPOCHS + 1)]
    known = _recorded(path)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        if not known:
            writer.writeheader()
        for cell in _mixed():
            if cell not in known:
                writer.writerow(dict(zip(LEVELS, cell, strict=True)) | _trained(cell, data))
                file.flush()


def _mixed() -> list[Cell]:
    """Every combination, in an order that does not follow the levels; the lowest rate last."""
    cells = list(itertools.product(*LEVELS.values()))
    random.Random(1).shuffle(cells)
    return sorted(cells, key=lambda cell: cell[0] == min(LEVELS["optimizer.learning_rate"]))


def _trained(cell: Cell, data: str) -> dict[str, Any]:
    from ablate.trial.task import Diverged

    start = time.process_time()
    training = _training({**SLICE, **MODEL, **dict(zip(LEVELS, cell, strict=True))}, data)
    result: dict[str, Any] = {"updates": training.reader.num_updates}
    with contextlib.suppress(Diverged):
        while not training.finished:
            epoch = training.advance(math.inf) or {}
            result[f"valid_nll_{epoch['epoch']}"] = f"{epoch['valid_nll']:.6f}"
    return {**result, "seconds": round(time.process_time() - start, 2)}


def _training(values: Mapping[str, Any], data: str) -> Training:
    from ablate.config.identity import make_trial
    from ablate.config.resolve import resolve
    from ablate.lm.data.corpus import corpus_digest
    from ablate.lm.training.training import Training
    from ablate.store.store import Store
    from ablate.trial.task import Place

    config = resolve(values)
    digest = corpus_digest(config.corpus, data)
    trial = make_trial(config, values=values, seed=1, corpus_digest=digest)
    return Training(trial, Place(Store(data), data))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", default=".ablate/lm/data", help="the folder that has ptb")
    record(parser.parse_args().data)


if __name__ == "__main__":
    main()
