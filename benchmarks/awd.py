"""A training step of AWD-LSTM, and the evaluators over such a model, against plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ablate.config import registry
from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.lm.components.evaluator.cache import CacheConfig
from ablate.lm.components.evaluator.dynamic import DynamicConfig
from ablate.lm.model.assemble import assemble
from ablate.lm.model.evaluator import Reading
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.masks import Chance, Masks
from benchmarks.measure import Figure, agree, race, share_of_products, weigh
from benchmarks.opponents.awd import AwdLstm, Rates
from benchmarks.opponents.evaluation import cached, dynamic, mean_squares
from benchmarks.recurrences import short_window, steps

WORDS = 10_000
RATES = Rates(words=0.1, input=0.4, hidden=0.25, output=0.4, weights=0.5, ar=2.0, tar=1.0)
SIZES = {"laptop": (100, (200, 200, 100)), "paper": (400, (1150, 1150, 400))}


@dataclass
class Text:
    """Draw a text by Zipf's law, instead of a corpus."""

    splits: dict[str, Tensor]
    num_words: int = WORDS
    separators: tuple[int, ...] = ()
    eos: int | None = None
    vocabulary: tuple[str, ...] = ()

    def counts(self) -> Tensor:
        return torch.bincount(self.splits["train"], minlength=self.num_words)

    def stream(self, split: str) -> Tensor:
        return self.splits[split]


def step(full: bool) -> list[Figure]:
    """Time 20 rows of 70 steps: forward, backward, clip and an SGD step."""
    figures = []
    for scale, (size, units) in SIZES.items():
        plain = sides(size, units, Rates())
        agree(plain[0](), plain[1](), f"AWD step, {scale}: the loss without dropout")
        ours, theirs = sides(size, units, RATES)
        name, seconds = f"AWD-LSTM step, {scale} size {units}", 60 if full else 6
        time = race(f"{name}: time", ours, theirs, sense="faster", limit=1.2, seconds=seconds)
        memory = weigh(f"{name}: extra memory", ours, theirs, limit=1.0)
        figures += [time, memory, share_of_products(name, time, _products(size, units))]
    return figures


def evaluation(full: bool) -> list[Figure]:
    """Replace a trained model: both sides have the same random weights."""
    size, units = 200, (200, 200)
    model, other = _pair(size, units, Rates())
    text = _text()
    rounds = 9 if full else 2
    with_updates = _dynamic(model, other, text, rounds)
    return [with_updates, _short_window(size), *_cache(model, other, text, rounds)]


def _short_window(units: int) -> Figure:
    """Why the windows of dynamic evaluation are left to torch's layer: our steps, the first side,
    copy their matrices into the order in which they read them, and five steps do not repay that."""
    name = f"LSTM of {units} units, one row of five tokens, our steps"
    ours, theirs = steps(short_window(units), name)
    return race(name, ours, theirs, sense="faster", limit=None, seconds=0.5)


def _dynamic(model: LanguageModel, other: AwdLstm, text: Text, rounds: int) -> Figure:
    """Collect the gradient statistics of the training text once; this is not timed."""
    config = DynamicConfig(gradient_batch_size=20)
    evaluator = registry.get("evaluator", "dynamic").build(config)
    reading = Reading([model], text)
    rows = text.stream("train")[: 20 * (len(text.stream("train")) // 20)].view(20, -1).t()
    rms = mean_squares(other, rows, config.window)

    def ours() -> float:
        return -float(np.mean(evaluator.token_log_probs(reading, "valid")))

    def theirs() -> float:
        settings = (config.window, config.learning_rate, config.decay)
        return dynamic(other, text.stream("valid"), rms, *settings)

    agree(ours(), theirs(), "dynamic evaluation")
    name = "dynamic evaluation, 2,000 tokens"
    return race(name, ours, theirs, sense="faster", limit=1.5, rounds=rounds)


def _cache(model: LanguageModel, other: AwdLstm, text: Text, rounds: int) -> list[Figure]:
    """The limit applies to one-hot rows, which the public code uses."""
    config = CacheConfig(window=2000, start="growing")
    evaluator = registry.get("evaluator", "cache").build(config)

    def ours() -> float:
        return -float(np.mean(evaluator.token_log_probs(Reading([model], text), "test")))

    def theirs(one_hot: bool) -> float:
        settings = (config.window, config.theta, config.share)
        return cached(other, text.stream("test"), *settings, one_hot=one_hot)

    name, figures = "neural cache, window 2,000, 3,000 tokens", []
    for way, one_hot, limit, times in ((", index_add_", False, None, rounds), ("", True, 5.0, 2)):
        loop = partial(theirs, one_hot)
        agree(ours(), loop(), "neural cache")
        figures.append(race(name + way, ours, loop, sense="faster", limit=limit, rounds=times))
    return figures


def _text() -> Text:
    torch.manual_seed(2)
    share = 1 / torch.arange(1, WORDS + 1, dtype=torch.float64)
    lengths = {"train": 3000, "valid": 2001, "test": 3001}
    return Text({s: torch.multinomial(share, n, replacement=True) for s, n in lengths.items()})


def _values(size: int, units: tuple[int, ...], rates: Rates) -> dict[str, Any]:
    values = {
        "corpus.name": "grammar",  # nothing is read of it: the text is made up
        "embedding.size": size,
        "backbone": "lstm",
        "backbone.num_layers": len(units),
        "backbone.units": units,
        "head": "softmax",
        "head.tied": True,
        "optimizer": "sgd",
        "optimizer.learning_rate": 1.0,
        "regularizer.embedding_dropout.rate": rates.words,
        "regularizer.variational_dropout.input": rates.input,
        "regularizer.variational_dropout.hidden": rates.hidden,
        "regularizer.variational_dropout.output": rates.output,
        "regularizer.weight_drop.rate": rates.weights,
        "regularizer.activation_regularization.alpha": rates.ar,
        "regularizer.temporal_activation_regularization.beta": rates.tar,
    }
    return {name: value for name, value in values.items() if value != 0}


def _pair(size: int, units: tuple[int, ...], rates: Rates) -> tuple[LanguageModel, AwdLstm]:
    """Build two models with the same weights."""
    torch.manual_seed(1)
    model = assemble(resolve(_values(size, units, rates)), WORDS).model
    model.initialize(_streams())
    other = AwdLstm(WORDS, size, units, rates)
    with torch.no_grad():
        other.embedding.copy_(model.embedding.weight)
        for index, layer in enumerate(other.layers):
            for name, parameter in layer.lstm.named_parameters():
                mine = model.backbone.get_parameter(name.replace("_l0", f"_l{index}"))
                parameter.copy_(mine)
    return model, other


def _streams() -> Streams:
    return Streams(1, torch.get_default_device().type)


def sides(
    size: int, units: tuple[int, ...], rates: Rates
) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    config = resolve(_values(size, units, rates))
    assembly = assemble(config, WORDS)
    _, other = _pair(size, units, rates)
    model = assembly.model
    model.initialize(_streams())
    chosen = config["optimizer"]
    optimizer = chosen.make(model)
    sgd = torch.optim.SGD(other.parameters(), lr=1e-3)
    text = _text().stream("train")[: 71 * 20].view(71, 20)
    state, other_state = model.initial_state(20), other.initial_state(20)
    streams, updates = _streams(), iter(range(10**9))

    def ours() -> Tensor:
        chance = Chance(streams, next(updates))
        passed = model(text[:-1], state, Masks(assembly.regularizers, chance))
        targets = text[1:].reshape(-1)
        nll = assembly.loss(passed, targets, model.embedding.weight, chance) / len(targets)
        result = (r.penalty(passed, model) for r in assembly.regularizers)
        total = sum((penalty for penalty in result if penalty is not None), nll)
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step(1e-3)
        model.zero_grad(set_to_none=True)
        return nll.detach()

    def theirs() -> Tensor:
        total, nll, _ = other.loss(text[:-1], text[1:], other_state)
        total.backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), 0.25)
        sgd.step()
        sgd.zero_grad(set_to_none=True)
        return nll

    return ours, theirs


def _products(size: int, units: tuple[int, ...]) -> list[tuple[float, tuple[int, int, int]]]:
    """Count the multiplications of a step, forward and backward."""
    steps, tokens = 70, 70 * 20
    products: list[tuple[float, tuple[int, int, int]]] = [
        (1, shape) for shape in _three(tokens, units[-1], WORDS)
    ]
    for inputs, own in zip((size, *units), units, strict=False):
        products += [(1, shape) for shape in _three(tokens, inputs, 4 * own)]
        products += [(steps, (20, own, 4 * own)), (steps, (20, 4 * own, own))]
        products += [(1, (4 * own, tokens, own))]
    return products


def _three(rows: int, width: int, outputs: int) -> list[tuple[int, int, int]]:
    """Compute a product and its two gradients, that of the matrix last."""
    return [(rows, width, outputs), (rows, outputs, width), (outputs, rows, width)]
