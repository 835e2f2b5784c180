"""Trainings whose updates are timed: of ours, and of AWD-LSTM-DOC in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.lm.model.assemble import assemble
from ablate.lm.model.fast.precision import products_in
from ablate.lm.model.masks import Chance, Masks
from benchmarks.opponents.awd import AwdLstm, Rates, name_in_ablate

CLIP = 0.25
RATE = 1e-3  # of SGD
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


@dataclass(frozen=True)
class Training:
    """A model on always the same text. `loss` gives what is minimized, and the loss of a token."""

    model: nn.Module
    loss: Callable[[], tuple[Tensor, Tensor]]
    step: Callable[[], None]

    def update(self) -> Tensor:
        """Forward, backward, clip, step; the loss of a token before it."""
        total, nll = self.loss()
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.step()
        self.model.zero_grad(set_to_none=True)
        return nll.detach()

    def gradient(self, names: Sequence[str]) -> tuple[Tensor, Tensor]:
        """The loss of a token, and the gradient of all parameters as one vector.

        Single ones may be small sums of large terms: the priors' is, in half precision.
        """
        total, nll = self.loss()
        of = [self.model.get_parameter(name) for name in names]
        return nll.detach(), torch.cat([g.flatten() for g in torch.autograd.grad(total, of)])


def ours(
    values: Mapping[str, Any],
    words: int,
    text_TB: Tensor,
    precision: str = "float32",
    seed: int = 1,
) -> Training:
    """A training of ours."""
    device = text_TB.device.type
    config = resolve(values)
    assembly, streams = assemble(config, words, device), Streams(seed, device)
    model = assembly.model
    model.initialize(streams)
    optimizer = config["optimizer"].make(model)
    state, updates = model.initial_state(text_TB.shape[1]), iter(range(10**9))
    inputs, targets = text_TB[:-1], text_TB[1:].reshape(-1)

    def loss() -> tuple[Tensor, Tensor]:
        chance = Chance(streams, next(updates))
        with products_in(precision, device):
            passed = model(inputs, state, Masks(assembly.regularizers, chance))
            words_VE = model.words_for(assembly.loss)
            nll = assembly.loss(passed, targets, words_VE, chance) / len(targets)
            penalties = (r.penalty(passed, model) for r in assembly.regularizers)
            return sum((penalty for penalty in penalties if penalty is not None), nll), nll

    return Training(model, loss, lambda: optimizer.step(RATE))  # of the config's rate


def doc(
    size: int, units: tuple[int, ...], words: int, text_TB: Tensor, precision: str, rates: Rates
) -> tuple[Training, Training]:
    """AWD-LSTM-DOC, ours and in plain torch, from the same weights."""
    mine = ours(_doc_values(size, units, rates), words, text_TB, precision)
    device = text_TB.device.type
    with torch.device(device):
        other = AwdLstm(words, size, units, rates, EXPERTS)
        state = other.initial_state(text_TB.shape[1])
    weights = mine.model.state_dict()
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            parameter.copy_(weights[name_in_ablate(name)])

    def loss() -> tuple[Tensor, Tensor]:
        with products_in(precision, device):
            return other.loss(text_TB[:-1], text_TB[1:], state)[:2]

    return mine, Training(other, loss, torch.optim.SGD(other.parameters(), lr=RATE).step)


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
