"""A penalty's weight for each group of parameters, as `LanguageModel.groups` tells them apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from ablate.errors import CombinationError
from ablate.fields import setting

if TYPE_CHECKING:
    from ablate.model import LanguageModel


@dataclass(frozen=True, kw_only=True)
class GroupWeights:
    """One weight a group, and one for all of them. A parameter has the sum of its two."""

    everything: float = setting(0.0, doc="of every parameter", low=0)
    embedding: float = setting(0.0, doc="of the word vectors, and a tied output matrix", low=0)
    output: float = setting(0.0, doc="of an output matrix that is not tied", low=0)
    recurrent_input: float = setting(0.0, doc="of what layers read their input with", low=0)
    recurrent: float = setting(0.0, doc="of what layers read their last state with", low=0)
    mogrifier: float = setting(0.0, doc="of the Mogrifier's gating matrices", low=0)
    bridge: float = setting(0.0, doc="of the bridge (the dual layer)", low=0)
    head: float = setting(0.0, doc="of the head's other matrices (a mixture's, say)", low=0)
    gate: float = setting(0.0, doc="of the gate", low=0)
    bias: float = setting(0.0, doc="of biases", low=0)

    @property
    def by_group(self) -> dict[str, float]:
        """The weights that are not 0, without the one for everything."""
        given = {name: getattr(self, name) for name in GROUPS}
        return {name: weight for name, weight in given.items() if weight}

    @property
    def off(self) -> bool:
        return not self.everything and not self.by_group


GROUPS = tuple(name for name in GroupWeights.__dataclass_fields__ if name != "everything")


def weighted_parameters(
    weights: GroupWeights, model: LanguageModel
) -> list[tuple[float, nn.Parameter]]:
    """Each parameter that is trained and has a weight, with its weight."""
    by_group = weights.by_group
    found = [
        (by_group.get(group, 0.0) + weights.everything, parameter)
        for group, named in model.groups().items()
        for _, parameter in named
        if parameter.requires_grad
    ]
    return [(weight, parameter) for weight, parameter in found if weight]


def check_groups(regularizer: str, weights: GroupWeights, model: LanguageModel) -> None:
    """Refuse a weight for a group that the model does not have."""
    known = sorted(model.groups())
    for name, weight in weights.by_group.items():
        if name not in known:
            raise CombinationError(
                f"regularizer.{regularizer}.{name} = {weight:g} has nothing to act on: the model "
                f"has no parameters of that group. It has: {', '.join(known)}. Set it to 0."
            )
