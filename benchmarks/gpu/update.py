"""One training update of a model of ours, and of AWD-LSTM-DOC in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.model.assemble import assemble
from ablate.model.fast.precision import products_in
from ablate.model.language_model import LanguageModel
from ablate.model.masks import Chance, Masks
from benchmarks.opponents.awd import AwdLstm, Rates, name_in_ablate

Update = Callable[[], Tensor]  # it returns the loss of a token
CLIP = 0.25
RATE = 1e-3  # of SGD; the losses of both sides must stay alike for as long as they are timed
# Takase et al. 2018, Table 2 for Penn Treebank; AR and TAR as in its code
RATES = Rates(
    words=0.1, input=0.4, hidden=0.225, output=0.4, latent=0.6, weights=0.5, ar=2.0, tar=1.0
)
EXPERTS = (15, 5, 0, 0)
SMALL = {  # Inan et al. 2017, the small model with tied vectors and the augmented loss (REAL)
    "corpus.name": "grammar",  # nothing is read of it: the text is made up
    "embedding.size": 200,
    "backbone": "lstm",
    "backbone.num_layers": 2,
    "backbone.units": 200,
    "head": "softmax",
    "head.tied": True,
    "head.bias": False,
    "loss": "augmented",
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    **{
        f"regularizer.variational_dropout.{site}": 0.2
        for site in ("input", "recurrent", "hidden", "output")
    },
}


def text_of(words: int, steps: int, rows: int, device: str) -> Tensor:
    """A made-up text by Zipf's law, with the word after the last."""
    share = 1 / torch.arange(1, words + 1, dtype=torch.float64, device=device)
    return torch.multinomial(share, (steps + 1) * rows, replacement=True).view(steps + 1, rows)


def ours(
    values: Mapping[str, Any],
    words: int,
    text_TB: Tensor,
    precision: str = "float32",
    seed: int = 1,
) -> tuple[LanguageModel, Update]:
    """A model, and an update of it on always the same text: forward, backward, clip, step."""
    device = text_TB.device.type
    config = resolve(values)
    assembly, streams = assemble(config, words, device), Streams(seed, device)
    model = assembly.model
    model.initialize(streams)
    optimizer = config["optimizer"].make(model)
    state, updates = model.initial_state(text_TB.shape[1]), iter(range(10**9))
    inputs, targets = text_TB[:-1], text_TB[1:].reshape(-1)

    def update() -> Tensor:
        chance = Chance(streams, next(updates))
        with products_in(precision, device):
            passed = model(inputs, state, Masks(assembly.regularizers, chance))
            words_VE = model.words_for(assembly.loss)
            nll = assembly.loss(passed, targets, words_VE, chance) / len(targets)
            penalties = (r.penalty(passed, model) for r in assembly.regularizers)
            total = sum((penalty for penalty in penalties if penalty is not None), nll)
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step(RATE)  # of the config's rate
        model.zero_grad(set_to_none=True)
        return nll.detach()

    return model, update


def doc_sides(
    size: int, units: tuple[int, ...], words: int, text_TB: Tensor, precision: str, rates: Rates
) -> tuple[Update, Update]:
    """AWD-LSTM-DOC, ours and in plain torch, from the same weights."""
    model, update = ours(_doc_values(size, units, rates), words, text_TB, precision)
    device = text_TB.device.type
    with torch.device(device):
        other = AwdLstm(words, size, units, rates, EXPERTS)
        state = other.initial_state(text_TB.shape[1])
    weights = model.state_dict()
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            parameter.copy_(weights[name_in_ablate(name)])
    sgd = torch.optim.SGD(other.parameters(), lr=RATE)

    def theirs() -> Tensor:
        with products_in(precision, device):
            total, nll, _ = other.loss(text_TB[:-1], text_TB[1:], state)
        total.backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), CLIP)
        sgd.step()
        sgd.zero_grad(set_to_none=True)
        return nll

    return update, theirs


def _doc_values(size: int, units: tuple[int, ...], rates: Rates) -> dict[str, Any]:
    dropout = "regularizer.variational_dropout"
    values = {
        "corpus.name": "grammar",  # nothing is read of it: the text is made up
        "embedding.size": size,
        "backbone": "lstm",
        "backbone.num_layers": len(units),
        "backbone.units": units,
        "head": "doc",
        "head.tied": True,
        "head.experts": EXPERTS,
        "optimizer": "sgd",
        "optimizer.learning_rate": 1.0,
        "regularizer.embedding_dropout.rate": rates.words,
        f"{dropout}.input": rates.input,
        f"{dropout}.hidden": rates.hidden,
        f"{dropout}.output": rates.output,
        f"{dropout}.latent": rates.latent,
        "regularizer.weight_drop.rate": rates.weights,
        "regularizer.activation_regularization.alpha": rates.ar,
        "regularizer.temporal_activation_regularization.beta": rates.tar,
    }
    return {name: value for name, value in values.items() if value != 0.0}
