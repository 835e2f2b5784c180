"""How evenly a mixture uses its components (Takase et al. 2018, Table 4).

    sqrt(beta) = std(p) / mean(p),    p_j = mean over the split's tokens of component j's prior

the root of Eq. 10 over a whole split; 0 where all are used alike. The standard deviation is that of
the components as a whole population.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ablate.analysis import Analysis, Finding
from ablate.analysis.drawing import COLOURS, GREY, HATCHES
from ablate.analysis.subject import Subject
from ablate.components.head.doc import experts_by_layer
from ablate.components.regularizer.mixture_balance import squared_variation_of_paper
from ablate.errors import CombinationError
from ablate.fields import setting


@dataclass(frozen=True, kw_only=True)
class MixtureUseOptions:
    """Over which tokens."""

    split: str = setting("valid", doc="whose tokens are read", choices=("valid", "test"))
    rows: int = setting(10, doc="rows that are read side by side, each from a state of 0", low=1)


def coefficient_of_variation(prior_J: Tensor) -> float:
    """std / mean of the components' (mean, or summed) priors."""
    return float(squared_variation_of_paper(prior_J[None, None]).sqrt())


def run(subject: Subject, options: MixtureUseOptions) -> Finding:
    """Mean prior of a mixture's components, and how it varies."""
    prior_J = _mean_prior(subject, options)
    layers = _layers(subject, len(prior_J))
    variation = coefficient_of_variation(prior_J)

    def draw(axes: Any) -> None:
        kinds = sorted(set(layers), key=layers.index)
        for index, kind in enumerate(kinds):
            places = [place for place, layer in enumerate(layers, 1) if layer == kind]
            look = {"color": COLOURS[index % 6], "hatch": HATCHES[index % 2], "edgecolor": "white"}
            axes.bar(places, prior_J[torch.tensor(places) - 1].tolist(), label=kind, **look)
        axes.axhline(1 / len(prior_J), color=GREY, linestyle="--", linewidth=1, label="even use")
        axes.set(xlabel="component", ylabel="mean prior")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(frameon=False, fontsize="small", ncols=3)

    return Finding(
        title=f"Use of the mixture's components over {options.split}: {subject.name}",
        columns=["component", "from", "mean prior"],
        rows=[
            [number, layer, prior]
            for number, (layer, prior) in enumerate(zip(layers, prior_J.tolist(), strict=True), 1)
        ],
        notes=[f"coefficient of variation {variation:.4f}"],
        draw=draw,
    )


def _mean_prior(subject: Subject, options: MixtureUseOptions) -> Tensor:
    total, num = torch.zeros((), dtype=torch.float64), 0
    for passed in subject.passes(options.split, rows=options.rows):
        log_prior_NJ = passed.mixture.log_prior_NJ
        if log_prior_NJ is None:
            raise CombinationError(
                f"trial {subject.id} has head = '{subject.config['head'].name}', which is one "
                "softmax and has no weights to look at. Allowed: a mixture (mos, doc, or a gate "
                "over several models)."
            )
        total = total + log_prior_NJ.exp().sum(0)
        num += len(log_prior_NJ)
    return total / num


def _layers(subject: Subject, num: int) -> list[str]:
    """What each component is computed from, in the components' order."""
    model, chosen = subject.model, subject.config["head"]
    if model.members:
        each = num // len(model.members)
        names = (f"model {number}" for number in range(1, len(model.members) + 1))
        uneven = num % len(model.members)  # members of different heads
        return ["members"] * num if uneven else [name for name in names for _ in range(each)]
    num_layers = len(model.shapes.layers)
    if chosen.name != "doc":
        return [f"layer {num_layers}"] * num
    by_layer = experts_by_layer(chosen.config.experts, num_layers).items()
    names = [f"layer {layer}" if layer else "embedding" for layer, _ in by_layer]
    return [name for name, (_, count) in zip(names, by_layer, strict=True) for _ in range(count)]


ANALYSIS = Analysis(
    run=run, options=MixtureUseOptions, paper="takase2018doc", equation="Table 4, Eq. 10"
)
