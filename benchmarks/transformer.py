"""A training step of a small GPT: ours against plain torch, and against plain torch compiled."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.lm.model.assemble import assemble
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.mixture import summed_nll
from benchmarks.measure import Figure, agree, race, weigh
from benchmarks.opponents.transformer import Gpt

WORDS, STEPS, ROWS = 10_000, 128, 8
UNITS, HEADS, LAYERS = 256, 4, 4


def step(full: bool) -> list[Figure]:
    """Time 8 rows of 128 steps: forward, backward and a step of AdamW."""
    mine, other = models()
    tokens = torch.randint(WORDS, (STEPS + 1, ROWS))
    ours, theirs = ours_of(mine, tokens), theirs_of(other, other, tokens)
    agree(ours(), theirs(), "GPT step: the loss before an update")
    agree(ours(), theirs(), "GPT step: the loss after one")
    name = f"GPT step, {LAYERS} layers of {UNITS} units, {ROWS} rows of {STEPS}"
    seconds = 60 if full else 6
    figures = [race(f"{name}: time", ours, theirs, sense="faster", limit=1.0, seconds=seconds)]
    figures.append(weigh(f"{name}: extra memory", ours, theirs, limit=1.0))
    compiled = theirs_of(torch.compile(other), other, tokens)
    compiled()  # compiling takes half a minute
    what = f"{name}: time, theirs compiled"
    return [*figures, race(what, ours, compiled, sense="faster", limit=1.0, seconds=seconds)]


def ours_of(model: LanguageModel, tokens: Tensor) -> Callable[[], Tensor]:
    """A step of our model; it returns the loss."""
    targets = tokens[1:].flatten()

    def loss() -> Tensor:
        return summed_nll(model(tokens[:-1], ()).mixture, targets) / len(targets)

    return _stepping(model, loss)


def theirs_of(forward: Callable[..., Tensor], model: nn.Module, tokens: Tensor) -> Callable:
    """A step of theirs, whose rows come first."""
    rows = tokens.t().contiguous()
    return _stepping(model, lambda: forward(rows[:, :-1], rows[:, 1:]))


def _stepping(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], Tensor]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> Tensor:
        value = loss()
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return value.detach()

    return step


def models() -> tuple[LanguageModel, Gpt]:
    """Ours, and theirs with the same values."""
    values = {"backbone": "transformer", "backbone.units": UNITS, "backbone.heads": HEADS}
    values |= {"backbone.num_layers": LAYERS, "backbone.biases": True, "embedding.size": UNITS}
    values |= {"backbone.positions": "learned", "backbone.context": STEPS, "head": "softmax"}
    windows = {"training.window": STEPS, "training.valid_window": STEPS}
    windows |= {"evaluator.standard.window": STEPS}
    head = {"head.tied": True, "head.bias": False, "optimizer": "adamw"}
    mine = assemble(resolve({**values, **windows, **head}), WORDS).model
    mine.initialize(Streams(1))
    other = Gpt(WORDS, STEPS, UNITS, HEADS, LAYERS)
    other.load_state_dict(dict(_renamed(mine.state_dict())))
    return mine, other


def _renamed(ours: dict[str, Tensor]):
    """Yield their names, and our values."""
    yield "words.weight", ours["embedding.weight"].clone()
    yield "positions.weight", ours["backbone.positions"][:, 0].clone()
    for theirs, name in (("weight", "scale"), ("bias", "bias")):
        yield f"norm.{theirs}", ours[f"backbone.last.{name}"].clone()
        for layer in range(LAYERS):
            for number, part in enumerate(("attention", "feed_forward")):
                value = ours[f"backbone.blocks.{layer}.{part}_norm.{name}"]
                yield f"layers.{layer}.norms.{number}.{theirs}", value.clone()
    for theirs, end in (("weight", ""), ("bias", "_bias")):
        for layer in range(LAYERS):
            block = f"backbone.blocks.{layer}"
            three = [ours[f"{block}.attention.{name}{end}"] for name in ("query", "key", "value")]
            yield f"layers.{layer}.three.{theirs}", torch.cat(three)
            parts = {"added": "attention.out", "inner": "feed_forward.inner"}
            for name, own in {**parts, "out": "feed_forward.out"}.items():
                yield f"layers.{layer}.{name}.{theirs}", ours[f"{block}.{own}{end}"].clone()
