"""From a config to a language model with its loss and regularizers; refuses what makes no sense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ablate import registry
from ablate.components.flow import Shapes, TrainingText
from ablate.components.loss import Loss
from ablate.components.regularizer import Regularizer
from ablate.config import Choice, Config
from ablate.ensemble import Together
from ablate.errors import CombinationError
from ablate.model import Embedding, LanguageModel, num_parameters


@dataclass(frozen=True)
class Assembly:
    """What a training loop needs of the techniques, apart from the optimizer."""

    model: LanguageModel
    loss: Loss
    regularizers: tuple[Regularizer, ...]


def assemble(
    config: Config, vocabulary: int, device: str = "cpu", text: TrainingText | None = None
) -> Assembly:
    """The config's model, uninitialised, on `device` ("meta" takes no memory).

    Without a text, what a technique wants to know of it is missing: enough to count parameters.
    """
    _check_gate(config)
    _check_batching(config)
    with torch.device(device):
        model = _model(config, vocabulary, text)
    assembly = _around(model, config, text)
    for regularizer in assembly.regularizers:
        regularizer.check(model)
    return assembly


def assemble_over(
    members: Sequence[LanguageModel],
    config: Config,
    device: str = "cpu",
    text: TrainingText | None = None,
) -> Assembly:
    """The config's gate over the mean of finished models, which stay as they are."""
    _check_gate(config)
    _check_batching(config)
    widths = [member.shapes for member in members]
    shapes = Shapes(
        vocabulary=widths[0].vocabulary,
        embedding=sum(each.embedding for each in widths),
        layers=(sum(each.layers[-1] for each in widths),),
        output=sum(each.output for each in widths),
        separators=widths[0].separators,
    )
    with torch.device(device):
        gate = _made(config["gate"], shapes)
    return _around(Together(members, gate, shapes), config, text)


def count_parameters(config: Config, vocabulary: int) -> int:
    """How many parameters the config's model has; builds it without memory."""
    return num_parameters(assemble(config, vocabulary, "meta").model)


def _around(model: LanguageModel, config: Config, text: TrainingText | None) -> Assembly:
    chosen = config.listed.get("regularizer", ())
    regularizers = tuple(registry.make(c.slot, c.name, c.config) for c in chosen)
    loss = registry.make("loss", config["loss"].name, config["loss"].config, text)
    return Assembly(model, loss, regularizers)


def _check_gate(config: Config) -> None:
    if config.training.only_gate and config["gate"].name == "none":
        gates = ", ".join(name for name in registry.names("gate") if name != "none")
        raise CombinationError(
            "training.only_gate = true trains the gate alone, and gate = 'none'. Allowed: a gate "
            f"({gates}), or training.only_gate = false."
        )


def _check_batching(config: Config) -> None:
    training = config.training
    if training.batching == "zaremba" and training.variable_window:
        raise CombinationError(
            "training.batching = 'zaremba' trains on whole windows of training.window steps, and "
            "training.variable_window = true draws their lengths. Allowed: one of the two."
        )


def _model(config: Config, vocabulary: int, text: TrainingText | None) -> LanguageModel:
    size = config.embedding.size
    separators = () if text is None else text.separators
    shapes = Shapes(vocabulary=vocabulary, embedding=size, separators=separators)
    backbone = _made(config["backbone"], shapes)
    shapes = replace(shapes, layers=backbone.widths, output=backbone.widths[-1])
    bridge = _made(config["bridge"], shapes)
    shapes = replace(shapes, output=bridge.width)
    embedding = Embedding(vocabulary, size, config.embedding.initial_range)
    head, gate = _made(config["head"], shapes), _made(config["gate"], shapes)
    return LanguageModel(embedding, backbone, bridge, head, gate, shapes)


def _made(choice: Choice, shapes: Shapes):
    return registry.make(choice.slot, choice.name, choice.config, shapes)
