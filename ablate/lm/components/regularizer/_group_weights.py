"""A penalty's weight for each group of parameters of `LanguageModel.groups`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ablate.lm.components import CombinationError, LanguageModel, setting


@dataclass(frozen=True, kw_only=True)
class GroupWeights:
    """One weight per group, and one for all parameters. A parameter's weight is their sum."""

    everything: float = setting(0.0, doc="weight for all parameters", low=0)
    embedding: float = setting(
        0.0, doc="weight for the word vectors (and a tied output matrix)", low=0
    )
    output: float = setting(0.0, doc="weight for an untied output matrix", low=0)
    recurrent_input: float = setting(0.0, doc="weight for the layers' input matrices", low=0)
    recurrent: float = setting(0.0, doc="weight for the layers' recurrent matrices", low=0)
    mogrifier: float = setting(0.0, doc="weight for the Mogrifier's gating matrices", low=0)
    bridge: float = setting(0.0, doc="weight for the bridge (the dual layer)", low=0)
    head: float = setting(0.0, doc="weight for the head's other matrices (of a mixture)", low=0)
    gate: float = setting(0.0, doc="weight for the gate", low=0)
    bias: float = setting(0.0, doc="weight for all biases", low=0)

    @property
    def by_group(self) -> dict[str, float]:
        """The group weights that are not 0, without `everything`."""
        weights = {name: getattr(self, name) for name in GROUPS}
        return {name: weight for name, weight in weights.items() if weight}

    @property
    def off(self) -> bool:
        """Return whether no group has a weight."""
        return not self.everything and not self.by_group


GROUPS = tuple(name for name in GroupWeights.__dataclass_fields__ if name != "everything")


def weighted_parameters(
    weights: GroupWeights, model: LanguageModel
) -> list[tuple[float, nn.Parameter]]:
    """The trained parameters whose weight is not 0, with their weights."""
    weighted = [
        (weights.by_group.get(group, 0.0) + weights.everything, parameter)
        for group, named in model.groups().items()
        for _, parameter in named
        if parameter.requires_grad
    ]
    return [(weight, parameter) for weight, parameter in weighted if weight]


def weighted_sum(
    weights: GroupWeights, model: LanguageModel, measure: Callable[[Tensor], Tensor]
) -> Tensor | None:
    """The penalty: the sum of each parameter's measure, weighted; None if all weights are 0."""
    terms = [weight * measure(w) for weight, w in weighted_parameters(weights, model)]
    return torch.stack(terms).sum() if terms else None


def check(regularizer: str, weights: GroupWeights, model: LanguageModel) -> None:
    """Refuse a weight for a group that the model does not have."""
    known = sorted(model.groups())
    for name, weight in weights.by_group.items():
        if name not in known:
            raise CombinationError(
                f"regularizer.{regularizer}.{name} = {weight:g} has nothing to act on: the model "
                f"has no parameters in that group. Its groups: {', '.join(known)}. Instead: set "
                "it to 0."
            )
