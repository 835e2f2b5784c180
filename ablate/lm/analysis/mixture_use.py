"""How evenly a mixture uses its experts (Takase et al. 2018, Table 4).

    sqrt(beta) = std(p) / mean(p),    p_j = mean over the split's tokens of expert j's prior

the square root of the beta of Eq. 12-13 over a whole split; 0 if all experts are used equally. The
standard deviation is that of the experts as a whole population.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ablate.compare.plots import style
from ablate.config.fields import setting
from ablate.errors import CombinationError
from ablate.lm.analysis import Analysis, Finding
from ablate.lm.analysis.drawing import bar_look
from ablate.lm.analysis.subject import Subject
from ablate.lm.components.evaluator.mixture_use import coefficient_of_variation, mean_prior
from ablate.lm.components.head.doc import experts_by_layer


@dataclass(frozen=True, kw_only=True)
class MixtureUseOptions:
    """The tokens to read."""

    split: str = setting("valid", doc="split to analyze", choices=("valid", "test"))
    rows: int = setting(10, doc="rows to read in parallel, each from a zero state", low=1)


def run(subject: Subject, options: MixtureUseOptions) -> Finding:
    """Mean prior of each expert of a mixture, and their variation."""
    prior_J = mean_prior(subject.passes(options.split, rows=options.rows))
    if prior_J is None:
        raise CombinationError(
            f"trial {subject.id} has head = '{subject.config['head'].name}', which is one "
            "softmax without priors. Instead: a mixture (mos, doc, or a gate over several models)."
        )
    layers = _layers(subject, len(prior_J))
    variation = coefficient_of_variation(prior_J)

    def draw(axes: Any) -> None:
        kinds = sorted(set(layers), key=layers.index)  # in the order of the experts
        for index, kind in enumerate(kinds):
            numbers = [number for number, layer in enumerate(layers, 1) if layer == kind]
            heights = prior_J[torch.tensor(numbers) - 1].tolist()  # experts are numbered from 1
            axes.bar(numbers, heights, label=kind, **bar_look(index))
        axes.axhline(
            1 / len(prior_J), color=style.GREY, linestyle="--", linewidth=1, label="even use"
        )
        axes.set(xlabel="expert", ylabel="mean prior")
        axes.xaxis.get_major_locator().set_params(integer=True)

    return Finding(
        title=f"Use of the mixture's experts over {options.split}: {subject.name}",
        columns=["expert", "from", "mean prior"],
        rows=[
            [number, layer, prior]
            for number, (layer, prior) in enumerate(zip(layers, prior_J.tolist(), strict=True), 1)
        ],
        notes=[f"coefficient of variation {variation:.4f}"],
        draw=draw,
    )


def _layers(subject: Subject, num: int) -> list[str]:
    """The layer or model that each expert reads, in the order of the experts."""
    model, chosen = subject.model, subject.config["head"]
    if model.members:
        per_member = num // len(model.members)
        names = (f"model {number}" for number in range(1, len(model.members) + 1))
        uneven = num % len(model.members)  # members with different heads
        return ["members"] * num if uneven else [name for name in names for _ in range(per_member)]
    num_layers = len(model.shapes.layers)
    if chosen.name != "doc":
        return [f"layer {num_layers}"] * num
    by_layer = experts_by_layer(chosen.config.experts, num_layers).items()
    names = [f"layer {layer}" if layer else "embedding" for layer, _ in by_layer]
    return [name for name, (_, count) in zip(names, by_layer, strict=True) for _ in range(count)]


ANALYSIS = Analysis(
    run=run, options=MixtureUseOptions, paper="takase2018doc", equation="Table 4, Eq. 12-13"
)
