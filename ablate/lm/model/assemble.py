"""Build a language model, its loss and its regularizers from a config; refuse bad combinations."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ablate.config import registry
from ablate.config.config import Config
from ablate.errors import CombinationError, MissingDependency, needs
from ablate.lm.kinds import TEXT
from ablate.lm.model.cap import check_cap
from ablate.lm.model.encoder_decoder import EncoderDecoder
from ablate.lm.model.ensemble import Together
from ablate.lm.model.flow import Shapes, TrainingText
from ablate.lm.model.growth import widened
from ablate.lm.model.language_model import Embedding, LanguageModel, num_parameters
from ablate.lm.model.loss import Loss
from ablate.lm.model.optimizer import Optimizer
from ablate.lm.model.regularizer import Regularizer
from ablate.lm.model.sites import check_sites
from ablate.lm.model.slots import Attention, Backbone
from ablate.lm.model.width import check_base_width, scale_by_width
from ablate.lm.model.windows import check_windows
from ablate.lm.sections import TrainingConfig


@dataclass(frozen=True)
class Assembly:
    """The techniques that a training loop needs, apart from the optimizer."""

    model: LanguageModel
    loss: Loss
    regularizers: tuple[Regularizer, ...]


def assemble(
    config: Config,
    vocabulary: int,
    device: str = "cpu",
    text: TrainingText | None = None,
    source_vocabulary: int = 0,
) -> Assembly:
    """Build the config's model, uninitialized, on `device` ("meta" takes no memory).

    Without a text, the model is only good for counting parameters. `source_vocabulary` is what an
    encoder reads.
    """
    _check_training(config)
    separators = () if text is None else text.separators
    shapes = Shapes(
        vocabulary=vocabulary,
        embedding=config.embedding.size,
        separators=separators,
        source_vocabulary=source_vocabulary,
    )
    assembly = _assembled(config, shapes, device, text)
    scale_by_width(assembly.model, config)
    return assembly


def _assembled(
    config: Config, shapes: Shapes, device: str, text: TrainingText | None = None
) -> Assembly:
    """A config's model over so many words, and what trains it."""
    with torch.device(device), _counting_bytes():
        model = _model(config, shapes)
    check_windows(config, model.backbone)
    if text is not None:
        model.embedding.read_text(text)
        model.backbone.read_text(text)
    assembly = _with_loss(model, config, text)
    for technique in (assembly.loss, *assembly.regularizers):
        technique.check(model)
    with torch.device(device):
        _add_auxiliary(assembly, config, text)

    def again(factor: int, further: int) -> LanguageModel:
        own = widened(config, factor)
        return _assembled(own, _resized(shapes, factor, further), "meta").model

    model.again = again
    return assembly


def _resized(shapes: Shapes, factor: int, further: int) -> Shapes:
    """The shapes at so many times the widths, with so many further words."""
    return replace(
        shapes,
        vocabulary=shapes.vocabulary + further,
        source_vocabulary=shapes.source_vocabulary + further,
        embedding=shapes.embedding * factor,
        layers=tuple(units * factor for units in shapes.layers),
        output=shapes.output * factor,
    )


def assemble_over(
    members: Sequence[LanguageModel],
    config: Config,
    device: str = "cpu",
    text: TrainingText | None = None,
) -> Assembly:
    """Build the config's gate over the mean of finished models, which are not changed."""
    _check_training(config)
    if config.kind.reads != TEXT:
        raise CombinationError(
            f"a gate over several finished models reads a text, and the task '{config.kind.name}' "
            "reads pairs of sentences. Instead: a gate over one model (a stage that trains it), or "
            "a stage that only evaluates the models together."
        )
    member_shapes = [member.shapes for member in members]
    shapes = Shapes(
        vocabulary=member_shapes[0].vocabulary,
        embedding=sum(s.embedding for s in member_shapes),
        layers=(sum(s.layers[-1] for s in member_shapes),),
        output=sum(s.output for s in member_shapes),
        separators=member_shapes[0].separators,
    )
    with torch.device(device):
        model = Together(members, config["gate"].make(shapes), shapes)

    def again(factor: int, further: int) -> LanguageModel:
        own, resized = widened(config, factor), _resized(shapes, factor, further)
        with torch.device("meta"):
            return Together(members, own["gate"].make(resized), resized)

    model.again = again
    return _with_loss(model, config, text)


def check_packages(config: Config) -> None:
    """Refuse, before anything trains, evaluators whose packages this host lacks."""
    for choice in config.listed.get("evaluator", ()):
        technique: Any = registry.get(choice.slot, choice.name).build
        for package in technique.packages:
            if importlib.util.find_spec(package) is None:
                raise MissingDependency(needs(f"evaluator '{choice.name}' needs", package))


def check_evaluators(config: Config, model: LanguageModel) -> None:
    """Refuse evaluators that have nothing to say of the model, or whose packages are missing."""
    check_packages(config)
    for choice in config.listed.get("evaluator", ()):
        choice.make().check(model)


def count_parameters(config: Config, vocabulary: int, source_vocabulary: int = 0) -> int:
    """The number of parameters of the config's model, which is built without memory, and which
    its evaluators do not refuse."""
    check_sites(config)
    model = assemble(config, vocabulary, "meta", source_vocabulary=source_vocabulary).model
    check_evaluators(config, model)
    return num_parameters(model)


@contextlib.contextmanager
def _counting_bytes() -> Iterator[None]:
    """Refuse a tensor that has more bytes than torch can count."""
    try:
        yield
    # torch's errors for a product of sizes, and for one size, that is too large.
    except (RuntimeError, TypeError) as error:
        if "overflow" not in str(error).lower():
            raise
        raise CombinationError(
            "the model is too large: one of its matrices would have more than 2**63 - 1 bytes, the "
            "most that a tensor can have. Instead: fewer units, experts or words."
        ) from error


def _with_loss(model: LanguageModel, config: Config, text: TrainingText | None) -> Assembly:
    chosen = config.listed.get("regularizer", ())
    regularizers = tuple(choice.make() for choice in chosen)
    loss = config["loss"].make(text)
    return Assembly(model, loss, regularizers)


def _add_auxiliary(assembly: Assembly, config: Config, text: TrainingText | None) -> None:
    """Add the regularizers' own modules to the model."""
    model, chosen = assembly.model, config.listed.get("regularizer", ())
    for choice, regularizer in zip(chosen, assembly.regularizers, strict=True):
        if (module := regularizer.auxiliary(model, text)) is not None:
            model.auxiliary[choice.name] = module


def _check_training(config: Config) -> None:
    training = config.training
    if training.only_gate and config["gate"].name == "none":
        gates = ", ".join(name for name in registry.names("gate") if name != "none")
        raise CombinationError(
            "training.only_gate = true trains only the gate, but gate = 'none'. Instead: a gate "
            f"({gates}), or training.only_gate = false."
        )
    check_base_width(config)
    check_cap(config)
    _check_averages(config)
    _check_output_rate(config)
    if isinstance(training, TrainingConfig):  # pairs of sentences have another section
        _check_reading(training)


def _check_output_rate(config: Config) -> None:
    """Refuse a rate of an output matrix where the head has none of its own."""
    rate = getattr(config["optimizer"].config, "output_learning_rate", None)
    if rate is not None and getattr(config["head"].config, "tied", False):
        raise CombinationError(
            f"optimizer.output_learning_rate = {rate:g} is of an output matrix, and a tied head "
            "has none of its own. Instead: head.tied = false, or leave output_learning_rate out."
        )


def _check_averages(config: Config) -> None:
    """Refuse two averages of the weights, of which only one can be evaluated."""
    optimizer: Any = config["optimizer"].technique.build
    own = optimizer.evaluated_weights is not Optimizer.evaluated_weights
    if own and config.training.averages:
        raise CombinationError(
            f"optimizer = '{config['optimizer'].name}' evaluates averages of its own, and "
            "training.average_after, average_by or average_decay ask for others. Instead: another "
            "optimizer, such as 'sgd', or leave these settings out."
        )


def _check_reading(training: TrainingConfig) -> None:
    """Refuse settings that contradict how the rows of the text are read."""
    if training.batching != "awd" and training.variable_window:
        raise CombinationError(
            f"training.batching = '{training.batching}' trains on windows of exactly "
            "training.window steps, and training.variable_window = true draws their lengths. "
            "Instead: only one of the two."
        )
    if training.batching == "circular" and training.partial_shuffle:
        raise CombinationError(
            "training.batching = 'circular' gives every row the whole text in its order, and "
            "training.partial_shuffle = true rotates rows in every epoch. Instead: only one of "
            "the two."
        )
    if training.batching != "circular" and training.updates_per_epoch is not None:
        raise CombinationError(
            f"training.updates_per_epoch = {training.updates_per_epoch} ends an epoch within the "
            f"text, and with training.batching = '{training.batching}' an epoch is a whole pass. "
            "Instead: training.batching = 'circular', or leave updates_per_epoch out."
        )


def _model(config: Config, shapes: Shapes) -> LanguageModel:
    if "encoder" in config.slots:
        return _encoder_decoder(config, shapes)
    backbone = config["backbone"].make(shapes)
    shapes = replace(shapes, layers=backbone.widths)
    return LanguageModel(**_parts(config, shapes), backbone=backbone)


def _encoder_decoder(config: Config, shapes: Shapes) -> EncoderDecoder:
    if config.by_window:
        raise CombinationError(
            f"backbone '{config['backbone'].name}' remembers only its window, and a decoder writes "
            "word by word, from its state. Instead: a backbone whose `memory` is exact."
        )
    encoder = config["encoder"].make(shapes)
    shapes = replace(shapes, memory=encoder.width)
    backbone, attention = _decoder(config, shapes)
    added = () if attention.width is None else (attention.width,)
    shapes = replace(shapes, layers=(*backbone.widths, *added))
    if encoder.shares_words:
        _check_shared_words(config)
    source = None if encoder.shares_words else _embedding(config, shapes.source_vocabulary, shapes)
    parts = _parts(config, shapes)
    return EncoderDecoder(source, encoder, attention, **parts, backbone=backbone)


def _decoder(config: Config, shapes: Shapes) -> tuple[Backbone, Attention]:
    """The backbone and the attention over it. If attention feeds its output back, the backbone's
    inputs are wider; its own layers are not."""
    backbone = config["backbone"].make(shapes)
    attention = config["attention"].make(replace(shapes, layers=backbone.widths))
    if attention.feeds:
        wider = replace(shapes, embedding=shapes.embedding + attention.width)
        # Built a second time, since the attention's width depends on the backbone's layers.
        backbone = config["backbone"].make(wider)
    return backbone, attention


def _check_shared_words(config: Config) -> None:
    if not config.sections["corpus"].joint:
        raise CombinationError(
            "encoder.share_words = true gives both sides the same word vectors, and corpus.joint = "
            "false gives each side its own vocabulary. Instead: both true, or both false."
        )


def _parts(config: Config, shapes: Shapes) -> dict[str, Any]:
    """The word vectors, and what stands after the layers of `shapes`."""
    bridge = config["bridge"].make(replace(shapes, output=shapes.layers[-1]))
    shapes = replace(shapes, output=bridge.width)
    embedding = config.words.make(shapes, config.embedding)
    head, gate = config["head"].make(shapes), config["gate"].make(shapes)
    return {"embedding": embedding, "bridge": bridge, "head": head, "gate": gate, "shapes": shapes}


def _embedding(config: Config, vocabulary: int, shapes: Shapes) -> Embedding:
    own = config.embedding
    return Embedding(vocabulary, shapes.embedding, own.initial_range, own.initial_center)
