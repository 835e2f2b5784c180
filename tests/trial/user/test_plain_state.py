"""States of users' objects survive JSON and tensors bit for bit."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from ablate.errors import TrialError
from ablate.trial.user.plain_state import join, load_state, read_state, split


def through_a_file(state):
    """What a checkpoint does to a state: tensors on their own, the rest as JSON."""
    tensors = {}
    rest = json.loads(json.dumps(split(state, tensors)))
    return join(rest, tensors)


def trained(optimizer_class, **options):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = optimizer_class(model.parameters(), lr=0.1, **options)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 3)).square().mean().backward()
        optimizer.step()
        schedule.step()
    return model, optimizer, schedule


@pytest.mark.parametrize(
    "optimizer_class, options",
    [(torch.optim.Adam, {}), (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.AdamW, {})],
)
def test_modules_optimizers_and_schedules_go_on_with_the_same_bits(optimizer_class, options):
    things = trained(optimizer_class, **options)
    states = [through_a_file(read_state(thing)) for thing in things]
    fresh = trained(optimizer_class, **options)
    with torch.no_grad():
        for parameter in fresh[0].parameters():
            parameter.fill_(9)
    for thing, state in zip(fresh, states, strict=True):
        load_state(thing, state)
    for model, optimizer, schedule in (things, fresh):
        torch.manual_seed(2)
        optimizer.zero_grad()
        model(torch.randn(8, 3)).square().mean().backward()
        optimizer.step()
        schedule.step()
    for one, other in zip(*(t[0].state_dict().values() for t in (things, fresh)), strict=True):
        assert torch.equal(one, other)
    assert things[1].param_groups[0]["lr"] == fresh[1].param_groups[0]["lr"]


def test_generators_and_arrays_go_on_with_the_same_bits():
    made, array = np.random.default_rng(1), np.arange(3.0)
    drawn = torch.Generator().manual_seed(1)
    made.normal(size=5), torch.rand(5, generator=drawn)
    states = [through_a_file(read_state(thing)) for thing in (made, array, drawn)]
    expected = made.normal(size=2), array.copy(), torch.rand(2, generator=drawn)
    array += 1
    for thing, state in zip((made, array, drawn), states, strict=True):
        load_state(thing, state)
    assert np.array_equal(made.normal(size=2), expected[0])
    assert np.array_equal(array, expected[1])
    assert torch.equal(torch.rand(2, generator=drawn), expected[2])


def test_containers_keep_their_types():
    state = {1: (2.5, None), "a": [True, {"b": np.float32(0.5)}], "c": "text"}
    assert through_a_file(state) == {1: (2.5, None), "a": [True, {"b": 0.5}], "c": "text"}


def test_what_cannot_be_saved_is_named():
    with pytest.raises(TrialError, match="cannot save a list"):
        read_state([1])
    with pytest.raises(TrialError, match="contains a builtin_function"):
        split({"best": len, "f": test_containers_keep_their_types}, {})
