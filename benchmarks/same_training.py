"""Checks that both sides of a whole study train alike, before their seconds are compared.

Without masks a training has nothing random in it but its start. So both sides start from the same
weights, and take the same updates: their losses must agree one by one, in every arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from ablate.config.identity import make_trial
from ablate.config.merge import merge
from ablate.config.resolve import resolve
from ablate.lm.data.corpus import corpus_digest
from ablate.lm.training.training import Training
from ablate.store.store import Store
from ablate.trial.task import Place
from benchmarks.measure import agree
from benchmarks.opponents.awd import AwdLstm, Rates, name_in_ablate
from benchmarks.opponents.language_model import read, rows_of, updates

UPDATES = 6
CLOSE = 1e-3  # of a loss: theirs adds 1e-8 to every probability


def train_alike(setting: dict[str, Any], arms: Sequence[str], corpus: str, folder: Path) -> None:
    """End the benchmark if an arm's losses differ."""
    still = {**setting, "rates": dict.fromkeys(setting["rates"], 0.0)}
    for arm in arms:
        ours = _ours(still, arm, corpus, folder)
        theirs = _theirs(still, arm, ours)
        agree(_losses(ours), _their_losses(still, theirs), f"arm {arm}: losses", CLOSE)


def _ours(setting: dict[str, Any], arm: str, corpus: str, folder: Path) -> Training:
    values = merge(values_of(setting), {"corpus.name": corpus, "head.experts": _experts(arm)})
    config, data = resolve(values), str(folder / "data")
    digest = corpus_digest(config.corpus, data)
    trial = make_trial(config, values=values, seed=1, corpus_digest=digest)
    return Training(trial, Place(store=Store(str(folder / "store")), data=data))


def _theirs(setting: dict[str, Any], arm: str, ours: Training) -> AwdLstm:
    """Return their model with our initial weights."""
    weights, experts = ours.model.state_dict(), _experts(arm)
    vocabulary, size = weights["embedding.weight"].shape
    model = AwdLstm(vocabulary, size, tuple(setting["units"]), Rates(), experts)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name_in_ablate(name)])
    return model


def _losses(ours: Training) -> list[float]:
    """Return the nats per token of each update."""
    result, before = [], 0.0
    for window in ours.reader.windows[:UPDATES]:
        ours.advance(0.0)  # one window
        after = ours.nll_sum.item()
        result.append((after - before) / (window.length * ours.reader.train_rows.shape[1]))
        before = after
    return result


def _their_losses(setting: dict[str, Any], model: AwdLstm) -> list[float]:
    lengths = (setting["train_tokens"], setting["eval_tokens"])
    (stream, *_), _ = read(tuple(setting["paths"]), *lengths)
    optimizer = torch.optim.Adam(model.parameters(), lr=setting["learning_rate"])
    rows = rows_of(stream, setting["batch_size"])
    return [nll for nll, _ in islice(updates(model, optimizer, rows, setting), UPDATES)]


def _experts(arm: str) -> tuple[int, ...]:
    return tuple(map(int, arm.split(",")))


def values_of(setting: dict[str, Any]) -> dict[str, Any]:
    """Return a setting of both sides as values of ablate."""
    rates = setting["rates"]
    dropout = "regularizer.variational_dropout"
    return {
        "corpus.train_tokens": setting["train_tokens"],
        "corpus.eval_tokens": setting["eval_tokens"],
        "embedding.size": setting["size"],
        "embedding.initial_range": setting["embedding_range"],
        "backbone": "lstm",
        "backbone.num_layers": len(setting["units"]),
        "backbone.units": tuple(setting["units"]),
        "backbone.initial_range": setting["lstm_range"],
        "head": "doc",
        "head.tied": True,
        "optimizer": "adam",
        "optimizer.learning_rate": setting["learning_rate"],
        "training.epochs": setting["epochs"],
        "training.batch_size": setting["batch_size"],
        "training.window": setting["window"],
        "training.clip": setting["clip"],
        "regularizer.embedding_dropout.rate": rates["words"],
        f"{dropout}.input": rates["input"],
        f"{dropout}.hidden": rates["hidden"],
        f"{dropout}.output": rates["output"],
        f"{dropout}.latent": rates["latent"],
        "regularizer.weight_drop.rate": rates["weights"],
        "regularizer.activation_regularization.alpha": rates["ar"],
        "regularizer.temporal_activation_regularization.beta": rates["tar"],
    }
