"""FRAGE: word vectors that do not tell how frequent their words are (Gong et al. 2018).

A discriminator f reads a word vector and says how probable it is that the word is frequent. The
vocabulary is split by the counts of the training text into frequent words P and all others, U:

    CE = -mean_{w in P} log f(E_w) - mean_{w in U} log(1 - f(E_w))
    f(e) = sigmoid(u' relu(W e + b) + d)

    the model:            loss - weight * CE, with f frozen
    then the discriminator: f -= rate * gradient of CE, with E frozen

after every update. With tied word vectors the output matrix has the gradient too. Evaluation knows
nothing of f.

The idea is in the paper's abstract. From memory: the formula, weight = 0.1, the most frequent 20 %
of the vocabulary, one hidden layer as wide as a word vector. Not known: the discriminator's
optimizer and rate (here gradient descent at 0.1), its activation, the words of a step (here all, so
that nothing is drawn), the epoch in which it starts (here the first), and the dropout rates that
the paper changed (those of the base are kept).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import LanguageModel, Pass, Regularizer, TrainingText, register, setting
from ablate.lm.model.fast.precision import full
from ablate.lm.model.projection import Projection

FREQUENT, RATE = 0.2, 0.1  # where the config has none


@dataclass(frozen=True, kw_only=True)
class FrageConfig:
    """The weight of the discriminator's loss, and the discriminator. 0 is the identity."""

    weight: float = setting(0.0, doc="weight of the discriminator's cross entropy", low=0)
    frequent: float | None = setting(
        None, doc=f"share of the vocabulary that is frequent; none: {FREQUENT}", low=0, high=1
    )
    units: int | None = setting(
        None, doc="hidden units of the discriminator; none: as many as a word vector has", low=1
    )
    rate: float | None = setting(
        None, doc=f"learning rate of the discriminator; none: {RATE}", low=0
    )


def frequent_words(counts_V: Tensor, share: float) -> Tensor:
    """Whether each word is among the most frequent; some are, and some are not. Of equally frequent
    words those with smaller numbers come first."""
    # Neither group may be empty, since CE takes the mean of each.
    number = min(max(round(share * len(counts_V)), 1), len(counts_V) - 1)
    order_V = counts_V.argsort(descending=True, stable=True)
    return torch.zeros_like(counts_V, dtype=torch.bool).scatter(0, order_V[:number], True)


def cross_entropy(scores_V: Tensor, frequent_V: Tensor) -> Tensor:
    """CE, from the discriminator's scores before its sigmoid."""
    num_frequent = frequent_V.sum()
    weight_V = torch.where(frequent_V, 1 / num_frequent, 1 / (len(frequent_V) - num_frequent))
    scores_V = full(scores_V)
    return F.binary_cross_entropy_with_logits(
        scores_V, frequent_V.to(scores_V.dtype), weight_V.to(scores_V.dtype), reduction="sum"
    )


@final
class Discriminator(nn.Module):
    """The score of every word, before the sigmoid. The model's optimizer leaves it alone."""

    def __init__(self, width: int, units: int, frequent_V: Tensor | None) -> None:
        super().__init__()
        self.hidden = Projection(width, units, bias=True)
        self.score = Projection(units, 1, bias=True)
        self.register_buffer("frequent_V", frequent_V, persistent=False)
        self.requires_grad_(False)

    def forward(self, E_VE: Tensor) -> Tensor:
        """Return the score of every word, [V]."""
        return self.score(self.hidden(E_VE).relu()).squeeze(1)

    def loss(self, E_VE: Tensor) -> Tensor:
        """Return the loss of telling frequent words from rare ones by their vectors."""
        return cross_entropy(self(E_VE), self.frequent_V)  # type: ignore[arg-type]

    def step(self, E_VE: Tensor, rate: float) -> None:
        """One step of gradient descent."""
        parameters = list(self.requires_grad_(True).parameters())
        gradients = torch.autograd.grad(self.loss(E_VE.detach()), parameters)
        self.requires_grad_(False)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.sub_(gradient, alpha=rate)


@register(
    "regularizer",
    "frage",
    config=FrageConfig,
    version=2,  # in version 1 the discriminator kept its first weights
    paper="gong2018frage",
    equation="from memory of the paper",
    departures=(
        "the formula and its constants are from memory; the discriminator's optimizer, rate and "
        "activation are ours",
        "a step of the discriminator is on the whole vocabulary, while the paper's, as we remember "
        "it, is on sampled words",
    ),
)
@final
class Frage(Regularizer):
    """A penalty from a discriminator, which learns after every update of the model."""

    def __init__(self, config: FrageConfig) -> None:
        self.config = config
        self.discriminator: Discriminator | None = None

    def auxiliary(self, model: LanguageModel, text: TrainingText | None) -> nn.Module | None:
        if self.config.weight == 0:
            return None
        share = FREQUENT if self.config.frequent is None else self.config.frequent
        frequent_V = None
        if text is not None:
            frequent_V = frequent_words(text.counts(), share).to(model.device)
        width = model.shapes.embedding
        self.discriminator = Discriminator(width, self.config.units or width, frequent_V)
        return self.discriminator

    def operations(self, model: LanguageModel, tokens: int, passes: int) -> float:
        """Of all words at once: the penalty, whose gradient is that of word vectors alone, and the
        discriminator's step, whose gradient is not that of word vectors."""
        if self.discriminator is None:
            return 0
        own = self.discriminator
        hidden, score = 2 * own.hidden.weight.numel(), 2 * own.score.weight.numel()
        penalty, step = 2 * (hidden + score), 2 * hidden + 3 * score
        return model.shapes.vocabulary * (passes * penalty + step) / tokens

    def penalty(self, passed: Pass, model: LanguageModel) -> Tensor | None:
        if self.discriminator is None:
            return None
        return -self.config.weight * self.discriminator.loss(model.embedding.matrix())

    def project(self, model: LanguageModel) -> None:
        if self.discriminator is not None:
            rate = RATE if self.config.rate is None else self.config.rate
            self.discriminator.step(model.embedding.matrix(), rate)
