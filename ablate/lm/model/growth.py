"""Which dimensions of a model's parameters grow with its width, and which parameters are tables.

The size of a dimension does not tell: a model of 256 units that reads 256 bytes has matrices of
256 x 256 between its layers, and tables of 256 x 256 before and after them. So a model is built
again, without memory, at twice its widths and once more with another vocabulary. What differs
there grows with the width, or has a number for every word.

Widths are the fields `size` and those that end with `units`, of the word vectors and of all slots,
and fields that a config names in `also_widths`. If a model cannot be built at other widths, or no
wider one comes of it, every dimension above 1 that is not one of words counts as one that grows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from ablate.config.config import Config
from ablate.errors import AblateError

# Builds the same model at so many times its widths, and with so many further words.
Again = Callable[[int, int], nn.Module]
LOOKED_UP = ("embedding.", "source.")  # parts of a model that make word vectors


@dataclass(frozen=True)
class Growth:
    """Of the parameters of one model: `grows` says of each dimension whether it grows with the
    width; `tables` have a number or a vector for every word, or for every position."""

    grows: Mapping[nn.Parameter, tuple[bool, ...]]
    tables: frozenset[nn.Parameter]
    known: bool  # whether the model was built at other widths

    @property
    def between(self) -> set[nn.Parameter]:
        """The parameters of two dimensions or more that are no tables, between word vectors and
        output."""
        return {p for p in self.grows if p.dim() > 1 and p not in self.tables}

    @property
    def hidden(self) -> set[nn.Parameter]:
        """The matrices of `between` whose inputs and outputs both grow."""
        return {p for p in self.between if p.dim() == 2 and all(self.grows[p])}


def growth_of(model: nn.Module) -> Growth:
    """What grows in a model. A module that is not an assembled model has no words."""
    again: Again | None = getattr(model, "again", None)
    of_words = set() if again is None else _over_words(model, again)
    wider = None if again is None else _wider(model, again)
    named = dict(model.named_parameters())
    if wider is None:
        grows = {p: tuple(n > 1 for n in p.shape) for p in named.values()}
    else:
        shapes = _shapes(wider)
        grows = {p: _differs(p.shape, shapes.get(name, p.shape)) for name, p in named.items()}
    words = {p for name, p in named.items() if name.startswith(LOOKED_UP)}
    tables = of_words | words | _looked_up(model)
    return Growth(grows, frozenset(tables), wider is not None)


def matrices_between(model: nn.Module) -> set[nn.Parameter]:
    """The matrices between word vectors and output."""
    return {parameter for parameter in growth_of(model).between if parameter.dim() == 2}


def hidden_matrices(model: nn.Module) -> set[nn.Parameter]:
    """The matrices between word vectors and output whose inputs and outputs both grow with the
    width."""
    return growth_of(model).hidden


def is_width(name: str, config: Any = None) -> bool:
    """Whether a field of this name is a width in a config."""
    return name == "size" or name.endswith("units") or name in getattr(config, "also_widths", ())


def widened(config: Config, factor: int) -> Config:
    """A config whose widths are so many times as large."""
    embedding = _widened(config.embedding, factor)
    slots = {
        slot: dataclasses.replace(choice, config=_widened(choice.config, factor))
        for slot, choice in config.slots.items()
    }
    sections = {**config.sections, "embedding": embedding}
    return dataclasses.replace(config, sections=sections, slots=slots)


def _widened(part: Any, factor: int) -> Any:
    own = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    wide = {name: _times(value, factor) for name, value in own.items() if is_width(name, part)}
    return dataclasses.replace(part, **wide)


def _times(value: Any, factor: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_times(each, factor) for each in value)
    return value * factor if isinstance(value, int) else value


def _wider(model: Any, again: Again) -> Any:
    """The model at twice its widths; None if some layer is not wider there."""
    try:
        wider: Any = again(2, 0)
    except (AblateError, RuntimeError, TypeError, ValueError):  # a technique of the user's own
        return None
    pairs = zip(model.shapes.layers, wider.shapes.layers, strict=True)
    return wider if all(own < other for own, other in pairs) else None


def _over_words(model: nn.Module, again: Again) -> set[nn.Parameter]:
    """The parameters whose shape depends on the vocabulary."""
    shapes = _shapes(again(1, 1))
    named = model.named_parameters()
    return {p for name, p in named if any(_differs(p.shape, shapes.get(name, p.shape)))}


def _shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def _differs(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[bool, ...]:
    return tuple(own != size for own, size in zip(shape, other, strict=True))


def _looked_up(part: nn.Module) -> set[nn.Parameter]:
    """The parameters that are looked up, such as learned positions."""
    return {
        parameter
        for module in part.modules()
        for parameter in module.parameters(recurse=False)
        if parameter.numel() == getattr(module, "looked_up", 0)
    }
