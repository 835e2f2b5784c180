"""The contracts of every regularizer: the exact identity when off, repeatable when on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ablate.config.fields import describe
from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.lm.model.assemble import assemble
from ablate.lm.model.masks import Chance, Masks
from ablate.lm.testing.subject import (
    NUM_TOKENS,
    VOCABULARY,
    SmallModel,
    Subject,
    require,
    require_equal,
    require_finite,
    weights,
)

SITES = ("input", "hidden/1", "hidden/2", "output", "latent", "gate_input", "recurrent/1")
MODEL = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd"}


def off_is_the_identity(subject: Subject) -> None:
    """At its defaults it changes nothing: not a bit, not an object."""
    off = subject.technique.build(subject.technique.config())
    small, x, chance = SmallModel({"head": "mos"}), torch.randn(4, 3, 8), Chance(Streams(1), 0)
    before = weights(small.model)
    for site in SITES:
        require(off.mask(site, x, chance) is x, f"mask() acts at {site}.")
        require(off.locked(site, (1, 3, 8), x, chance) is None, f"locked() acts at {site}.")
    require(off.weight("weight_hh_l0", x, chance) is x, "weight() acts.")
    ids = torch.zeros(4, 3, dtype=torch.long)
    require(off.words(ids, x, VOCABULARY, chance) is x, "words() acts.")
    require(off.penalty(small.run(), small.model) is None, "penalty() returns a term.")
    require(off.auxiliary(small.model, small.text) is None, "auxiliary() has parameters.")
    require(off.num_passes == 1, f"{off.num_passes} passes instead of 1.")
    require(off.operations(small.model, NUM_TOKENS, 1) == 0, "operations() counts some.")
    off.project(small.model)
    require_equal(before, weights(small.model), "changed by project()")


def off_leaves_no_trace(subject: Subject) -> None:
    """Setting a field to its default does not change a trial's id."""
    field = describe(subject.technique.config)[0]
    off = {**MODEL, subject.prefix + field.name: field.default}
    same = resolve(off).identity == resolve(MODEL).identity
    require(same, f"{field.name} = {field.default!r} changes the trial's id.")


def on_it_repeats(subject: Subject) -> None:
    """When on, the same streams give the same loss, and finite gradients."""
    small = _model(subject.switched_on, torch.float32)
    require(bool(small.regularizers), "none of its numbers switches it on.")
    first, second = _loss(small), _loss(small)
    require(torch.equal(first, second), f"{first.item()}, then {second.item()}.")
    first.backward()
    gradients = {n: p.grad for n, p in small.model.named_parameters() if p.grad is not None}
    require_finite(gradients, "the gradients")


def its_own_parameters_are_drawn(subject: Subject) -> None:
    """Its own parameters, if it has any, are drawn by name, and can be built without memory."""
    small = _model(subject.switched_on)
    shapes = {name: p.shape for name, p in small.model.auxiliary.named_parameters()}
    for parameter in small.model.auxiliary.parameters():
        parameter.data.fill_(torch.nan)
    small.model.initialize(Streams(1))
    require_finite(dict(small.model.auxiliary.named_parameters()), "the initial values")
    on_meta = assemble(small.config, VOCABULARY, "meta").model.auxiliary
    require(all(p.is_meta for p in on_meta.parameters()), "some parameters are not on meta.")
    same = shapes == {name: p.shape for name, p in on_meta.named_parameters()}
    require(same, "other shapes without a text.")


def on_it_does_something(subject: Subject) -> None:
    """When on, it changes the loss or the parameters."""
    on, off = _model(subject.switched_on), _model(subject.others)
    before = weights(on.model)
    for regularizer in on.regularizers:
        regularizer.project(on.model)
    # Some act by projections alone, which no loss shows.
    moved = any(not torch.equal(p, before[name]) for name, p in on.model.named_parameters())
    require(moved or not torch.equal(_loss(on), _loss(off)), "it changes nothing.")


def strengths_are_numbers(subject: Subject) -> None:
    """It is off where all its numbers are 0; its other fields are text, or true or false.

    `compare --except` goes by this: it reads records, and knows no technique's config.
    """
    fields = describe(subject.technique.config)
    numbers = [field for field in fields if field.type.removeprefix("whole ").startswith("number")]
    on = [field.name for field in numbers if field.default]
    require(bool(numbers), "it has no field that is a number.")
    require(not on, f"not 0 by default: {', '.join(on)}.")
    types = {field.type for field in fields if field not in numbers}
    unexpected = types - {"text", "true or false"}
    require(not unexpected, f"fields of other types: {', '.join(sorted(unexpected))}.")


def _model(values: Mapping[str, Any], dtype: torch.dtype = torch.float64) -> SmallModel:
    return SmallModel({"head": "mos"}, values, dtype=dtype)


def _loss(small: SmallModel) -> Tensor:
    """The training loss of one update, with penalties and differences between passes."""
    chances = [Chance(Streams(3), 0, twin) for twin in (0, 1)]  # two passes, if any compares them
    passes = [small.run(Masks(small.regularizers, chance)) for chance in chances]
    weight = small.model.embedding.matrix()
    total = small.loss(passes[0], small.targets, weight, chances[0])
    for regularizer in small.regularizers:
        terms = [regularizer.penalty(passes[0], small.model)]
        if regularizer.num_passes > 1:
            terms.append(regularizer.between(passes))
        for term in terms:
            if term is not None:
                require(term.shape == (), f"a term has shape {tuple(term.shape)}.")
                total = total + term
    return total
