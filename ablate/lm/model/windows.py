"""Refuse lengths of windows that a backbone cannot read, and strides that would change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ablate.config import fields, registry
from ablate.config.config import Config
from ablate.errors import CombinationError
from ablate.lm.model.slots import Backbone
from ablate.lm.sections import TrainingConfig

STRIDE, WINDOW = "stride", "window"  # ends of the names of fields that belong together
ADAPTING = ("evaluator.dynamic", "evaluator.monte_carlo")  # whose windows are part of every id


def check_windows(config: Config, backbone: Backbone) -> None:
    """Check every length that the config has for training and for evaluation."""
    training = config.training
    if not isinstance(training, TrainingConfig):  # sentences are their own windows
        return
    lengths = dict(_lengths(config))
    for name, stride in lengths.items():
        if name.endswith(STRIDE) and stride is not None:
            _check_stride(config, name, stride, lengths)
    if backbone.longest_window is not None:
        _check_longest(config, training, lengths, backbone.longest_window)
    if training.state_reset and not backbone.initial_state(1):
        raise CombinationError(
            f"training.state_reset = {training.state_reset:g} resets states, and backbone "
            f"'{config['backbone'].name}' has none. Instead: state_reset = 0."
        )


def _lengths(config: Config) -> Iterator[tuple[str, int | None]]:
    """Yield every length of an evaluated window, and every stride."""
    parts = {**_first_evaluator(config), **config.parts}
    for part, own in parts.items():
        for name, length in fields.window_lengths(own).items():
            yield f"{part}.{name}", length
        if part in ADAPTING:
            yield f"{part}.{WINDOW}", own.window


def _first_evaluator(config: Config) -> dict[str, Any]:
    """The evaluator that gives a trial's numbers, which the config may leave at its defaults."""
    name = config.first_evaluator
    return {f"evaluator.{name}": registry.get("evaluator", name).config()}


def _check_stride(config: Config, name: str, stride: int, lengths: dict[str, int | None]) -> None:
    backbone, of = config["backbone"].name, name.removesuffix(STRIDE) + WINDOW
    window = lengths[of]
    if not config.by_window:
        raise CombinationError(
            f"{name} = {stride} lets windows overlap, so that more of the text is read before a "
            f"token, and backbone '{backbone}' remembers all of it. Instead: no stride."
        )
    if window is not None and stride >= window:
        raise CombinationError(
            f"{name} = {stride} and {of} = {window}: such windows do not overlap. Instead: a "
            f"stride below {window}, or none."
        )


def _check_longest(
    config: Config, training: TrainingConfig, lengths: dict[str, int | None], longest: int
) -> None:
    """Refuse windows that are longer than the longest that the backbone can read."""
    trained = {"training.window": training.window}
    if training.variable_window and training.max_window_excess is not None:
        # Lengths are drawn, and cut off only there.
        at_most = training.window + training.max_window_excess
        trained = {"training.window + training.max_window_excess": at_most}
    for name, length in {**trained, **lengths}.items():
        if length is not None and length > longest:
            raise CombinationError(
                f"{name} = {length} steps, and backbone '{config['backbone'].name}' can read "
                f"{longest} at once, as it is set. Instead: shorter windows, or a backbone that "
                "reads longer ones (a transformer: backbone.context)."
            )
    if training.variable_window and training.max_window_excess is None:
        raise CombinationError(
            "training.variable_window = true draws lengths without a limit, and backbone "
            f"'{config['backbone'].name}' can read {longest} steps at once. Instead: "
            "training.max_window_excess, or windows of one length."
        )
