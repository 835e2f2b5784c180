"""Every technique in a model: builds, repeats, is saved and loaded, and shares its draws."""

from __future__ import annotations

import pytest
import torch

from ablate import registry
from ablate.assemble import assemble, count_parameters
from ablate.components.mixture import log_probs
from ablate.streams import Streams

MODEL_SLOTS = ("backbone", "bridge", "head", "gate")
EVERY = [(slot, name) for slot in MODEL_SLOTS for name in registry.names(slot)]


@pytest.fixture(params=EVERY, ids=[f"{slot}-{name}" for slot, name in EVERY])
def chosen(request) -> dict[str, str]:
    slot, name = request.param
    return {slot: name}


def test_it_is_assembled_without_memory(small, chosen):
    model = small(**chosen)
    on_meta = assemble(model.config, 23, "meta").model
    assert all(p.is_meta for p in on_meta.parameters())
    expected = sum(p.numel() for p in model.model.parameters())
    assert count_parameters(model.config, 23) == expected


def test_every_parameter_is_drawn_and_given_a_gradient(small, chosen):
    model = small(**chosen)
    for parameter in model.model.parameters():
        parameter.data.fill_(torch.nan)
    model.model.initialize(Streams(1))
    assert all(torch.isfinite(p).all() for p in model.model.parameters())
    gradients = model.gradients()
    assert gradients.keys() == {name for name, _ in model.model.named_parameters()}
    assert all(torch.isfinite(g).all() for g in gradients.values())


def test_the_same_seed_gives_the_same_bits(small, chosen):
    first, second = (small(**chosen, dtype=torch.float32) for _ in range(2))
    assert torch.equal(log_probs(first.run().mixture), log_probs(second.run().mixture))
    ours, theirs = first.gradients(), second.gradients()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_it_is_saved_and_loaded(small, chosen):
    first, second = small(**chosen), small(**chosen, seed=2)
    second.model.load_state_dict(first.model.state_dict())
    assert torch.equal(log_probs(first.run().mixture), log_probs(second.run().mixture))


def test_parameters_of_one_name_and_shape_start_alike_in_any_model(small, chosen):
    ours = dict(small(**chosen).model.named_parameters())
    for other in ({}, {"head": "mos"}, {"head": "doc"}):
        theirs = dict(small(**other).model.named_parameters())
        for name in ours.keys() & theirs.keys():
            of_another_technique = name.partition(".")[0] in chosen
            if ours[name].shape == theirs[name].shape and not of_another_technique:
                assert torch.equal(ours[name], theirs[name]), name
    assert "embedding.weight" in ours
