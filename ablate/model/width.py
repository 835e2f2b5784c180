"""muP: settings that are tuned at one width hold at others (Yang et al. 2022, Table 8).

With s = base width / width, for optimizers whose steps have the size of the rate (Adam's):

    hidden matrices    rate * s, standard deviation at the start as at the base width * sqrt(s)
    output             logits = s (h W') + bias, where W starts and learns as at the base width
    all others         as at the base width: word vectors (also tied ones), biases, gains

The width is that of the last layer. Those of all layers and of the word vectors are expected to be
in the same proportion to what they are at the base width. A matrix with fewer inputs than the
narrowest of them is no hidden one here, since its inputs do not grow with the width.

Products of queries and keys are not changed: 1/sqrt(their size) is right for more heads of the same
size, and not for wider heads.
"""

from __future__ import annotations

from typing import Any, cast

from torch import nn

from ablate.config.config import Config
from ablate.errors import CombinationError

DRAWN = ("backbone", "bridge", "encoder")  # slots whose `initial_range` is that of hidden matrices


def hidden_matrices(model: nn.Module) -> set[nn.Parameter]:
    """The matrices between word vectors and output: of two dimensions, without a row for every
    word."""
    return {parameter for parameter in _hidden(model) if parameter.dim() == 2}


def check_base_width(config: Config) -> None:
    """Refuse a base width for what muP has no rule for."""
    base = config.training.base_width
    if base is None:
        return
    optimizer, gate = config["optimizer"], config["gate"]
    given = f"training.base_width = {base} scales rates and initial weights with the width"
    if _power(config) is None:
        raise CombinationError(
            f"{given}, and for optimizer = '{optimizer.name}' there is no rule for that. Instead: "
            "an optimizer that has one, such as 'adamw' or 'muon', or leave base_width out."
        )
    if gate.name != "none":
        raise CombinationError(
            f"{given}, and for gate = '{gate.name}' there is no rule for that. Instead: gate = "
            "'none', or leave base_width out."
        )
    if getattr(config["backbone"].config, "recurrent_range", None) is not None:
        raise CombinationError(
            f"{given}, and backbone.recurrent_range sets those of some matrices alone. Instead: "
            "only backbone.initial_range, or leave base_width out."
        )


def scale_by_width(model: Any, config: Config) -> None:
    """Tell the model and its parameters what muP multiplies, if the config has a base width."""
    base, power = config.training.base_width, _power(config)
    if base is None or power is None:
        return
    share = base / model.shapes.layers[-1]
    model.output_scale = share
    narrowest = min(model.shapes.embedding, *model.shapes.layers)
    hidden = {parameter for parameter in _hidden(model) if parameter.shape[-1] >= narrowest}
    for parameter in hidden:
        # What Muon does not train, because it is no matrix (a window's weights), is AdamW's.
        parameter.width_scale = share ** (power if parameter.dim() == 2 else 1.0)
    for slot in DRAWN:
        if slot in config.slots:
            _scale_initial(getattr(model, slot), config[slot].config, share, hidden)


def _scale_initial(part: nn.Module, config: Any, share: float, hidden: set[nn.Parameter]) -> None:
    """Make a range that is a number right for matrices, and one of 1/sqrt(units), as matrices need
    it, right for biases and tables."""
    wide = getattr(config, "initial_range", None) is not None
    uniform = getattr(config, "initialization", "uniform") == "uniform"
    tables, every = _tables(part), cast(dict[str, Any], dict(part.named_parameters()))
    for name, parameter in every.items():
        bias = name.rpartition(".")[2].startswith("bias")  # torch's names, which layers have
        if wide and parameter in hidden:
            parameter.initial_scale = share**0.5
        elif not wide and uniform and (bias or parameter in tables):
            parameter.initial_scale = share**-0.5


def _power(config: Config) -> float | None:
    choice = config["optimizer"]
    technique: Any = choice.technique.build
    return technique.width_power(choice.config)


def _hidden(model: nn.Module) -> set[Any]:
    """The parameters of two dimensions or more, without those of words and other tables."""
    tables = _tables(model)
    shapes = getattr(model, "shapes", None)
    words = () if shapes is None else (shapes.vocabulary, shapes.source_vocabulary)
    return {
        parameter
        for name, parameter in model.named_parameters()
        if parameter.dim() > 1
        and parameter.shape[0] not in words
        and parameter not in tables
        and not name.startswith(("embedding.", "source."))
    }


def _tables(part: nn.Module) -> set[nn.Parameter]:
    """The parameters that are looked up, such as learned positions."""
    return {
        parameter
        for module in part.modules()
        for parameter in module.parameters(recurse=False)
        if parameter.numel() == getattr(module, "looked_up", 0)
    }
