"""What every regularizer owes: off is exactly the identity, and on it repeats."""

from __future__ import annotations

import pytest
import torch

from ablate import registry
from ablate.components.regularizer import Chance, Masks
from ablate.config import resolve
from ablate.fields import describe
from ablate.streams import Streams

pytestmark = pytest.mark.parametrize("name", registry.names("regularizer"))
SITES = ("input", "hidden/1", "hidden/2", "output", "latent", "gate_input", "recurrent/1")

LACKING = dict.fromkeys(("l1", "l2"), ("output", "mogrifier", "bridge", "gate"))
BESIDE = {"fraternal_dropout": {"regularizer.variational_dropout.output": 0.5}}  # to compare


def switched_on(name: str) -> dict[str, float]:
    """Every number of its config at 0.5, or the nearest that is allowed; but for groups of
    parameters that the small model does not have."""
    numbers = [f for f in describe(registry.get("regularizer", name).config) if f.type == "number"]
    numbers = [field for field in numbers if field.name not in LACKING.get(name, ())]
    values = {}
    for field in numbers:
        low, high = field.limits.low or 0.0, field.limits.high
        values[f"regularizer.{name}.{field.name}"] = min(max(0.5, low), high or 0.5)
    return values


def masks_of(given, update=0, twin=0):
    return Masks(given.regularizers, Chance(Streams(3), update, twin))


def loss_with(given, update=0):
    passed = given.run(masks_of(given, update))
    chance = Chance(Streams(3), update)
    total = given.loss(passed, given.targets, given.model.embedding.weight, chance)
    for regularizer in given.regularizers:
        penalty = regularizer.penalty(passed, given.model)
        if penalty is not None:
            assert penalty.shape == ()
            total = total + penalty
        passes = [passed, *(given.run(masks_of(given, update, twin)) for twin in (1,))]
        between = regularizer.between(passes) if regularizer.num_passes > 1 else None
        if between is not None:
            assert between.shape == ()
            total = total + between
    return total


def test_off_is_exactly_the_identity(small, name):
    technique = registry.get("regularizer", name)
    regularizer = technique.build(technique.config())
    given = small(head="mos")
    before = [p.detach().clone() for p in given.model.parameters()]
    x, chance = torch.randn(4, 3, 8), Chance(Streams(1), 0)
    assert all(regularizer.mask(site, x, chance) is x for site in SITES)
    assert all(regularizer.held(site, (1, 3, 8), x, chance) is None for site in SITES)
    assert regularizer.weight("weight_hh_l0", x, chance) is x
    assert regularizer.words(torch.zeros(4, 3, dtype=torch.long), x, 23, chance) is x
    assert regularizer.penalty(given.run(), given.model) is None
    assert regularizer.num_passes == 1
    regularizer.project(given.model)
    after = list(given.model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_off_leaves_no_trace_in_an_identity(small, name):
    field = describe(registry.get("regularizer", name).config)[0]
    values = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd"}
    off = {**values, f"regularizer.{name}.{field.name}": field.default}
    assert resolve(off).identity == resolve(values).identity


def test_on_it_repeats_and_its_gradients_are_finite(small, name):
    given = small(switched_on(name), head="mos", dtype=torch.float32)
    assert len(given.regularizers) == 1
    first, second = loss_with(given), loss_with(given)
    assert torch.equal(first, second)
    first.backward()
    assert all(torch.isfinite(p.grad).all() for p in given.model.parameters())


def test_on_it_does_something(small, name):
    beside = BESIDE.get(name, {})
    on, off = small({**switched_on(name), **beside}, head="mos"), small(beside, head="mos")
    before = [p.detach().clone() for p in on.model.parameters()]
    for regularizer in on.regularizers:
        regularizer.project(on.model)
    after = on.model.parameters()
    moved = any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert moved or not torch.equal(loss_with(on), loss_with(off))
