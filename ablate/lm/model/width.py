"""muP: settings that are tuned at one width hold at others (Yang et al. 2022, Table 8).

With s = base width / width, at the start:

    hidden matrices    standard deviation as at the base width * sqrt(s)
    thin matrices      standard deviation as at the base width * s
    output             logits = s (h W') + bias, where W starts as at the base width
    all others         as at the base width: word vectors (also tied ones), biases, gains

A thin matrix has outputs that do not grow (a mixture's prior, one row for each head, the first
factor of a low rank); the paper's table calls them output weights, and so their rates are.

What does not start at random (a forget gate's bias, a decay, a gain) is never scaled: `by_width`
scales a draw's range, and not what it became. A range that a setting gives is scaled as above; one
of 1/sqrt(units) is right for hidden matrices as it is, and is kept from falling elsewhere.

The rate is that of the base width, times

                                                           Adam's steps    gradients (SGD)
    hidden matrices                                              s                1
    word vectors and output matrix, biases and gains             1               1/s
    the output's bias                                            1                1

Adam's steps have the size of the rate. A gradient is smaller the more units share an effect, and
the product with W's inputs adds up over them: its rate is times (outputs / inputs of W), each as a
multiple of that at the base width, and the s before the logits makes the output's the inverse. So
for SGD, s goes with a matrix of few outputs (a mixture's prior), and 1/s with one of few inputs.

The width is that of the last layer. Those of all layers and of the word vectors are expected to be
in the same proportion to what they are at the base width. What grows with them is found by building
the model at other widths (`ablate/lm/model/growth.py`). A matrix whose inputs do not grow is no
hidden one here: these are ranks, experts, heads.

Products of queries and keys are not changed: 1/sqrt(their size) is right for more heads of the same
size, and not for wider heads.
"""

from __future__ import annotations

from typing import Any

from ablate.config.config import Config
from ablate.errors import CombinationError
from ablate.lm.model.growth import Growth, growth_of


def by_width(parameter: Any, falls: float) -> float:
    """What multiplies the range of a parameter's random draw: 1 without a base width. `falls`: the
    range itself falls as width^-falls (0: a number; 1/2: one over the root of the units)."""
    share, wanted = getattr(parameter, "first_values", (1.0, 0.0))
    return share ** (wanted - falls)


def first_range(parameter: Any, given: float | None, units: int) -> float:
    """Within what a parameter starts uniform: `given`, or 1/sqrt(units) if it is none; as muP has
    it if there is a base width."""
    if given is None:
        return units**-0.5 * by_width(parameter, 0.5)
    return given * by_width(parameter, 0.0)


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
    words = config.slots["words"].name if "words" in config.slots else "table"
    if optimizer.technique.build.follows_gradients and words != "table":
        raise CombinationError(
            f"{given}, and for the layers of words = '{words}' there is no rule with optimizer = "
            f"'{optimizer.name}'. Instead: words = 'table', 'adamw', or leave base_width out."
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
    growth = growth_of(model)
    if not growth.known:
        raise CombinationError(_unknown(base, config))
    hidden = {parameter for parameter in growth.between if growth.grows[parameter][-1]}
    for parameter in model.parameters():
        fall = 0.5 if any(growth.grows[parameter][:-1]) else 1.0  # of a thin one: with the width
        parameter.first_values = (share, fall if parameter in hidden else 0.0)
    if config["optimizer"].technique.build.follows_gradients:
        _scale_gradients(growth, share)
        return
    matrices = growth.hidden
    for parameter in hidden:
        # What Muon does not train (a window's weights, a mixture's prior) is AdamW's.
        parameter.width_scale = share ** (power if parameter in matrices else 1.0)


def _unknown(base: int, config: Config) -> str:
    return (
        f"training.base_width = {base} needs to know what grows with the width, and no wider model "
        f"came of doubling the fields `size` and `...units` of backbone "
        f"'{config['backbone'].name}' and the other slots. Instead: widths under such names, or "
        "named in `also_widths` of the technique's config; or leave base_width out."
    )


def _scale_gradients(growth: Growth, share: float) -> None:
    """Rates for steps that are multiples of gradients."""
    between = growth.between
    for parameter, grows in growth.grows.items():
        last, others = any(grows[-1:]), any(grows[:-1])
        power = last - others if parameter in between else -last
        parameter.width_scale = share**power  # type: ignore[attr-defined]


def _power(config: Config) -> float | None:
    choice = config["optimizer"]
    technique: Any = choice.technique.build
    return technique.width_power(choice.config)
